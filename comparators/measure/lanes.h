// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace repro_check::comparators::detail {

/// Elements that are added side by side. A part of the definition of every sum, not of the machine.
inline constexpr std::size_t kLanes = 8;

/// One number a lane.
using Lanes = std::array<double, kLanes>;

__extension__ using UInt128 = unsigned __int128;

/// The fixed tree that ends a leaf.
inline double sum_of_lanes(const Lanes& lanes) noexcept {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

}  // namespace repro_check::comparators::detail
