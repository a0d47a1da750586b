// SPDX-License-Identifier: Apache-2.0
// Included by one file an instruction set, which defines REPRO_CHECK_VECTOR_BYTES if its vectors
// are wider than every machine's. Everything here has internal linkage on purpose: see
// stats_block.h.
#pragma once

#include "core/tensor/stats_block.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef REPRO_CHECK_VECTOR_BYTES
#define REPRO_CHECK_VECTOR_BYTES 16
#endif

#include "core/tensor/odd_lanes_loops.h"

namespace repro_check::core::detail {
namespace {

using Doubles [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES)]] = double;
using Longs [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES)]] = std::int64_t;
using Floats [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES)]] = float;
using Ints [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES)]] = std::int32_t;
using HalfFloats [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES / 2)]] = float;

inline constexpr std::size_t kSumWidth = sizeof(Doubles) / sizeof(double);
inline constexpr std::size_t kSums = kStatsLanes / kSumWidth;

template <typename Vector, typename Element>
inline Vector load(const Element* at) {
  Vector vector;
  __builtin_memcpy(&vector, at, sizeof vector);
  return vector;
}

inline Doubles widened(const HalfFloats& values) {
  // GCC 12 converts a vector in two halves of its own accord, with moves around them.
#if defined(__AVX512F__)
  return __builtin_bit_cast(Doubles, _mm512_cvtps_pd(__builtin_bit_cast(__m256, values)));
#elif defined(__AVX2__)
  return __builtin_bit_cast(Doubles, _mm256_cvtps_pd(__builtin_bit_cast(__m128, values)));
#else
  return __builtin_convertvector(values, Doubles);
#endif
}

/// What elements are held in, how their bits are told apart, and the doubles they are summed as.
struct Narrow {
  using Value = float;
  using Values = Floats;
  using Bits = Ints;
  using Bit = std::int32_t;
  static constexpr Bit kMagnitude = 0x7FFF'FFFF;
  static constexpr Bit kInfinity = 0x7F80'0000;
  static Doubles doubles(const float* at) { return widened(load<HalfFloats>(at)); }
};

struct Wide {
  using Value = double;
  using Values = Doubles;
  using Bits = Longs;
  using Bit = std::int64_t;
  static constexpr Bit kMagnitude = 0x7FFF'FFFF'FFFF'FFFF;
  static constexpr Bit kInfinity = 0x7FF0'0000'0000'0000;
  static Doubles doubles(const double* at) { return load<Doubles>(at); }
};

template <typename Kind>
inline constexpr std::size_t kWidth = sizeof(typename Kind::Values) / sizeof(typename Kind::Value);
template <typename Kind>
inline constexpr std::size_t kVectors = kStatsLanes / kWidth<Kind>;

/// What a block has, a lane each. Extremes are of no order, so theirs need not be kStatsLanes.
template <typename Kind>
struct Lanes {
  typename Kind::Values low;
  typename Kind::Values high;
  // NOLINTBEGIN(modernize-avoid-c-arrays): std::array has external linkage
  Doubles sum[kSums] = {};
  Doubles squares[kSums] = {};
  // NOLINTEND(modernize-avoid-c-arrays)

  Lanes() {
    const auto infinity = __builtin_bit_cast(typename Kind::Value, Kind::kInfinity);
    low = typename Kind::Values{} + infinity;
    high = typename Kind::Values{} - infinity;
  }
};

/// Hits are -1 a lane; a block is short enough for them to fit.
template <typename Bits>
inline std::uint64_t hits(const Bits& lanes) {
  std::int64_t sum = 0;
  for (std::size_t lane = 0; lane < sizeof lanes / sizeof lanes[0]; ++lane) sum -= lanes[lane];
  return static_cast<std::uint64_t>(sum);
}

/// `of` where `value` is finite, else 0. A float that is not finite is a double that is not.
inline Doubles where_finite(const Doubles& value, const Doubles& of) {
  const Longs finite = (__builtin_bit_cast(Longs, value) & Wide::kMagnitude) < Wide::kInfinity;
  return __builtin_bit_cast(Doubles, __builtin_bit_cast(Longs, of) & finite);
}

