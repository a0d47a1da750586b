// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// The inner loops of the statistics, compiled once an instruction set: see vectors.h.

namespace repro_check::core::detail {

/// Elements of a block: read twice, so it must fit into the smallest cache.
inline constexpr std::size_t kStatsBlock = 2048;
/// Element i is summed in lane i % kStatsLanes, and lanes are added in order: the same bits
/// whatever the width of a register.
inline constexpr std::size_t kStatsLanes = 16;

/// What elements have; of several blocks put together likewise.
struct BlockStats {
  double min;  ///< over all but NaN; above max where there is nothing
  double max;
  double mean;     ///< over finite elements
  double squares;  ///< of the distances to it
  std::uint64_t finite;
  std::uint64_t zeros;
  std::uint64_t subnormals;
  std::uint64_t nans;
  std::uint64_t positive_infs;
  std::uint64_t negative_infs;
};

/// Elements of a row, each of which is added to a sum of its own, row by row: the same bits
/// whatever the width of a register.
inline constexpr std::size_t kRowElements = 64;

/// Lanes of `width` bytes (1, 2, 4 or 8) that are no number: those whose bits in `mask`, flipped by
/// `flip`, are `top`, than which no other lane's are greater, by sign.
struct OddLanes {
  std::size_t width;
  std::uint64_t mask;
  std::uint64_t flip;
  std::uint64_t top;
};

/// At most kStatsBlock elements; below `normal` in magnitude an element is subnormal.
struct StatsLoops {
  BlockStats (*narrow)(const float* values, std::size_t count, float normal);
  BlockStats (*wide)(const double* values, std::size_t count, double normal);
  /// Whether there are any, in whole lanes that lie anywhere.
  bool (*has_odd)(const std::byte* data, std::size_t size, const OddLanes& odd);
  /// Adds the squares of rows of kRowElements; doubles hold each of them exactly.
  void (*add_squares)(const float* values, std::size_t rows, double* sums);
  /// Adds each row times its sign, which is 1 or -1.
  void (*add_signed)(const float* values, const double* signs, std::size_t rows, double* sums);
};

StatsLoops portable_stats_loops() noexcept;
StatsLoops avx2_stats_loops() noexcept;
StatsLoops avx512_stats_loops() noexcept;

/// Every one of them that this processor can run, the fastest first.
std::span<const StatsLoops> runnable_stats_loops() noexcept;
const StatsLoops& fastest_stats_loops() noexcept;

}  // namespace repro_check::core::detail
