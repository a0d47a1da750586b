// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "comparators/align/pairing.h"
#include "comparators/judge/op_judge.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// Finds nested calls that differ because a kernel handed them memory it had not filled: nothing
/// they were given differs but such memory, and an enclosing call gave bit-equal results.
class UnfilledInside {
 public:
  /// All are borrowed.
  UnfilledInside(const core::DumpSource& baseline,
                 const core::DumpSource& candidate,
                 const Pairing& pairing)
      : baseline_(baseline), candidate_(candidate), pairing_(pairing) {}

  /// Makes such a call one that is skipped. To be told every pair that differs, in the order in
  /// which calls ended.
  void settle(JudgedCall& call);

 private:
  [[nodiscard]] bool reads_nothing_else(const JudgedCall& call) const;
  [[nodiscard]] bool is_unfilled(const TensorComparison& input, const JudgedCall& call) const;
  [[nodiscard]] bool was_made_inside(const core::DumpSource& dump,
                                     const core::OpRecord& record,
                                     const core::TensorRecord& input) const;
  bool is_absorbed(const core::OpRecord& baseline);
  [[nodiscard]] bool gave_equal_results(std::uint64_t op) const;

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  const Pairing& pairing_;
  std::set<std::uint64_t> settled_;      ///< op indices of the baseline
  std::map<std::uint64_t, bool> equal_;  ///< by enclosing call
};

}  // namespace repro_check::comparators
