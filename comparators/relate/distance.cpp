// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/distance.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace repro_check::comparators {

double roundoff(core::Dtype dtype) {
  const auto bits = static_cast<int>(core::row_of(dtype).layout.mantissa_bits);
  return std::ldexp(1.0, -bits - 1);
}

double squared_distance(double one, double other) {
  if (one == other || (std::isnan(one) && std::isnan(other))) return 0;
  if (!std::isfinite(one) || !std::isfinite(other)) return std::numeric_limits<double>::infinity();
  return (one - other) * (one - other);
}

double ratio_of(double one, double floor) {
  if (one == 0) return 0;
  return floor > 0 ? one / floor : std::numeric_limits<double>::infinity();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace repro_check::comparators
