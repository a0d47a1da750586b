// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/align.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/system/pinned.h"

namespace repro_check::comparators {
namespace {

struct MyersResult {
  bool complete =
      false;  ///< both sequences were used up: the matches are a longest common subsequence
  /// Matched positions, increasing. Of an unfinished search, those of the path that got furthest.
  core::LargeVector<std::pair<std::uint32_t, std::uint32_t>> matches;
  std::uint32_t baseline_reached = 0;
  std::uint32_t candidate_reached = 0;
  std::uint64_t steps = 0;
};

/// A bounded search for a shortest edit script.
class MyersSearch {
 public:
  MyersSearch(std::span<const std::uint32_t> baseline, std::span<const std::uint32_t> candidate)
      : baseline_(baseline), candidate_(candidate) {}

  /// @param max_differences  at most this many insertions and deletions together
  /// @param max_steps        diagonals and snake steps before the search is given up
  MyersResult run(std::int64_t max_differences, std::uint64_t max_steps) {
    MyersResult result;
    std::int64_t last = 0;
    for (std::int64_t d = 0; d <= max_differences; ++d) {
      const Row row = advance(d, max_steps, result);
      if (row == Row::kArrived) {
        result.complete = true;
        walk_back(d, n_ - m_, result);
        return result;
      }
      if (row == Row::kCut) break;
      last = d;
    }
    walk_back(last, furthest(last), result);
    return result;
  }

 private:
  enum class Row {
    kWhole,
    kArrived,  ///< the end of both sequences was reached
    kCut,      ///< the steps are used up; the row is of no use
  };

  /// The furthest baseline position on diagonal k = x - y after d differences.
  [[nodiscard]] std::int64_t at(std::int64_t d, std::int64_t k) const {
    return trace_[static_cast<std::size_t>(d * (d + 1) / 2 + (k + d) / 2)];
  }
  void push(std::int64_t x) { trace_.push_back(static_cast<std::uint32_t>(x)); }

  /// Whether the better neighbour in row d - 1 is the one below: an insertion.
  [[nodiscard]] bool comes_down(std::int64_t d, std::int64_t k) const {
    return k == -d || (k != d && at(d - 1, k - 1) < at(d - 1, k + 1));
  }

  /// Where diagonal k starts in row d, before its snake: below or to the right (a deletion) of
  /// that neighbour.
  [[nodiscard]] std::int64_t start(std::int64_t d, std::int64_t k) const {
    if (d == 0) return 0;
    return comes_down(d, k) ? at(d - 1, k + 1) : at(d - 1, k - 1) + 1;
  }

  /// Fills row d; the first one always whole. Cells outside the rectangle are kept as they are: no
  /// snake starts there.
  Row advance(std::int64_t d, std::uint64_t max_steps, MyersResult& result) {
    for (std::int64_t k = -d; k <= d; k += 2) {
      if (d != 0 && result.steps > max_steps) return Row::kCut;
      std::int64_t x = start(d, k);
      ++result.steps;
      while (x < n_ && x - k < m_ && x - k >= 0 &&
             baseline_[static_cast<std::size_t>(x)] ==
                 candidate_[static_cast<std::size_t>(x - k)]) {
        ++x;
        ++result.steps;
      }
      push(x);
      if (x == n_ && x - k == m_) {
        for (std::int64_t rest = k + 2; rest <= d; rest += 2) push(start(d, rest));
        return Row::kArrived;
      }
    }
    return Row::kWhole;
  }

  /// The diagonal of row d that used up most of both sequences.
  [[nodiscard]] std::int64_t furthest(std::int64_t d) const {
    std::int64_t best = 0;
    std::int64_t best_sum = -1;
    for (std::int64_t k = -d; k <= d; k += 2) {
      const std::int64_t x = at(d, k);
      if (x > n_ || x - k > m_ || x - k < 0) continue;
      if (2 * x - k > best_sum) {
        best_sum = 2 * x - k;
        best = k;
      }
    }
    return best;
  }

