// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "comparators/detail/cause.h"
#include "comparators/detail/pairing.h"
#include "comparators/report.h"

namespace repro_check::comparators::detail {

/// One step of the comparison, in the order in which calls ended: a matched pair, or a record of
/// one side alone (the other is kUnmatched).
struct Event {
  std::uint32_t baseline = kUnmatched;
  std::uint32_t candidate = kUnmatched;

  [[nodiscard]] bool matched() const noexcept {
    return baseline != kUnmatched && candidate != kUnmatched;
  }
};

/// All records of both dumps. Between two matched pairs the missing ones come before the extra
/// ones.
std::vector<Event> order_events(const Pairing& pairing);

/// Unmatched records between two matched pairs.
struct Hunk {
  std::vector<std::uint32_t> missing;  ///< baseline op indices
  std::vector<std::uint32_t> extra;    ///< candidate op indices
  std::optional<Event> before;         ///< the last matched pair
  bool rejoined = false;               ///< a matched pair follows
};

/// Says what a hunk is. Constructed once a comparison, because what was reordered can only be seen
/// over all of it.
class HunkJudge {
 public:
  HunkJudge(const core::DumpSource& baseline,
            const core::DumpSource& candidate,
            const Pairing& pairing);

  /// Records that are missing here and extra elsewhere, or the other way round.
  [[nodiscard]] std::uint64_t reordered() const noexcept { return reordered_; }

  /// @param earlier  the first divergence before the hunk, in words; empty when all was fine so far
  /// @param keep     items wanted at most; the others are only counted
  /// @return one item an unmatched record; one for both where an operator was replaced
  [[nodiscard]] std::vector<OpDivergence> describe(const Hunk& hunk,
                                                   const std::string& earlier,
                                                   std::size_t keep) const;

  [[nodiscard]] ControlFlow control_flow(const Hunk& hunk) const;

  /// Items that describe() would give without a limit.
  [[nodiscard]] std::uint64_t items(const Hunk& hunk) const;

 private:
  struct Verdict {
    DivergenceKind kind = DivergenceKind::kMissing;
    Cause cause;
  };
  [[nodiscard]] bool replaced(const Hunk& hunk) const;
  [[nodiscard]] std::optional<Verdict> decomposed(const Hunk& hunk) const;
  [[nodiscard]] std::optional<Verdict> loop(const Hunk& hunk) const;
  [[nodiscard]] Verdict judge(const Hunk& hunk) const;
  [[nodiscard]] bool is_reordered(const Hunk& hunk) const;
  [[nodiscard]] std::string last_answer(const Hunk& hunk) const;
  [[nodiscard]] OpDivergence item(std::uint32_t baseline,
                                  std::uint32_t candidate,
                                  const Verdict& verdict) const;

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  const Pairing& pairing_;
  std::unordered_map<std::uint32_t, std::uint32_t> unmatched_missing_;  ///< by key
  std::unordered_map<std::uint32_t, std::uint32_t> unmatched_extra_;
  std::uint64_t reordered_ = 0;
};

}  // namespace repro_check::comparators::detail
