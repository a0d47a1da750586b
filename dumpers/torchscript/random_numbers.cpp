// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/random_numbers.h"

#include <bit>
#include <cmath>

namespace repro_check::torchscript {
namespace {

std::uint64_t mix(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

}  // namespace

// Mixed, so that neighbouring seeds do not give streams that are shifts of one another.
RandomNumbers::RandomNumbers(std::uint64_t seed) noexcept : state_(mix(seed + 1)) {}

std::uint64_t RandomNumbers::next() noexcept {
  state_ += 0x9E3779B97F4A7C15U;
  return mix(state_);
}

double RandomNumbers::uniform() noexcept { return static_cast<double>(next() >> 11U) * 0x1p-53; }

double RandomNumbers::normal() noexcept {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  double u = 0;
  double v = 0;
  double s = 0;
  do {
    u = 2 * uniform() - 1;
    v = 2 * uniform() - 1;
    s = u * u + v * v;
  } while (s >= 1 || s < 0x1p-1000);
  const double factor = std::sqrt(-2 * portable_log(s) / s);
  spare_ = v * factor;
  has_spare_ = true;
  return u * factor;
}

std::uint64_t RandomNumbers::below(std::uint64_t range) noexcept {
  // Numbers at the top of the 64-bit range that would make some remainders more frequent are drawn
  // again.
  const std::uint64_t surplus = (0 - range) % range;
  std::uint64_t drawn = next();
  while (drawn < surplus) drawn = next();
  return drawn % range;
}

double portable_log(double x) noexcept {
  constexpr double kLn2High =
      0x1.62e42fefa3800p-1;  // trailing zeros: times an exponent it is exact
  constexpr double kLn2Low = 0x1.ef35793c76730p-45;
  constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<int>(bits >> 52U) - 1022;
  auto m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFU) | 0x3FE0000000000000U);
  if (m < kSqrtHalf) {
    m *= 2;
    --exponent;
  }
  // log m = 2 atanh t with |t| < 0.172; the series is cut where its terms fall below 2^-60.
  const double t = (m - 1) / (m + 1);
  const double t2 = t * t;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * t2 + 1.0 / k;
  const auto e = static_cast<double>(exponent);
  return e * kLn2High + (2 * t * sum + e * kLn2Low);
}

}  // namespace repro_check::torchscript
