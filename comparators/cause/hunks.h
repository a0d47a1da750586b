// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/align/pairing.h"
#include "comparators/cause/cause.h"
#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"
#include "core/system/memory.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// All records of both dumps that are compared, in the order in which calls ended: matched pairs,
/// and records of one side alone. Between two matched pairs the missing ones come before the extra
/// ones.
core::LargeVector<OpPair> order_events(const Pairing& pairing);

/// Where the last record of a kind before an operator stands; null where there is none of its step,
/// or of the step before it.
std::shared_ptr<const core::CallSite> last_site(const core::DumpSource& dump,
                                                std::uint64_t before,
                                                std::string_view kind);

/// Unmatched records between two matched pairs.
struct Hunk {
  Ops missing;                   ///< baseline op indices
  Ops extra;                     ///< candidate op indices
  std::optional<OpPair> before;  ///< the last matched pair
  bool rejoined = false;         ///< a matched pair follows

  [[nodiscard]] bool empty() const noexcept { return missing.empty() && extra.empty(); }
};

/// Says what a hunk is. Constructed once a comparison, because what was reordered can only be seen
/// over all of it.
struct HunkJudge {
  /// @param of  borrowed
  explicit HunkJudge(const Evidence& of);

  /// Cuts a hunk at the borders of modules where both sides went through the same ones: two
  /// neighbouring modules, each with an operator replaced, are two findings.
  [[nodiscard]] std::vector<Hunk> split(const Hunk& hunk) const;

  /// @param earlier   the first divergence before it, in words; empty when all was fine so far
  /// @param decision  the last value before it that can have decided
  /// @param keep      items wanted at most; the others are only counted
  /// @param take      given one item an unmatched record; one for both where an operator was
  ///                  replaced
  void describe(const Hunk& hunk,
                const std::string& earlier,
                const std::optional<Decision>& decision,
                std::size_t keep,
                const std::function<void(OpDivergence)>& take) const;

  [[nodiscard]] ControlFlow control_flow(const Hunk& hunk,
                                         const std::optional<Decision>& decision) const;

  /// Items that describe() would give without a limit.
  [[nodiscard]] std::uint64_t items(const Hunk& hunk) const;

  const Evidence& evidence;
  core::LargeVector<OpPair> moved_from;  ///< Pairing::moved by candidate
};

/// Remembers what operators answered to the program, for when the streams part.
class DecisionWatch {
 public:
  /// To be called for every matched pair, in order.
  void see(const JudgedCall& call);

  /// The last answer that was not the same on both sides; else the last of an operator that turns a
  /// tensor into a number or truth, by which a branch can have been taken.
  [[nodiscard]] std::optional<Decision> last() const;

 private:
  std::optional<Decision> differing_;
  std::optional<Decision> asked_;
};

}  // namespace repro_check::comparators
