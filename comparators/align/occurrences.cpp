// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/occurrences.h"

#include <algorithm>
#include <cstddef>

namespace repro_check::comparators::detail {
namespace {

core::LargeVector<std::uint32_t> earlier_alike(const core::LargeVector<std::uint32_t>& keys) {
  core::LargeVector<std::uint32_t> seen(keys.empty() ? 0 : std::size_t{1} + std::ranges::max(keys),
                                        0);
  core::LargeVector<std::uint32_t> earlier;
  earlier.reserve(keys.size());
  for (const std::uint32_t key : keys) earlier.push_back(seen[key]++);
  return earlier;
}

}  // namespace

void Occurrences::fill(OpDivergence& item) {
  const bool in_baseline = item.baseline_index.has_value();
  core::LargeVector<std::uint32_t>& earlier = in_baseline ? baseline_ : candidate_;
  if (earlier.empty()) {
    earlier = earlier_alike((in_baseline ? pairing_.baseline : pairing_.candidate).keys);
  }
  item.occurrence = earlier[in_baseline ? *item.baseline_index : *item.candidate_index];
}

}  // namespace repro_check::comparators::detail
