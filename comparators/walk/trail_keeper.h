// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "comparators/align/events.h"
#include "comparators/cause/cause.h"
#include "comparators/cause/hunks.h"
#include "comparators/judge/op_judge.h"
#include "comparators/report/op_trail.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators::detail {

/// @param why  null for an operator that does not fail
OpState state_of(OpOutcome outcome, const Attribution* why);

/// Writes down a row for every operator that a walk meets; nothing at all where that is not wanted.
class TrailKeeper {
 public:
  /// The sources are borrowed.
  TrailKeeper(const core::DumpSource& baseline, const core::DumpSource& candidate, bool wanted);

  /// @param why  null for an operator that does not fail
  void see(const core::OpRecord& from,
           const core::OpRecord& to,
           const OpFindings& findings,
           const Attribution* why);
  void see_hunk(const Hunk& hunk);
  void see_damaged(const Event& event);

  /// The rows in order, or null. To be called once, last.
  std::shared_ptr<const OpTrail> finish();

 private:
  using Names = std::unordered_map<std::string, std::uint32_t>;

  OpRow row_of(const core::OpRecord& record);
  /// Counts an operator. False where there is no room for its row: then nothing is kept of it.
  bool takes(bool draws);
  void add_unmatched(const core::DumpSource& source, std::uint32_t place, bool in_baseline);
  std::uint32_t place_of(const core::CallSite* site);
  void note_producers(const core::OpRecord& record, OpRow& row);
  void note_errors(const core::OpRecord& from,
                   const core::OpRecord& to,
                   const OpFindings& findings,
                   OpRow& row);
  void note_draw(const core::OpRecord& from, const core::OpRecord& to, const OpRow& row);
  void map_outputs(const core::OpRecord& from, const OpFindings& findings);

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  std::shared_ptr<OpTrail> trail_;
  Names operators_;
  Names places_;
  Names types_;
  std::uint64_t mapped_bytes_ = 0;
  std::vector<std::byte> left_;
  std::vector<std::byte> right_;
};

}  // namespace repro_check::comparators::detail
