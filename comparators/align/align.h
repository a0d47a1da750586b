// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "comparators/report/report.h"
#include "core/system/memory.h"

namespace repro_check::comparators {

inline constexpr std::uint32_t kUnmatched = 0xFFFF'FFFF;

/// Op indices, or a number for each of them.
using Ops = core::LargeVector<std::uint32_t>;

/// Which records of two streams belong together.
struct Alignment {
  /// Per baseline record its candidate record, strictly increasing, or kUnmatched.
  Ops candidate_of;
  core::LargeVector<MatchedBy> how;  ///< per baseline record
  std::uint64_t matched = 0;
  bool gave_up = false;    ///< the work limit was reached; the rest of a gap is left unmatched
  std::uint64_t work = 0;  ///< steps taken
};

/// Arrays as long as there are keys, made when streams first turn out to differ. All 0 but while
/// align() runs, which then takes no more of them than a stream is long.
struct KeyScratch {
  Ops baseline;
  Ops candidate;
  Ops anchors;
};

/// Pairs records of equal key in order, as many as bounded work finds: equal streams by position,
/// else common prefix and suffix, records whose key is on one side only, Myers' greedy O(ND) up to
/// 256 differences, then anchors (keys that are equally frequent on both sides) and again in the
/// gaps between them. Ties match as early as possible. Work stays within most_work() and one more
/// walk over a gap.
/// @param baseline, candidate  interned keys, fewer than 2^32 - 1 each
/// Sources: E. Myers, Algorithmica 1 (1986); the histogram and patience diffs of git.
/// @param scratch  for the next streams of the same keys
Alignment align(std::span<const std::uint32_t> baseline,
                std::span<const std::uint32_t> candidate,
                KeyScratch& scratch);

/// Steps after which align() gives up on what is left: 32 a record and 10^6 more.
std::uint64_t most_work(std::uint64_t records) noexcept;

}  // namespace repro_check::comparators
