// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/align.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "comparators/align/anchors.h"
#include "comparators/align/myers.h"
#include "core/system/large_memory.h"

namespace repro_check::comparators {
namespace {

constexpr std::uint32_t kMaxDifferences = 256;
constexpr std::uint64_t kGapStepsPerRecord = 4;
constexpr std::uint64_t kGapStepsBase = 65'536;
constexpr std::uint64_t kWorkPerRecord = 32;
constexpr std::uint64_t kWorkBase = 1'000'000;
constexpr std::uint32_t kMaxAnchorDepth = 8;

/// Records whose key also occurs on the other side of a gap, and where they stand in the stream.
struct Kept {
  core::LargeVector<std::uint32_t> keys;
  core::LargeVector<std::uint32_t> places;

  void clear() noexcept {
    keys.clear();
    places.clear();
  }
};

/// A part of one side's kept records.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
  [[nodiscard]] std::span<const std::uint32_t> of(
      const core::LargeVector<std::uint32_t>& keys) const {
    return std::span(keys).subspan(begin, size());
  }
};

/// A part of both streams that is still to be matched.
struct Gap {
  std::uint32_t baseline_begin = 0;
  std::uint32_t baseline_end = 0;
  std::uint32_t candidate_begin = 0;
  std::uint32_t candidate_end = 0;
  std::uint32_t depth = 0;

  [[nodiscard]] bool one_sided() const noexcept {
    return baseline_begin == baseline_end || candidate_begin == candidate_end;
  }
  [[nodiscard]] std::uint64_t records() const noexcept {
    return std::uint64_t{baseline_end - baseline_begin} + (candidate_end - candidate_begin);
  }
};

class Aligner {
 public:
  Aligner(std::span<const std::uint32_t> baseline, std::span<const std::uint32_t> candidate)
      : baseline_(baseline),
        candidate_(candidate),
        limit_(most_work(baseline.size() + candidate.size())) {
    result_.candidate_of.assign(baseline.size(), kUnmatched);
    result_.how.assign(baseline.size(), MatchedBy::kNone);
  }

  Alignment run() {
    Gap whole;
    whole.baseline_end = static_cast<std::uint32_t>(baseline_.size());
    whole.candidate_end = static_cast<std::uint32_t>(candidate_.size());
    gaps_.push_back(whole);
    while (!gaps_.empty()) {
      const Gap gap = gaps_.back();
      gaps_.pop_back();
      solve(gap);
    }
    return std::move(result_);
  }

 private:
  void match(std::uint32_t baseline, std::uint32_t candidate, MatchedBy how) {
    result_.candidate_of[baseline] = candidate;
    result_.how[baseline] = how;
    ++result_.matched;
  }

  [[nodiscard]] bool exhausted() const noexcept { return result_.work > limit_; }

  /// Matches what is common at both ends.
  void trim(Gap& gap) {
    const MatchedBy how = gap.depth == 0 ? MatchedBy::kPosition : MatchedBy::kLcs;
    while (!gap.one_sided() && baseline_[gap.baseline_begin] == candidate_[gap.candidate_begin]) {
      match(gap.baseline_begin++, gap.candidate_begin++, how);
      ++result_.work;
    }
    while (!gap.one_sided() &&
           baseline_[gap.baseline_end - 1] == candidate_[gap.candidate_end - 1]) {
      match(--gap.baseline_end, --gap.candidate_end, how);
      ++result_.work;
    }
  }

  void solve(Gap gap) {
    trim(gap);
    if (gap.one_sided()) return;
    if (exhausted()) {
      result_.gave_up = true;
      return;
    }
    size_scratch();
    if (drop_one_sided(gap)) {
      solve_kept(gap);
    }
  }

  /// The arrays by key are made when the streams first turn out to differ.
  void size_scratch() {
    if (!baseline_counts_.empty()) return;
    const std::uint32_t keys =
        1 + std::max(*std::ranges::max_element(baseline_), *std::ranges::max_element(candidate_));
    baseline_counts_.assign(keys, 0);
    candidate_counts_.assign(keys, 0);
    anchor_scratch_.assign(keys, 0);
  }

  /// Fills kept_ with the records that have a counterpart at all; false when there are none.
  bool drop_one_sided(const Gap& gap) {
    const auto baseline =
        baseline_.subspan(gap.baseline_begin, gap.baseline_end - gap.baseline_begin);
    const auto candidate =
        candidate_.subspan(gap.candidate_begin, gap.candidate_end - gap.candidate_begin);
    const detail::KeyCounts counts(baseline_counts_, candidate_counts_, baseline, candidate);
    kept_baseline_.clear();
    kept_candidate_.clear();
    for (std::size_t i = 0; i < baseline.size(); ++i) {
      if (counts.in_candidate(baseline[i]) == 0) continue;
      kept_baseline_.keys.push_back(baseline[i]);
      kept_baseline_.places.push_back(gap.baseline_begin + static_cast<std::uint32_t>(i));
    }
    for (std::size_t i = 0; i < candidate.size(); ++i) {
      if (counts.in_baseline(candidate[i]) == 0) continue;
      kept_candidate_.keys.push_back(candidate[i]);
      kept_candidate_.places.push_back(gap.candidate_begin + static_cast<std::uint32_t>(i));
    }
    result_.work += gap.records();
    return !kept_baseline_.keys.empty();
  }

