// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/range_rescue.h"

#include <algorithm>
#include <cmath>

namespace repro_check::comparators::detail {
namespace {

/// Exponent that brings `most` to the neighbourhood of 1.
int scale_of(double most) noexcept {
  return most == 0 || !std::isfinite(most) ? 0 : std::ilogb(most);
}

}  // namespace

void Range::merge(const Range& other) noexcept {
  b = std::max(b, other.b);
  c = std::max(c, other.c);
  d = std::max(d, other.d);
}

Scale::Scale(const Range& range) noexcept : b(scale_of(range.b)), c(scale_of(range.c)) {
  const bool overflows = std::isinf(range.d);
  d = overflows ? scale_of(std::max(range.b, range.c)) : scale_of(range.d);
  if (overflows) half = 0.5;
}

bool out_of_range(const PairTotals& totals) noexcept {
  const bool lost_d = totals.sums.d2 == 0 && totals.max_abs > 0;
  const bool lost_b = totals.sums.b2 == 0 && totals.n_rel != 0;
  const bool lost_c = totals.sums.c2 == 0 && (totals.sums.b2 != 0 || totals.max_abs > 0);
  return lost_d || lost_b || lost_c || std::isinf(totals.sums.d2) || std::isinf(totals.sums.b2) ||
         std::isinf(totals.sums.c2);
}

Range range_of(const LeafPass& pass, const PairLeaf& leaf) {
  Range range;
  pass.for_each_finite(leaf, [&](std::size_t /*part*/, double b, double c) {
    range.merge({std::abs(b), std::abs(c), std::abs(c - b)});
  });
  return range;
}

LeafTotals scaled_squares(const LeafPass& pass, const PairLeaf& leaf, const Scale& scale) {
  LeafSums sums;
  pass.for_each_finite(leaf, [&](std::size_t part, double b, double c) {
    const std::size_t lane = part % kLanes;
    const double scaled_b = std::ldexp(b, -scale.b);
    const double scaled_c = std::ldexp(c, -scale.c);
    const double scaled_d = std::ldexp(scale.half * c - scale.half * b, -scale.d);
    sums.d2[lane] += scaled_d * scaled_d;
    sums.b2[lane] += scaled_b * scaled_b;
    sums.c2[lane] += scaled_c * scaled_c;
    sums.bc[lane] += scaled_b * scaled_c;
  });
  return totals_of(sums);
}

void replace_squares(const Scale& scale, const LeafTotals& sums, PairTotals& totals) noexcept {
  totals.sums.d2 = sums.d2;
  totals.sums.b2 = sums.b2;
  totals.sums.c2 = sums.c2;
  totals.sums.bc = sums.bc;
  totals.b_exponent = scale.b;
  totals.c_exponent = scale.c;
  totals.d_exponent = scale.half < 1.0 ? scale.d + 1 : scale.d;
}

}  // namespace repro_check::comparators::detail
