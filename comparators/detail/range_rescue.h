// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "comparators/detail/pair_totals.h"
#include "comparators/metrics.h"

namespace repro_check::comparators::detail {

/// A sum of squares left the range of double: infinite, or 0 although something is not. Without a
/// look at the values a zero sum of candidates is doubtful whenever anything else was not zero.
inline bool out_of_range(const PairTotals& totals) noexcept {
  const bool lost_d = totals.d2 == 0 && totals.max_abs > 0;
  const bool lost_b = totals.b2 == 0 && totals.n_rel != 0;
  const bool lost_c = totals.c2 == 0 && (totals.b2 != 0 || totals.max_abs > 0);
  return lost_d || lost_b || lost_c || std::isinf(totals.d2) || std::isinf(totals.b2) ||
         std::isinf(totals.c2);
}

/// Exponent that brings `most` to the neighbourhood of 1.
inline int scale_of(double most) noexcept {
  return most == 0 || !std::isfinite(most) ? 0 : std::ilogb(most);
}

/// Makes the sums of squares again, each operand scaled by its own maximum's exponent.
/// @param parts  real numbers a side; a complex element is two of them
/// @param pair   index -> whether that part counts, and its baseline and candidate
template <typename PairAt>
void rescue_range(std::uint64_t parts, const PairAt& pair, PairTotals& totals) {
  double b_most = 0;
  double c_most = 0;
  double d_most = 0;
  for (std::uint64_t i = 0; i < parts; ++i) {
    const auto [counts, b, c] = pair(i);
    if (!counts) continue;
    b_most = std::max(b_most, std::abs(b));
    c_most = std::max(c_most, std::abs(c));
    d_most = std::max(d_most, std::abs(c - b));
  }
  // A difference that overflows is made of halves.
  const double half = std::isinf(d_most) ? 0.5 : 1.0;
  const int d_exponent = std::isinf(d_most) ? scale_of(std::max(b_most, c_most)) : scale_of(d_most);
  totals.b_exponent = scale_of(b_most);
  totals.c_exponent = scale_of(c_most);
  totals.d_exponent = std::isinf(d_most) ? d_exponent + 1 : d_exponent;
  totals.d2 = totals.b2 = totals.c2 = totals.bc = 0;
  for (std::uint64_t leaf = 0; leaf < parts; leaf += kMetricLeaf) {
    const std::uint64_t end = std::min<std::uint64_t>(parts, leaf + kMetricLeaf);
    LeafSums sums;
    for (std::uint64_t i = leaf; i < end; ++i) {
      const auto [counts, b, c] = pair(i);
      if (!counts) continue;
      const std::size_t lane = (i - leaf) % kLanes;
      const double scaled_b = std::ldexp(b, -totals.b_exponent);
      const double scaled_c = std::ldexp(c, -totals.c_exponent);
      const double scaled_d = std::ldexp(half * c - half * b, -d_exponent);
      sums.d2[lane] += scaled_d * scaled_d;
      sums.b2[lane] += scaled_b * scaled_b;
      sums.c2[lane] += scaled_c * scaled_c;
      sums.bc[lane] += scaled_b * scaled_c;
    }
    totals.add(sums);
  }
}

}  // namespace repro_check::comparators::detail
