// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace repro_check::torchscript {

/// Numbers for generated inputs, the same on every machine and in every build: SplitMix64 (Steele,
/// Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014) started at the mixed seed.
/// Nothing of libm is used, and nothing but +, -, *, /, sqrt on doubles, which IEEE 754 rounds
/// exactly; the build forbids fusing them.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) noexcept;

  std::uint64_t next() noexcept;

  /// In [0, 1), a multiple of 2^-53.
  double uniform() noexcept;

  /// Standard normal, by Marsaglia's polar method (1964).
  double normal() noexcept;

  /// In [0, range), without bias.
  /// @param range  at least 1
  std::uint64_t below(std::uint64_t range) noexcept;

 private:
  std::uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

/// Natural logarithm of a positive normal number, within 4 ULP, the same on every machine.
double portable_log(double x) noexcept;

}  // namespace repro_check::torchscript
