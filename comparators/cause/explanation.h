// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "comparators/report/report.h"

namespace repro_check::comparators {

/// The call that a replay can explain, on both sides.
struct ExplainedCall {
  std::uint64_t baseline_op = 0;
  std::uint64_t candidate_op = 0;
};

/// The first divergence where it is an origin that both sides called, else the first origin of the
/// report that is. Empty when nothing diverged, or the streams part there.
std::optional<ExplainedCall> call_to_explain(const Report& report);

/// Puts what a replay found into the report, in sentences, and decides by it what was only likely:
/// an operator that by itself gives several results for one input is a nondeterministic kernel,
/// confirmed, and that stands before differing layout, settings, environment and thread counts,
/// which then are not what it takes. One that repeats leaves the cause likely, and says so.
void explain(ReplayEvidence evidence, Report& report);

}  // namespace repro_check::comparators
