// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/anchors.h"

#include <algorithm>
#include <cstddef>

namespace repro_check::comparators::detail {
namespace {

/// Longest strictly increasing subsequence of the second positions; the first ones increase
/// already.
core::LargeVector<Anchor> increasing(const core::LargeVector<Anchor>& pairs) {
  constexpr auto kNone = static_cast<std::uint32_t>(-1);
  core::LargeVector<std::uint32_t>
      tails;  // tails[l]: the pair that ends the best run of length l + 1
  core::LargeVector<std::uint32_t> previous(pairs.size(), kNone);
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

/// Which keys may be anchors.
class Eligible {
 public:
  Eligible(const KeyCounts& counts, bool unique) : counts_(counts), unique_(unique) {}

  bool operator()(std::uint32_t key) const {
    const std::uint32_t here = counts_.in_baseline(key);
    return here == counts_.in_candidate(key) && (!unique_ || here == 1);
  }

 private:
  const KeyCounts& counts_;
  bool unique_;
};

/// The k-th place of each eligible key with the k-th.
/// @param scratch  per key, all 0; left so: what is eligible is as frequent on both sides
core::LargeVector<Anchor> equal_occurrences(std::span<const std::uint32_t> baseline,
                                            std::span<const std::uint32_t> candidate,
                                            const Eligible& eligible,
                                            core::LargeVector<std::uint32_t>& scratch) {
  // Per key a chain of places, each 1 more than it is: from the first, which scratch has, on.
  core::LargeVector<std::uint32_t> next(candidate.size());
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
                        core::LargeVector<std::uint32_t>& scratch) {
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
                           core::LargeVector<std::uint32_t>& scratch) {
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

}  // namespace

KeyCounts::KeyCounts(core::LargeVector<std::uint32_t>& baseline_scratch,
                     core::LargeVector<std::uint32_t>& candidate_scratch,
                     std::span<const std::uint32_t> baseline,
                     std::span<const std::uint32_t> candidate)
    : baseline_counts_(baseline_scratch),
      candidate_counts_(candidate_scratch),
      baseline_(baseline),
      candidate_(candidate) {
  for (const std::uint32_t key : baseline_) ++baseline_counts_[key];
  for (const std::uint32_t key : candidate_) ++candidate_counts_[key];
}

KeyCounts::~KeyCounts() {
  for (const std::uint32_t key : baseline_) baseline_counts_[key] = 0;
  for (const std::uint32_t key : candidate_) candidate_counts_[key] = 0;
}

core::LargeVector<Anchor> find_anchors(std::span<const std::uint32_t> baseline,
                                       std::span<const std::uint32_t> candidate,
                                       const KeyCounts& counts,
                                       core::LargeVector<std::uint32_t>& scratch) {
  // Of keys that are unique the longest run in order is the best there is; what it costs is what
  // the other keys can no longer match.
  const Eligible unique(counts, true);
  core::LargeVector<Anchor> anchors = equal_occurrences(baseline, candidate, unique, scratch);
  if (!anchors.empty() && 2 * left_between(baseline, candidate, anchors, unique, scratch) >=
                              in_common(baseline, candidate, unique, scratch)) {
    return anchors;
  }
  anchors = equal_occurrences(baseline, candidate, Eligible(counts, false), scratch);
  const auto none = [](std::uint32_t) { return false; };
  if (2 * (anchors.size() + left_between(baseline, candidate, anchors, none, scratch)) <
      in_common(baseline, candidate, none, scratch)) {
    anchors.clear();
  }
  return anchors;
}

}  // namespace repro_check::comparators::detail
