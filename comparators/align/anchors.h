// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "core/system/large_memory.h"

namespace repro_check::comparators::detail {

using Anchor = std::pair<std::uint32_t, std::uint32_t>;  ///< positions, baseline and candidate

/// How often each key occurs in two gaps, in arrays that are as long as there are keys and are
/// clean again when the object dies: a gap costs its own length and not the number of keys.
class KeyCounts {
 public:
  KeyCounts(core::LargeVector<std::uint32_t>& baseline_scratch,
            core::LargeVector<std::uint32_t>& candidate_scratch,
            std::span<const std::uint32_t> baseline,
            std::span<const std::uint32_t> candidate);
  KeyCounts(const KeyCounts&) = delete;
  KeyCounts& operator=(const KeyCounts&) = delete;
  KeyCounts(KeyCounts&&) = delete;
  KeyCounts& operator=(KeyCounts&&) = delete;
  ~KeyCounts();

  [[nodiscard]] std::uint32_t in_baseline(std::uint32_t key) const { return baseline_counts_[key]; }
  [[nodiscard]] std::uint32_t in_candidate(std::uint32_t key) const {
    return candidate_counts_[key];
  }

 private:
  core::LargeVector<std::uint32_t>& baseline_counts_;
  core::LargeVector<std::uint32_t>& candidate_counts_;
  std::span<const std::uint32_t> baseline_;
  std::span<const std::uint32_t> candidate_;
};

/// Pairs that are safe to split at: the one occurrence on each side of the keys that are unique,
/// or, where there are none, the k-th with the k-th of keys that are equally frequent; of those the
/// longest run that increases on both sides. Empty also where such a split would cost more than
/// half of what the gap has in common.
/// @param scratch  per key, all 0; left so
core::LargeVector<Anchor> find_anchors(std::span<const std::uint32_t> baseline,
                                       std::span<const std::uint32_t> candidate,
                                       const KeyCounts& counts,
                                       core::LargeVector<std::uint32_t>& scratch);

}  // namespace repro_check::comparators::detail
