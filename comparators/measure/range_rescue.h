// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "comparators/measure/lanes.h"
#include "comparators/measure/pair_totals.h"

// Sums of squares that leave the range of double are made again, each operand scaled by the
// exponent of its own maximum. Source: E. Anderson, TOMS algorithm 978.

namespace repro_check::comparators::detail {

/// Greatest magnitudes over finite pairs; d may be infinite.
struct Range {
  double b = 0;
  double c = 0;
  double d = 0;

  void merge(const Range& other) noexcept {
    b = std::max(b, other.b);
    c = std::max(c, other.c);
    d = std::max(d, other.d);
  }
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

/// Sums of squares and products of one leaf, scaled.
struct SquareSums {
  Lanes d2{};
  Lanes b2{};
  Lanes c2{};
  Lanes bc{};
};

/// @param parts  real numbers a side; a complex element is two of them
/// @param pair   index -> whether that part counts, and its baseline and candidate
template <typename PairAt>
void widen_range(std::size_t parts, const PairAt& pair, Range& range) {
  for (std::size_t i = 0; i < parts; ++i) {
    const auto [counts, b, c] = pair(i);
    if (counts) range.merge({std::abs(b), std::abs(c), std::abs(c - b)});
  }
}

/// As widen_range(), over the same parts.
template <typename PairAt>
SquareSums scaled_sums(std::size_t parts, const PairAt& pair, const Scale& scale) {
  SquareSums sums;
  for (std::size_t i = 0; i < parts; ++i) {
    const auto [counts, b, c] = pair(i);
    if (!counts) continue;
    const std::size_t lane = i % kLanes;
    const double scaled_b = std::ldexp(b, -scale.b);
    const double scaled_c = std::ldexp(c, -scale.c);
    const double scaled_d = std::ldexp(scale.half * c - scale.half * b, -scale.d);
    sums.d2[lane] += scaled_d * scaled_d;
    sums.b2[lane] += scaled_b * scaled_b;
    sums.c2[lane] += scaled_c * scaled_c;
    sums.bc[lane] += scaled_b * scaled_c;
  }
  return sums;
}

/// Puts scaled sums in the place of those that left the range.
/// @param sums  d2, b2, c2 and bc of the whole tensor
void replace_squares(const Scale& scale, const LeafTotals& sums, PairTotals& totals) noexcept;

}  // namespace repro_check::comparators::detail
