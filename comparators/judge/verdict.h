// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"
#include "core/exit_code.h"

namespace repro_check::comparators {

/// @throws core::Error{kInternal} when the sums of Coverage do not hold
void check_coverage(const Coverage& coverage, std::uint64_t matched);

/// Warns of errors that grow although every operator is within its policy, and marks those that
/// grow beyond `max_growth`.
void judge_growth(const std::optional<double>& max_growth, Report& report);

/// What decides, once everything was looked at.
struct VerdictInput {
  std::vector<std::string> damage;        ///< sentences; not empty = a dump is damaged
  std::vector<std::string> incomparable;  ///< sentences; not empty = the dumps cannot be judged
  std::uint64_t values = 0;               ///< elements compared by value
  std::uint64_t matched = 0;
  bool lacks_floor = false;         ///< an output that differs has no noise floor
  bool lacks_fp64 = false;          ///< or nothing usable in float64
  std::string mend;                 ///< where `incomparable` asks for another than the usual
  std::string first_unruled;        ///< `op 8 output 0`, of which no rule speaks
  std::string first_not_judged;     ///< `op 8 aten::mul output 0: digests differ, ...`
  std::string returned_not_judged;  ///< `out.logits: digests differ, ...`
};

/// Sets status, also, kind, reasons and mend. The most severe of several statuses wins: damaged
/// over diverged over not comparable over nothing compared; missing operators are a divergence only
/// if something matched.
void decide(const VerdictInput& input, Report& report);

core::ExitCode exit_code_of(const Report& report) noexcept;

}  // namespace repro_check::comparators
