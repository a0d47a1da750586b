// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace repro_check::comparators {

inline constexpr std::uint32_t kUnmatched = 0xFFFF'FFFF;

/// Which records of two streams belong together.
struct Alignment {
  /// Per baseline record its candidate record, strictly increasing, or kUnmatched.
  std::vector<std::uint32_t> candidate_of;
  std::uint64_t matched = 0;
  bool gave_up = false;    ///< the work limit was reached; the rest of a gap is left unmatched
  std::uint64_t work = 0;  ///< steps taken
};

/// Pairs records of equal key in order, as many as bounded work finds: equal streams by position,
/// else common prefix and suffix, records whose key is on one side only, Myers' greedy O(ND) up to
/// 256 differences, then anchors (keys that are equally frequent on both sides) and again in the
/// gaps between them. Ties match as early as possible. Work is at most 32 steps a record and 10^6
/// more.
/// @param baseline, candidate  interned keys, fewer than 2^32 - 1 each
/// Sources: E. Myers, Algorithmica 1 (1986); the histogram and patience diffs of git.
Alignment align(std::span<const std::uint32_t> baseline, std::span<const std::uint32_t> candidate);

}  // namespace repro_check::comparators