/// Extremes, sums and counts of `count` elements, a multiple of kStatsLanes, that are taken to be
/// finite, which is half the work. What follows them is on its way to the cache meanwhile.
/// @return false when they are not; what was gathered is of no use then
template <typename Kind>
inline bool gather_finite(const typename Kind::Value* values,
                          std::size_t count,
                          typename Kind::Bit normal,
                          Lanes<Kind>& lanes,
                          BlockStats& found) {
  using Bits = typename Kind::Bits;
  Lanes<Kind> local = lanes;
  Bits largest{};
  Bits zeros{};
  Bits small{};
  for (std::size_t i = 0; i < count; i += kStatsLanes) {
    __builtin_prefetch(values + i + count);
    for (std::size_t v = 0; v < kVectors<Kind>; ++v) {
      const auto value = load<typename Kind::Values>(values + i + v * kWidth<Kind>);
      const Bits magnitude = __builtin_bit_cast(Bits, value) & Kind::kMagnitude;
      largest = magnitude > largest ? magnitude : largest;
      zeros += magnitude == 0;
      small += magnitude < normal;
      local.low = value < local.low ? value : local.low;
      local.high = value > local.high ? value : local.high;
    }
    for (std::size_t v = 0; v < kSums; ++v) {
      local.sum[v] += Kind::doubles(values + i + v * kSumWidth);
    }
  }
  for (std::size_t lane = 0; lane < kWidth<Kind>; ++lane) {
    if (largest[lane] >= Kind::kInfinity) return false;
  }
  const std::uint64_t zero_count = hits(zeros);
  found.finite += count;
  found.zeros += zero_count;
  if (normal > 0) found.subnormals += hits(small) - zero_count;
  lanes = local;
  return true;
}

/// The same of elements of any kind.
template <typename Kind>
inline void gather_any(const typename Kind::Value* values,
                       std::size_t count,
                       typename Kind::Bit normal,
                       Lanes<Kind>& lanes,
                       BlockStats& found) {
  using Bits = typename Kind::Bits;
  Bits odd{};
  Bits nans{};
  Bits high_infs{};
  Bits zeros{};
  Bits small{};
  for (std::size_t i = 0; i < count; i += kStatsLanes) {
    for (std::size_t v = 0; v < kVectors<Kind>; ++v) {
      const auto value = load<typename Kind::Values>(values + i + v * kWidth<Kind>);
      const Bits bits = __builtin_bit_cast(Bits, value);
      const Bits magnitude = bits & Kind::kMagnitude;
      odd += magnitude >= Kind::kInfinity;
      nans += magnitude > Kind::kInfinity;
      high_infs += bits == Kind::kInfinity;
      zeros += magnitude == 0;
      small += magnitude < normal;
      lanes.low = value < lanes.low ? value : lanes.low;
      lanes.high = value > lanes.high ? value : lanes.high;
    }
    for (std::size_t v = 0; v < kSums; ++v) {
      const Doubles wide = Kind::doubles(values + i + v * kSumWidth);
      lanes.sum[v] += where_finite(wide, wide);
    }
  }
  const std::uint64_t odd_count = hits(odd);
  const std::uint64_t zero_count = hits(zeros);
  found.finite += count - odd_count;
  found.zeros += zero_count;
  found.nans += hits(nans);
  found.positive_infs += hits(high_infs);
  found.negative_infs += odd_count - hits(nans) - hits(high_infs);
  if (normal > 0) found.subnormals += hits(small) - zero_count;
}

/// Squares of the distances to `mean`.
/// @tparam kFinite  everything is known to be
template <typename Kind, bool kFinite>
inline void gather_squares(const typename Kind::Value* values,
                           std::size_t count,
                           double mean,
                           Lanes<Kind>& lanes) {
  Lanes<Kind> local = lanes;
  for (std::size_t i = 0; i < count; i += kStatsLanes) {
    for (std::size_t v = 0; v < kSums; ++v) {
      const Doubles wide = Kind::doubles(values + i + v * kSumWidth);
      Doubles far = wide - mean;
      if constexpr (!kFinite) far = where_finite(wide, far);
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

inline double in_order(const Doubles* lanes) {
  double sum = 0;
  for (std::size_t v = 0; v < kSums; ++v) {
    for (std::size_t lane = 0; lane < kSumWidth; ++lane) sum += lanes[v][lane];
  }
  return sum;
}

/// A zero has no sign here: which of two that stand in different lanes comes first is not defined.
template <typename Kind>
inline void finish_extremes(const Lanes<Kind>& lanes, BlockStats& found) {
  found.min = static_cast<double>(lanes.low[0]);
  found.max = static_cast<double>(lanes.high[0]);
  for (std::size_t lane = 0; lane < kWidth<Kind>; ++lane) {
    const auto low = static_cast<double>(lanes.low[lane]);
    const auto high = static_cast<double>(lanes.high[lane]);
    found.min = low < found.min ? low : found.min;
    found.max = high > found.max ? high : found.max;
  }
  found.min += 0.0;
  found.max += 0.0;
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
  const bool finite = gather_finite(pieces.whole, pieces.whole_count, normal, lanes, found);
  if (!finite) gather_any(pieces.whole, pieces.whole_count, normal, lanes, found);
  if (pieces.padding > 0) {
    gather_any(pieces.rest, kStatsLanes, normal, lanes, found);
    found.nans -= pieces.padding;
  }
  finish_extremes(lanes, found);
  if (found.finite == 0) return found;
  found.mean = mean_of<Kind>(values, count, in_order(lanes.sum), static_cast<double>(found.finite));
  if (finite) {
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
constexpr StatsLoops kLoops{block_stats<Narrow>, block_stats<Wide>, has_odd};

}  // namespace
}  // namespace repro_check::core::detail
