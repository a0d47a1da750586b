// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comparators/measure/leaf_pass.h"
#include "comparators/measure/pair_totals.h"

// Sums of squares that leave the range of double are made again, each operand scaled by the
// exponent of its own maximum. Source: E. Anderson, TOMS algorithm 978.

namespace repro_check::comparators::detail {

/// Greatest magnitudes over finite pairs; d may be infinite.
struct Range {
  double b = 0;
  double c = 0;
  double d = 0;

  void merge(const Range& other) noexcept;
};

/// What operands are multiplied by, as exponents of 2.
struct Scale {
  explicit Scale(const Range& range) noexcept;
  int b = 0;
  int c = 0;
  int d = 0;
  double half = 1.0;  ///< 0.5 where a difference overflows and is made of halves
};

/// A sum of squares left the range of double: infinite, or 0 although something is not. Without a
/// look at the values a zero sum of candidates is doubtful whenever anything else was not zero.
bool out_of_range(const PairTotals& totals) noexcept;

/// Of one leaf.
Range range_of(const LeafPass& pass, const PairLeaf& leaf);
/// Its sums of squares and products, scaled; no other.
LeafTotals scaled_squares(const LeafPass& pass, const PairLeaf& leaf, const Scale& scale);

/// Puts scaled sums in the place of those that left the range.
/// @param sums  of the whole tensor
void replace_squares(const Scale& scale, const LeafTotals& sums, PairTotals& totals) noexcept;

}  // namespace repro_check::comparators::detail
