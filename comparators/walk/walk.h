// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "comparators/align/pairing.h"
#include "comparators/cause/observations.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/report/compare_options.h"
#include "comparators/report/report.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// What decides, once everything was looked at.
struct VerdictInput {
  Phrases damage;            ///< not empty = a dump is damaged
  Phrases incomparable;      ///< not empty = the dumps cannot be judged
  Phrases obstacles;         ///< why the runs are no pass if they agree
  std::uint64_t values = 0;  ///< elements compared by value
  std::uint64_t matched = 0;
  bool of_numbers = false;      ///< what is not there is told by Report::numbers
  bool lacks_numbers = false;   ///< some that were asked for are not recorded
  bool lacks_floor = false;     ///< an output that differs has no noise floor
  bool lacks_fp64 = false;      ///< or nothing usable in float64
  bool never_read = false;      ///< or is in a class of tensors that nobody can read
  std::string first_unruled;    ///< `op 8 output 0`, of which no rule speaks
  Phrases first_not_judged;     ///< `op 8 aten::mul output 0: digests differ, ...`
  Phrases returned_not_judged;  ///< `out.logits: digests differ, ...`
};

/// What a walk looks at, and what it fills. Everything is borrowed.
struct WalkContext {
  const core::DumpSource& baseline;
  const core::DumpSource& candidate;
  const CompareOptions& options;
  const Pairing& pairing;
  TensorJudge& judge;
  Observations& observations;
  VerdictInput& verdict;
  Report& report;
};

/// Goes through both traces once, in the order in which calls ended: judges every matched pair,
/// describes what has no counterpart, looks for the cause of what fails, and judges what the calls
/// returned.
void walk(const WalkContext& context);

}  // namespace repro_check::comparators
