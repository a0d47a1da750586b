// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace repro_check::comparators::detail {

/// Elements that are added side by side. A part of the definition of every sum, not of the machine.
inline constexpr std::size_t kLanes = 8;

/// The sums over pairs that are both finite; d = c - b.
template <typename Sum>
struct ErrorSums {
  Sum abs{};
  Sum rel{};
  Sum d2{};
  Sum b2{};
  Sum c2{};
  Sum bc{};
};

/// Calls `each` with every sum of the one and that of the other.
template <typename One, typename Other, typename Each>
void for_each_sum(One& one, Other& other, const Each& each) {
  each(one.abs, other.abs);
  each(one.rel, other.rel);
  each(one.d2, other.d2);
  each(one.b2, other.b2);
  each(one.c2, other.c2);
  each(one.bc, other.bc);
}

// NOLINTNEXTLINE(modernize-avoid-c-arrays): std::array has external linkage
using SumLanes = double[kLanes];
/// Those of one leaf, lane by lane.
using LeafSums = ErrorSums<SumLanes>;

}  // namespace repro_check::comparators::detail
