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

void Distances::add(double one, double own, double b, double value) {
  exact += std::isfinite(value) ? value * value : 0;
  error_a += squared_distance(one, own);
  error_b += squared_distance(b, value);
  along += b * value;
  other += b * b;
  ++elements;
}

void Distances::add(const Distances& more) {
  exact += more.exact;
  error_a += more.error_a;
  error_b += more.error_b;
  along += more.along;
  other += more.other;
  elements += more.elements;
}

double Usual::floor(const Distances& of) const {
  const double size = std::sqrt(of.exact);
  return std::max({std::sqrt(of.error_a),
                   error * size,
                   rounding * size,
                   rounding * element * std::sqrt(of.elements)});
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace repro_check::comparators
