// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"

namespace repro_check::comparators::detail {

/// Counts one matched operator.
void count_outcome(OpOutcome outcome, Coverage& coverage) noexcept;

/// Counts its outputs.
void count_outputs(const OpFindings& findings, Coverage& coverage) noexcept;

/// @throws core::Error{kInternal} when the sums of Coverage do not hold
void check_coverage(const Coverage& coverage, std::uint64_t matched);

}  // namespace repro_check::comparators::detail
