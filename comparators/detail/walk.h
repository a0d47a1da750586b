// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comparators/compare.h"
#include "comparators/detail/cause.h"
#include "comparators/detail/decision_watch.h"
#include "comparators/detail/divergence_list.h"
#include "comparators/detail/events.h"
#include "comparators/detail/hunks.h"
#include "comparators/detail/module_counter.h"
#include "comparators/detail/observations.h"
#include "comparators/detail/occurrences.h"
#include "comparators/detail/op_judge.h"
#include "comparators/detail/pairing.h"
#include "comparators/detail/rank_firsts.h"
#include "comparators/detail/rng_ledger.h"
#include "comparators/detail/taint.h"
#include "comparators/detail/tensor_judge.h"
#include "comparators/detail/trail_keeper.h"
#include "comparators/detail/verdict.h"
#include "comparators/detail/write_table.h"

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
  void see_draw(const core::DumpSource& source, std::uint32_t place, bool in_baseline);
  /// @return whether bits differ
  bool take_pair(const Event& event);
  /// One that is not fine: for the observer, and for the list where that has room.
  void keep(OpDivergence item);
  void tell_fine(OpDivergence item, OpState state);
  bool read_pair(const Event& event, core::OpRecord& from, core::OpRecord& to);
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
  Evidence evidence_;
  Taint taint_;
  DecisionWatch decisions_;
  DivergenceList list_;
  ModuleCounter modules_;
  TrailKeeper trail_;
  Occurrences occurrences_;
  RankFirsts rank_firsts_;
};

}  // namespace repro_check::comparators::detail