  void walk_back(std::int64_t d, std::int64_t k, MyersResult& result) const {
    std::int64_t x = at(d, k);
    result.baseline_reached = static_cast<std::uint32_t>(x);
    result.candidate_reached = static_cast<std::uint32_t>(x - k);
    for (; d >= 0; --d) {
      const std::int64_t begin = start(d, k);
      for (; x > begin; --x) {
        result.matches.emplace_back(static_cast<std::uint32_t>(x - 1),
                                    static_cast<std::uint32_t>(x - 1 - k));
      }
      if (d == 0) break;
      k += comes_down(d, k) ? 1 : -1;
      x = at(d - 1, k);
    }
    std::ranges::reverse(result.matches);
  }

  std::span<const std::uint32_t> baseline_;
  std::span<const std::uint32_t> candidate_;
  std::int64_t n_ = std::ssize(baseline_);
  std::int64_t m_ = std::ssize(candidate_);
  /// What it takes to walk the path back: row d holds k = -d, -d+2, ..., d.
  std::vector<std::uint32_t> trace_;
};

using Anchor = std::pair<std::uint32_t, std::uint32_t>;  ///< positions, baseline and candidate

/// How often each key occurs in two gaps, in arrays that are clean again when the object dies: a
/// gap costs its own length and not the number of keys.
class KeyCounts : core::Pinned {
 public:
  KeyCounts(KeyScratch& scratch,
            std::span<const std::uint32_t> baseline,
            std::span<const std::uint32_t> candidate)
      : scratch_(scratch), baseline_(baseline), candidate_(candidate) {
    for (const std::uint32_t key : baseline_) ++scratch_.baseline[key];
    for (const std::uint32_t key : candidate_) ++scratch_.candidate[key];
  }
  ~KeyCounts() {
    for (const std::uint32_t key : baseline_) scratch_.baseline[key] = 0;
    for (const std::uint32_t key : candidate_) scratch_.candidate[key] = 0;
  }

  /// Whether it is as frequent here as there.
  [[nodiscard]] bool alike(std::uint32_t key) const {
    return scratch_.baseline[key] == scratch_.candidate[key];
  }
  [[nodiscard]] bool unique(std::uint32_t key) const {
    return scratch_.baseline[key] == 1 && scratch_.candidate[key] == 1;
  }

