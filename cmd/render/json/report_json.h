// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "cmd/render/json/json_text.h"
#include "cmd/render/render.h"
#include "comparators/report/op_trail.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

inline constexpr const char* kReportVersion = "1.6";

/// The object that render_json() writes, for documents that hold it.
Json json_report(const comparators::Report& report, const RenderOptions& options);
/// The inverse, of an object that is a report of this version. Throws as JsonReader does.
/// @param gate  what it says of a gate, where it is about one
void read_report(const Json& json,
                 comparators::Report& report,
                 std::string& hdf5_version,
                 GateOutcome& gate);

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
