// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "comparators/measure/float_block.h"
#include "comparators/report/histograms.h"

namespace repro_check::comparators::detail {

/// How many pairs have which code of float_block.h; pairs without a difference may be left out.
struct ErrorCodes {
  std::array<std::uint64_t, kUlpCodes> ulp{};
  std::array<std::uint64_t, kRelCodes> rel{};

  void merge(const ErrorCodes& other) noexcept {
    for (std::size_t i = 0; i < ulp.size(); ++i) ulp[i] += other.ulp[i];
    for (std::size_t i = 0; i < rel.size(); ++i) rel[i] += other.rel[i];
  }

  // What the loops over blocks of floats do, for one pair.
  void add_ulp(std::uint64_t distance) noexcept {
    ++ulp[distance == 0 ? 0 : 1 + static_cast<std::size_t>(std::bit_width(distance - 1))];
  }
  /// @param abs, base  |c-b|, not 0, and |b|
  void add_rel(double abs, double base) noexcept {
    if (base == 0) {
      ++rel[static_cast<std::size_t>(kRelOfZeroBase)];
      return;
    }
    const double clipped = std::clamp(abs / base, 0x1p-64, 0x1p8);
    const int code = std::ilogb(clipped) - kLeastRelExponent + 1;
    ++rel[static_cast<std::size_t>(code)];
  }
};

/// @param elements  of each side, or parts of complex ones
/// @param finite    pairs of them that are both finite
UlpHistogram ulp_histogram(const ErrorCodes& codes,
                           std::uint64_t elements,
                           std::uint64_t finite) noexcept;

/// @param finite  pairs that are both finite
RelHistogram rel_histogram(const ErrorCodes& codes, std::uint64_t finite) noexcept;

}  // namespace repro_check::comparators::detail
