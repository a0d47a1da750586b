// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "cmd/render/render.h"
#include "comparators/report/op_trail.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// The lines of JSON Lines, each with its newline.
std::string jsonl_header(const comparators::Report& report, const RenderOptions& options);
/// An operator that is not fine: every field of the JSON report's.
std::string jsonl_op(const comparators::OpDivergence& op);
/// Any other: its key, its indices and its state, and the outputs that differ within the policy.
std::string jsonl_fine_op(const comparators::OpDivergence& op, comparators::OpState state);
/// The warnings, and last the verdict.
/// @param shown  lines of jsonl_op() before it
std::string jsonl_end(const comparators::Report& report, std::uint64_t shown);

}  // namespace repro_check::cmd