  /// Matches the kept records that are common at both ends, then searches between them.
  void solve_kept(const Gap& gap) {
    std::size_t front = 0;
    std::size_t back = 0;
    const core::LargeVector<std::uint32_t>& left = kept_baseline_.keys;
    const core::LargeVector<std::uint32_t>& right = kept_candidate_.keys;
    const std::size_t least = std::min(left.size(), right.size());
    while (front < least && left[front] == right[front]) {
      match(kept_baseline_.places[front], kept_candidate_.places[front], MatchedBy::kLcs);
      ++front;
    }
    while (back < least - front && left[left.size() - 1 - back] == right[right.size() - 1 - back]) {
      match(kept_baseline_.places[left.size() - 1 - back],
            kept_candidate_.places[right.size() - 1 - back],
            MatchedBy::kLcs);
      ++back;
    }
    result_.work += front + back;
    if (front + back == left.size() || front + back == right.size()) return;
    search(gap, {front, left.size() - back}, {front, right.size() - back});
  }

  /// Goes through the kept records window by window until both ranges are used up.
  void search(const Gap& gap, Range left, Range right) {
    bool may_split = gap.depth < kMaxAnchorDepth;
    MatchedBy how = MatchedBy::kLcs;
    while (left.size() != 0 && right.size() != 0) {
      if (exhausted()) {
        result_.gave_up = true;
        return;
      }
      const std::uint64_t steps = kGapStepsPerRecord * (left.size() + right.size()) + kGapStepsBase;
      const detail::MyersResult path = detail::myers(left.of(kept_baseline_.keys),
                                                     right.of(kept_candidate_.keys),
                                                     kMaxDifferences,
                                                     std::min(steps, limit_ - result_.work));
      result_.work += path.steps;
      if (!path.complete && may_split && split_at_anchors(gap, left, right)) return;
      // Nothing to split at: what the search found stands, and it goes on behind it.
      may_split = false;
      if (!path.complete) how = MatchedBy::kPartial;
      for (const auto& [baseline, candidate] : path.matches) {
        match(kept_baseline_.places[left.begin + baseline],
              kept_candidate_.places[right.begin + candidate],
              how);
      }
      left.begin += path.baseline_reached;
      right.begin += path.candidate_reached;
    }
  }

  bool split_at_anchors(const Gap& gap, const Range& left, const Range& right) {
    core::LargeVector<detail::Anchor> anchors;
    {
      const auto baseline = left.of(kept_baseline_.keys);
      const auto candidate = right.of(kept_candidate_.keys);
      const detail::KeyCounts counts(baseline_counts_, candidate_counts_, baseline, candidate);
      anchors = detail::find_anchors(baseline, candidate, counts, anchor_scratch_);
    }
    result_.work += 2 * (left.size() + right.size());
    if (anchors.empty()) return false;
    Gap between = gap;
    between.depth = gap.depth + 1;
    between.baseline_begin = kept_baseline_.places[left.begin];
    between.candidate_begin = kept_candidate_.places[right.begin];
    core::LargeVector<Gap> parts;
    for (const auto& [baseline, candidate] : anchors) {
      between.baseline_end = kept_baseline_.places[left.begin + baseline];
      between.candidate_end = kept_candidate_.places[right.begin + candidate];
      parts.push_back(between);
      match(between.baseline_end, between.candidate_end, MatchedBy::kAnchor);
      between.baseline_begin = between.baseline_end + 1;
      between.candidate_begin = between.candidate_end + 1;
    }
    between.baseline_end = kept_baseline_.places[left.end - 1] + 1;
    between.candidate_end = kept_candidate_.places[right.end - 1] + 1;
    parts.push_back(between);
    // The first gap in stream order is served first, so that the budget goes to it.
    for (std::size_t i = parts.size(); i-- > 0;) {
      if (!parts[i].one_sided()) gaps_.push_back(parts[i]);
    }
    return true;
  }

  std::span<const std::uint32_t> baseline_;
  std::span<const std::uint32_t> candidate_;
  std::uint64_t limit_ = 0;
  Alignment result_;
  core::LargeVector<Gap> gaps_;
  core::LargeVector<std::uint32_t> baseline_counts_;
  core::LargeVector<std::uint32_t> candidate_counts_;
  core::LargeVector<std::uint32_t> anchor_scratch_;
  Kept kept_baseline_;
  Kept kept_candidate_;
};

}  // namespace

Alignment align(std::span<const std::uint32_t> baseline, std::span<const std::uint32_t> candidate) {
  return Aligner(baseline, candidate).run();
}

Alignment align_by_position(std::span<const std::uint32_t> baseline,
                            std::span<const std::uint32_t> candidate) {
  Alignment result;
  result.candidate_of.assign(baseline.size(), kUnmatched);
  result.how.assign(baseline.size(), MatchedBy::kNone);
  result.work = std::min(baseline.size(), candidate.size());
  for (std::uint32_t i = 0; i < result.work; ++i) {
    if (baseline[i] != candidate[i]) continue;
    result.candidate_of[i] = i;
    result.how[i] = MatchedBy::kPosition;
    ++result.matched;
  }
  return result;
}

std::uint64_t most_work(std::uint64_t records) noexcept {
  return kWorkPerRecord * records + kWorkBase;
}

}  // namespace repro_check::comparators