 private:
  KeyScratch& scratch_;
  std::span<const std::uint32_t> baseline_;
  std::span<const std::uint32_t> candidate_;
};

/// Longest strictly increasing subsequence of the second positions; the first ones increase
/// already.
core::LargeVector<Anchor> increasing(const core::LargeVector<Anchor>& pairs) {
  constexpr auto kNone = static_cast<std::uint32_t>(-1);
  Ops tails;  // tails[l]: the pair that ends the best run of length l + 1
  Ops previous(pairs.size(), kNone);
  for (std::uint32_t i = 0; i < pairs.size(); ++i) {
    const auto place = std::ranges::lower_bound(
        tails, pairs[i].second, {}, [&](std::uint32_t at) { return pairs[at].second; });
    if (place != tails.begin()) previous[i] = *std::prev(place);
    if (place == tails.end()) {
      tails.push_back(i);
    } else {
      *place = i;
    }
  }
  core::LargeVector<Anchor> run;
  for (std::uint32_t at = tails.empty() ? kNone : tails.back(); at != kNone; at = previous[at]) {
    run.push_back(pairs[at]);
  }
  std::ranges::reverse(run);
  return run;
}

/// The k-th place of each eligible key with the k-th.
/// @param scratch  per key, all 0; left so: what is eligible is as frequent on both sides
template <typename Eligible>
core::LargeVector<Anchor> equal_occurrences(std::span<const std::uint32_t> baseline,
                                            std::span<const std::uint32_t> candidate,
                                            const Eligible& eligible,
                                            Ops& scratch) {
  // Per key a chain of places, each 1 more than it is: from the first, which scratch has, on.
  Ops next(candidate.size());
  for (std::size_t i = candidate.size(); i-- > 0;) {
    if (!eligible(candidate[i])) continue;
    next[i] = scratch[candidate[i]];
    scratch[candidate[i]] = static_cast<std::uint32_t>(i + 1);
  }
  core::LargeVector<Anchor> pairs;
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    if (!eligible(baseline[i])) continue;
    const std::uint32_t there = scratch[baseline[i]] - 1;
    scratch[baseline[i]] = next[there];
    pairs.emplace_back(static_cast<std::uint32_t>(i), there);
  }
  return increasing(pairs);
}

/// How many records two sequences have in common, whatever their order; keys that `leave_out`
/// accepts do not count.
/// @param scratch  per key, all 0; left so
template <typename LeaveOut>
std::uint64_t in_common(std::span<const std::uint32_t> baseline,
                        std::span<const std::uint32_t> candidate,
                        const LeaveOut& leave_out,
                        Ops& scratch) {
  for (const std::uint32_t key : baseline) ++scratch[key];
  std::uint64_t common = 0;
  for (const std::uint32_t key : candidate) {
    if (scratch[key] == 0 || leave_out(key)) continue;
    --scratch[key];
    ++common;
  }
  for (const std::uint32_t key : baseline) scratch[key] = 0;
  return common;
}

/// The same, summed over the gaps between anchors: what can still be matched when they are kept.
template <typename LeaveOut>
std::uint64_t left_between(std::span<const std::uint32_t> baseline,
                           std::span<const std::uint32_t> candidate,
                           const core::LargeVector<Anchor>& anchors,
                           const LeaveOut& leave_out,
                           Ops& scratch) {
  std::uint64_t common = 0;
  std::size_t from = 0;
  std::size_t to = 0;
  for (const auto& [here, there] : anchors) {
    common += in_common(
        baseline.subspan(from, here - from), candidate.subspan(to, there - to), leave_out, scratch);
    from = here + std::size_t{1};
    to = there + std::size_t{1};
  }
  return common + in_common(baseline.subspan(from), candidate.subspan(to), leave_out, scratch);
}

/// Pairs that are safe to split at: the one occurrence on each side of the keys that are unique,
/// or, where there are none, the k-th with the k-th of keys that are equally frequent; of those the
/// longest run that increases on both sides. Empty also where such a split would cost more than
/// half of what the gap has in common.
/// @param scratch  per key, all 0; left so
core::LargeVector<Anchor> find_anchors(std::span<const std::uint32_t> baseline,
                                       std::span<const std::uint32_t> candidate,
                                       const KeyCounts& counts,
                                       Ops& scratch) {
  // Of keys that are unique the longest run in order is the best there is; what it costs is what
  // the other keys can no longer match.
  const auto unique = [&](std::uint32_t key) { return counts.unique(key); };
  core::LargeVector<Anchor> anchors = equal_occurrences(baseline, candidate, unique, scratch);
  if (!anchors.empty() && 2 * left_between(baseline, candidate, anchors, unique, scratch) >=
                              in_common(baseline, candidate, unique, scratch)) {
    return anchors;
  }
  const auto alike = [&](std::uint32_t key) { return counts.alike(key); };
  anchors = equal_occurrences(baseline, candidate, alike, scratch);
  const auto none = [](std::uint32_t) { return false; };
  if (2 * (anchors.size() + left_between(baseline, candidate, anchors, none, scratch)) <
      in_common(baseline, candidate, none, scratch)) {
    anchors.clear();
  }
  return anchors;
}

constexpr std::int64_t kMaxDifferences = 256;
constexpr std::uint64_t kGapStepsPerRecord = 4;
constexpr std::uint64_t kGapStepsBase = 65'536;
constexpr std::uint64_t kWorkPerRecord = 32;
constexpr std::uint64_t kWorkBase = 1'000'000;
constexpr std::uint32_t kMaxAnchorDepth = 8;

/// Records whose key also occurs on the other side of a gap, and where they stand in the stream.
struct Kept {
  Ops keys;
  Ops places;
};

/// A part of one side's kept records.
struct KeptRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
  [[nodiscard]] std::span<const std::uint32_t> of(const Ops& keys) const {
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
  Aligner(std::span<const std::uint32_t> baseline,
          std::span<const std::uint32_t> candidate,
          KeyScratch& scratch)
      : baseline_(baseline), candidate_(candidate), scratch_(scratch) {
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

  void size_scratch() {
    if (std::exchange(is_sized_, true)) return;
    const std::size_t keys = std::size_t{1} + std::max(*std::ranges::max_element(baseline_),
                                                       *std::ranges::max_element(candidate_));
    if (scratch_.anchors.size() >= keys) return;
    for (auto* counts : {&scratch_.baseline, &scratch_.candidate, &scratch_.anchors}) {
      counts->resize(keys);
    }
  }

  /// Fills kept_ with the records that have a counterpart at all; false when there are none.
  bool drop_one_sided(const Gap& gap) {
    const auto baseline =
        baseline_.subspan(gap.baseline_begin, gap.baseline_end - gap.baseline_begin);
    const auto candidate =
        candidate_.subspan(gap.candidate_begin, gap.candidate_end - gap.candidate_begin);
    const KeyCounts counts(scratch_, baseline, candidate);
    const auto keep =
        [](std::span<const std::uint32_t> keys, std::uint32_t begin, const Ops& there, Kept& kept) {
          kept.keys.clear();
          kept.places.clear();
          for (std::uint32_t i = 0; i < keys.size(); ++i) {
            if (there[keys[i]] == 0) continue;
            kept.keys.push_back(keys[i]);
            kept.places.push_back(begin + i);
          }
        };
    keep(baseline, gap.baseline_begin, scratch_.candidate, kept_baseline_);
    keep(candidate, gap.candidate_begin, scratch_.baseline, kept_candidate_);
    result_.work += gap.records();
    return !kept_baseline_.keys.empty();
  }

  /// Matches the kept records that are common at both ends, then searches between them.
  void solve_kept(const Gap& gap) {
    std::size_t front = 0;
    std::size_t back = 0;
    const Ops& left = kept_baseline_.keys;
    const Ops& right = kept_candidate_.keys;
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
  void search(const Gap& gap, KeptRange left, KeptRange right) {
    bool may_split = gap.depth < kMaxAnchorDepth;
    MatchedBy how = MatchedBy::kLcs;
    while (left.size() != 0 && right.size() != 0) {
      if (exhausted()) {
        result_.gave_up = true;
        return;
      }
      const std::uint64_t steps = kGapStepsPerRecord * (left.size() + right.size()) + kGapStepsBase;
      const MyersResult path =
          MyersSearch(left.of(kept_baseline_.keys), right.of(kept_candidate_.keys))
              .run(kMaxDifferences, std::min(steps, limit_ - result_.work));
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

  bool split_at_anchors(const Gap& gap, const KeptRange& left, const KeptRange& right) {
    core::LargeVector<Anchor> anchors;
    {
      const auto baseline = left.of(kept_baseline_.keys);
      const auto candidate = right.of(kept_candidate_.keys);
      const KeyCounts counts(scratch_, baseline, candidate);
      anchors = find_anchors(baseline, candidate, counts, scratch_.anchors);
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
  KeyScratch& scratch_;
  bool is_sized_ = false;
  std::uint64_t limit_ = most_work(baseline_.size() + candidate_.size());
  Alignment result_;
  core::LargeVector<Gap> gaps_;
  Kept kept_baseline_;
  Kept kept_candidate_;
};

}  // namespace

Alignment align(std::span<const std::uint32_t> baseline,
                std::span<const std::uint32_t> candidate,
                KeyScratch& scratch) {
  return Aligner(baseline, candidate, scratch).run();
}

std::uint64_t most_work(std::uint64_t records) noexcept {
  return kWorkPerRecord * records + kWorkBase;
}

}  // namespace repro_check::comparators
