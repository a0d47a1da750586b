// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comparators/align/events.h"
#include "comparators/align/pairing.h"
#include "comparators/cause/cause.h"
#include "comparators/cause/hunks.h"
#include "comparators/cause/observations.h"
#include "comparators/cause/rng_ledger.h"
#include "comparators/cause/storages.h"
#include "comparators/cause/taint.h"
#include "comparators/judge/op_judge.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/judge/verdict.h"
#include "comparators/report/compare_options.h"
#include "comparators/walk/tallies.h"
#include "comparators/walk/trail_keeper.h"

namespace repro_check::comparators::detail {

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

/// False where one of them is damaged, which is noted.
bool read_pair(const WalkContext& context,
               std::uint32_t baseline,
               std::uint32_t candidate,
               core::OpRecord& from,
               core::OpRecord& to);

/// A pair of records that is judged, as a report has it.
OpDivergence to_item(const core::OpRecord& from,
                     const core::OpRecord& to,
                     OpFindings findings,
                     Attribution why);

/// Goes through both traces once, in the order in which calls ended: judges every matched pair,
/// describes what has no counterpart, and looks for the cause of what fails.
class Walk {
 public:
  explicit Walk(const WalkContext& context);

  /// To be called once.
  void run();

 private:
  void take_hunk(const Hunk& hunk, const HunkJudge& hunks);
  void note_ranks(const Hunk& hunk);
  void see_alone(const core::DumpSource& source, std::uint32_t place, bool in_baseline);
  /// @return whether bits differ
  bool take_pair(const Event& event);
  /// One that is not fine: for the observer, and for the list where that has room.
  void keep(OpDivergence item);
  void tell_fine(OpDivergence item, OpState state);
  void conclude(std::uint32_t baseline, OpOutcome outcome);
  void note_progress(const core::OpRecord& from, const OpFindings& findings);
  void note_not_judged(const core::OpRecord& from, const OpFindings& findings);
  void remember(const core::OpRecord& from, const OpFindings& findings);
  Attribution diverge(const core::OpRecord& from, const core::OpRecord& to, OpFindings& findings);
  void remember_root(const core::OpRecord& from, const Attribution& why);
  void measure_inputs(const core::OpRecord& from, const core::OpRecord& to, OpFindings& findings);

  WalkContext context_;
  bool other_device_ = false;
  RngLedger rng_;
  WriteTable baseline_writes_;
  WriteTable candidate_writes_;
  Allocations baseline_allocations_;
  Allocations candidate_allocations_;
  Evidence evidence_;
  Taint taint_;
  DecisionWatch decisions_;
  DivergenceList list_;
  ModuleCounter modules_;
  TrailKeeper trail_;
  Occurrences occurrences_;
  RankFirsts rank_firsts_;
  std::uint64_t alone_ = 0;  ///< operators without a counterpart that were read
};

}  // namespace repro_check::comparators::detail
