// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comparators/align/events.h"
#include "comparators/align/pairing.h"
#include "comparators/cause/cause.h"
#include "comparators/cause/differences.h"
#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"
#include "core/system/large_memory.h"

namespace repro_check::comparators::detail {

/// What is known when the streams part.
struct PartingContext {
  std::string
      earlier;  ///< the first divergence before it, in words; empty when all was fine so far
  std::optional<Decision> decision;  ///< the last value before it that can have decided
};

/// Says what a hunk is. Constructed once a comparison, because what was reordered can only be seen
/// over all of it.
class HunkJudge {
 public:
  HunkJudge(const core::DumpSource& baseline,
            const core::DumpSource& candidate,
            const Pairing& pairing,
            const std::vector<Suspect>& suspects);

  /// @param keep  items wanted at most; the others are only counted
  /// @param take  given one item an unmatched record; one for both where an operator was replaced
  void describe(const Hunk& hunk,
                const PartingContext& context,
                std::size_t keep,
                const std::function<void(OpDivergence)>& take) const;

  [[nodiscard]] ControlFlow control_flow(const Hunk& hunk, const PartingContext& context) const;

  /// Items that describe() would give without a limit.
  [[nodiscard]] std::uint64_t items(const Hunk& hunk) const;

 private:
  struct Verdict {
    DivergenceKind kind = DivergenceKind::kMissing;
    Cause cause;
  };
  [[nodiscard]] bool replaced(const Hunk& hunk) const;
  [[nodiscard]] Verdict replacement(const Hunk& hunk, std::size_t i) const;
  [[nodiscard]] std::optional<Verdict> decomposed(const Hunk& hunk) const;
  [[nodiscard]] std::optional<Verdict> loop(const Hunk& hunk) const;
  [[nodiscard]] bool is_reordered(const Hunk& hunk) const;
  [[nodiscard]] Verdict reordering(const Hunk& hunk) const;
  [[nodiscard]] Verdict judge(const Hunk& hunk, const PartingContext& context) const;
  [[nodiscard]] OpDivergence item(std::uint32_t baseline,
                                  std::uint32_t candidate,
                                  const Verdict& verdict) const;

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  const Pairing& pairing_;
  const std::vector<Suspect>& suspects_;
  core::LargeVector<Moved> moved_from_;  ///< Pairing::moved by candidate
};

/// Remembers what operators answered to the program, for when the streams part.
class DecisionWatch {
 public:
  /// To be called for every matched pair, in order.
  void see(const core::OpRecord& baseline,
           const core::OpRecord& candidate,
           const OpFindings& findings);

  /// The last answer that was not the same on both sides; else the last of an operator that turns a
  /// tensor into a number or truth, by which a branch can have been taken.
  [[nodiscard]] std::optional<Decision> last() const;

 private:
  std::optional<Decision> differing_;
  std::optional<Decision> asked_;
};

}  // namespace repro_check::comparators::detail
