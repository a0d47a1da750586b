// SPDX-License-Identifier: Apache-2.0
#include "comparators/report/histograms.h"

#include <cmath>
#include <limits>

namespace repro_check::comparators {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

std::optional<RelBounds> rel_percentile(const RelHistogram& histogram, double share) noexcept {
  std::uint64_t all = histogram.zero + histogram.infinite;
  for (const std::uint64_t count : histogram.exponents) all += count;
  if (all == 0) return std::nullopt;
  const double wanted = share * static_cast<double>(all);
  std::uint64_t seen = histogram.zero;
  if (static_cast<double>(seen) >= wanted) return RelBounds{0, 0};
  for (std::size_t i = 0; i < histogram.exponents.size(); ++i) {
    seen += histogram.exponents[i];
    if (static_cast<double>(seen) < wanted) continue;
    const int exponent = RelHistogram::kLeast + static_cast<int>(i);
    return RelBounds{
        i == 0 ? 0.0 : std::ldexp(1.0, exponent),
        exponent == RelHistogram::kGreatest ? kInfinity : std::ldexp(1.0, exponent + 1)};
  }
  return RelBounds{kInfinity, kInfinity};
}

}  // namespace repro_check::comparators
