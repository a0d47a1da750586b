// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/content_summary.h"

namespace repro_check::core {

void SummaryOfLeaves::set(std::size_t index, std::span<const std::byte> leaf) {
  if (stats_.empty()) {
    const CountedLeaf counted = count_leaf(dtype_, leaf);
    digests_[index] = counted.digest;
    counts_[index] = counted.counts;
  } else {
    const LeafSummary summary = summarise_leaf(dtype_, leaf);
    digests_[index] = summary.digest;
    stats_[index] = summary.stats;
  }
}

ContentSummary SummaryOfLeaves::put_together() const {
  ContentSummary summary{digest_of_leaves(digests_), {}, std::nullopt};
  for (const NonFinite& leaf : counts_) summary.non_finite += leaf;
  if (!stats_.empty()) summary.stats = stats_of_leaves(stats_);
  return summary;
}

}  // namespace repro_check::core
