// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comparators/align/pairing.h"
#include "comparators/cause/observations.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/judge/verdict.h"
#include "comparators/report/compare_options.h"
#include "comparators/report/report.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators {

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
