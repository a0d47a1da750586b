// SPDX-License-Identifier: Apache-2.0
// Included by one file an instruction set, which defines REPRO_CHECK_VECTOR_BYTES if its vectors
// are wider than every machine's. Everything here has internal linkage on purpose: see
// stats_block.h.
#pragma once

#include "core/detail/stats_block.h"

#ifndef REPRO_CHECK_VECTOR_BYTES
#define REPRO_CHECK_VECTOR_BYTES 16
#endif

namespace repro_check::core::detail {
namespace {

inline constexpr std::size_t kWidth = REPRO_CHECK_VECTOR_BYTES / sizeof(double);
inline constexpr std::size_t kVectors = kStatsLanes / kWidth;
using Doubles [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES)]] = double;
using Longs [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES)]] = std::int64_t;
using Floats [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES / 2)]] = float;
using Ints [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES / 2)]] = std::int32_t;

/// One vector's worth of lanes, and how the bits of an element are told apart.
struct Narrow {
  using Value = float;
  using Values = Floats;
  using Bits = Ints;
  using Bit = std::int32_t;
  static constexpr Bit kMagnitude = 0x7FFF'FFFF;
  static constexpr Bit kInfinity = 0x7F80'0000;
  static Doubles widen(const Floats& values) { return __builtin_convertvector(values, Doubles); }
};

struct Wide {
  using Value = double;
  using Values = Doubles;
  using Bits = Longs;
  using Bit = std::int64_t;
  static constexpr Bit kMagnitude = 0x7FFF'FFFF'FFFF'FFFF;
  static constexpr Bit kInfinity = 0x7FF0'0000'0000'0000;
  static Doubles widen(const Doubles& values) { return values; }
};

template <typename Vector, typename Element>
inline Vector load(const Element* at) {
  Vector vector;
  __builtin_memcpy(&vector, at, sizeof vector);
  return vector;
}

/// Lane by lane, what a block has.
template <typename Kind>
struct Lanes {
  // NOLINTBEGIN(modernize-avoid-c-arrays): std::array has external linkage
  typename Kind::Values low[kVectors];
  typename Kind::Values high[kVectors];
  Doubles sum[kVectors] = {};
  Doubles squares[kVectors] = {};
  // NOLINTEND(modernize-avoid-c-arrays)

  Lanes() {
    const auto infinity = __builtin_bit_cast(typename Kind::Value, Kind::kInfinity);
    for (std::size_t v = 0; v < kVectors; ++v) {
      low[v] = typename Kind::Values{} + infinity;
      high[v] = typename Kind::Values{} - infinity;
    }
  }
};

/// Hits are -1 a lane; a block is short enough for them to fit.
template <typename Bits>
inline std::uint64_t hits(const Bits& lanes) {
  std::int64_t sum = 0;
  for (std::size_t lane = 0; lane < kWidth; ++lane) sum -= lanes[lane];
  return static_cast<std::uint64_t>(sum);
}

/// Extremes, sums and counts of `count` elements, a multiple of kStatsLanes.
/// @tparam kPlain  everything is taken to be finite, which is half the work
/// @return false when that was wrong; what was gathered is of no use then
template <typename Kind, bool kPlain>
inline bool gather(const typename Kind::Value* values,
                   std::size_t count,
                   typename Kind::Bit normal,
                   Lanes<Kind>& lanes,
                   BlockStats& found) {
  using Bits = typename Kind::Bits;
  Lanes<Kind> local = lanes;
  Bits odd{};
  Bits nans{};
  Bits high_infs{};
  Bits zeros{};
  Bits small{};
  for (std::size_t i = 0; i < count; i += kStatsLanes) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      auto value = load<typename Kind::Values>(values + i + v * kWidth);
      const Bits bits = __builtin_bit_cast(Bits, value);
      const Bits magnitude = bits & Kind::kMagnitude;
      const Bits not_finite = magnitude >= Kind::kInfinity;
      zeros += magnitude == 0;
      small += magnitude < normal;
      local.low[v] = value < local.low[v] ? value : local.low[v];
      local.high[v] = value > local.high[v] ? value : local.high[v];
      if constexpr (kPlain) {
        odd |= not_finite;
      } else {
        odd += not_finite;
        nans += magnitude > Kind::kInfinity;
        high_infs += bits == Kind::kInfinity;
        value = __builtin_bit_cast(typename Kind::Values, bits & ~not_finite);
      }
      local.sum[v] += Kind::widen(value);
    }
  }
  const std::uint64_t odd_count = hits(odd);
  if (kPlain && odd_count != 0) return false;
  const std::uint64_t zero_count = hits(zeros);
  found.finite += count - odd_count;
  found.zeros += zero_count;
  found.nans += hits(nans);
  found.positive_infs += hits(high_infs);
  found.negative_infs += odd_count - hits(nans) - hits(high_infs);
  if (normal > 0) found.subnormals += hits(small) - zero_count;
  lanes = local;
  return true;
}

