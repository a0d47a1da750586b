// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "core/system/large_memory.h"

namespace repro_check::comparators::detail {

/// A bounded search for a shortest edit script.
struct MyersResult {
  bool complete =
      false;  ///< both sequences were used up: the matches are a longest common subsequence
  /// Matched positions, increasing. Of an unfinished search, those of the path that got furthest.
  core::LargeVector<std::pair<std::uint32_t, std::uint32_t>> matches;
  std::uint32_t baseline_reached = 0;
  std::uint32_t candidate_reached = 0;
  std::uint64_t steps = 0;
};

/// @param max_differences  at most this many insertions and deletions together
/// @param max_steps        diagonals and snake steps before the search is given up
MyersResult myers(std::span<const std::uint32_t> baseline,
                  std::span<const std::uint32_t> candidate,
                  std::uint32_t max_differences,
                  std::uint64_t max_steps);

}  // namespace repro_check::comparators::detail
