// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/anchors.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

namespace repro_check::comparators::detail {
namespace {

/// Longest strictly increasing subsequence of the second positions; the first ones increase
/// already.
std::vector<Anchor> increasing(const std::vector<Anchor>& pairs) {
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> tails;  // tails[l]: the pair that ends the best run of length l + 1
  std::vector<std::size_t> previous(pairs.size(), kNone);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto place = std::ranges::lower_bound(
        tails, pairs[i].second, {}, [&](std::size_t at) { return pairs[at].second; });
    if (place != tails.begin()) previous[i] = *std::prev(place);
    if (place == tails.end()) {
      tails.push_back(i);
    } else {
      *place = i;
    }
  }
  std::vector<Anchor> run;
  for (std::size_t at = tails.empty() ? kNone : tails.back(); at != kNone; at = previous[at]) {
    run.push_back(pairs[at]);
  }
  std::ranges::reverse(run);
  return run;
}

/// @param unique  take keys that occur once on each side, else those that occur equally often
std::vector<Anchor> equal_occurrences(std::span<const std::uint32_t> baseline,
                                      std::span<const std::uint32_t> candidate,
                                      const KeyCounts& counts,
                                      bool unique) {
  const auto eligible = [&](std::uint32_t key) {
    const std::uint32_t here = counts.in_baseline(key);
    return here == counts.in_candidate(key) && (!unique || here == 1);
  };
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> places;
  for (std::size_t i = 0; i < candidate.size(); ++i) {
    if (eligible(candidate[i])) places[candidate[i]].push_back(static_cast<std::uint32_t>(i));
  }
  std::unordered_map<std::uint32_t, std::size_t> seen;
  std::vector<Anchor> pairs;
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    if (!eligible(baseline[i])) continue;
    const std::vector<std::uint32_t>& there = places[baseline[i]];
    pairs.emplace_back(static_cast<std::uint32_t>(i), there[seen[baseline[i]]++]);
  }
  return increasing(pairs);
}

}  // namespace

KeyCounts::KeyCounts(std::vector<std::uint32_t>& baseline_scratch,
                     std::vector<std::uint32_t>& candidate_scratch,
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

std::vector<Anchor> find_anchors(std::span<const std::uint32_t> baseline,
                                 std::span<const std::uint32_t> candidate,
                                 const KeyCounts& counts) {
  std::vector<Anchor> anchors = equal_occurrences(baseline, candidate, counts, true);
  if (anchors.empty()) anchors = equal_occurrences(baseline, candidate, counts, false);
  return anchors;
}

}  // namespace repro_check::comparators::detail