/// Squares of the distances to `mean`.
template <typename Kind, bool kPlain>
inline void gather_squares(const typename Kind::Value* values,
                           std::size_t count,
                           double mean,
                           Lanes<Kind>& lanes) {
  Lanes<Kind> local = lanes;
  for (std::size_t i = 0; i < count; i += kStatsLanes) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto value = load<typename Kind::Values>(values + i + v * kWidth);
      Doubles far = Kind::widen(value) - mean;
      if constexpr (!kPlain) {
        const auto magnitude = __builtin_bit_cast(typename Kind::Bits, value) & Kind::kMagnitude;
        const Longs finite = __builtin_convertvector(magnitude < Kind::kInfinity, Longs);
        far = __builtin_bit_cast(Doubles, __builtin_bit_cast(Longs, far) & finite);
      }
      local.squares[v] += far * far;
    }
  }
  lanes = local;
}

/// The elements of a block in whole vectors, and the few behind them, padded with NaN.
template <typename Kind>
struct Pieces {
  const typename Kind::Value* whole;
  std::size_t whole_count;
  // NOLINTNEXTLINE(modernize-avoid-c-arrays): std::array has external linkage
  typename Kind::Value rest[kStatsLanes];
  std::size_t padding;

  Pieces(const typename Kind::Value* values, std::size_t count)
      : whole(values), whole_count(count - count % kStatsLanes) {
    constexpr auto kNan = __builtin_bit_cast(typename Kind::Value, Kind::kMagnitude);
    const std::size_t left = count - whole_count;
    padding = left == 0 ? 0 : kStatsLanes - left;
    for (std::size_t i = 0; i < kStatsLanes; ++i)
      rest[i] = i < left ? values[whole_count + i] : kNan;
  }
};

template <typename Vector>
inline double in_order(const Vector* lanes) {
  double sum = 0;
  for (std::size_t v = 0; v < kVectors; ++v) {
    for (std::size_t lane = 0; lane < kWidth; ++lane) sum += lanes[v][lane];
  }
  return sum;
}

template <typename Kind>
inline void finish_extremes(const Lanes<Kind>& lanes, BlockStats& found) {
  found.min = static_cast<double>(lanes.low[0][0]);
  found.max = static_cast<double>(lanes.high[0][0]);
  for (std::size_t v = 0; v < kVectors; ++v) {
    for (std::size_t lane = 0; lane < kWidth; ++lane) {
      const auto low = static_cast<double>(lanes.low[v][lane]);
      const auto high = static_cast<double>(lanes.high[v][lane]);
      found.min = low < found.min ? low : found.min;
      found.max = high > found.max ? high : found.max;
    }
  }
}

/// The mean of finite numbers is finite, even where their sum is not.
template <typename Kind>
double mean_of(const typename Kind::Value* values, std::size_t count, double sum, double finite) {
  if (sum - sum == 0) return sum / finite;
  double mean = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // NOLINTNEXTLINE(misc-redundant-expression): not so for infinities and NaN
    if (values[i] - values[i] == 0) mean += static_cast<double>(values[i]) / finite;
  }
  constexpr double kMost = 0x1.fffffffffffffp1023;
  if (mean > kMost) return kMost;
  return mean < -kMost ? -kMost : mean;
}

template <typename Kind>
BlockStats block_stats(const typename Kind::Value* values,
                       std::size_t count,
                       typename Kind::Value smallest_normal) {
  const auto normal = __builtin_bit_cast(typename Kind::Bit, smallest_normal);
  const Pieces<Kind> pieces(values, count);
  Lanes<Kind> lanes;
  BlockStats found{};
  const bool plain = gather<Kind, true>(pieces.whole, pieces.whole_count, normal, lanes, found);
  if (!plain) gather<Kind, false>(pieces.whole, pieces.whole_count, normal, lanes, found);
  if (pieces.padding > 0) {
    gather<Kind, false>(pieces.rest, kStatsLanes, normal, lanes, found);
    found.nans -= pieces.padding;
  }
  finish_extremes(lanes, found);
  if (found.finite == 0) return found;
  found.mean = mean_of<Kind>(values, count, in_order(lanes.sum), static_cast<double>(found.finite));
  if (plain) {
    gather_squares<Kind, true>(pieces.whole, pieces.whole_count, found.mean, lanes);
  } else {
    gather_squares<Kind, false>(pieces.whole, pieces.whole_count, found.mean, lanes);
  }
  if (pieces.padding > 0) {
    gather_squares<Kind, false>(pieces.rest, kStatsLanes, found.mean, lanes);
  }
  found.squares = in_order(lanes.squares);
  return found;
}

// One for each instruction set, in a namespace of its file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
constexpr StatsLoops kLoops{block_stats<Narrow>, block_stats<Wide>};

}  // namespace
}  // namespace repro_check::core::detail
