// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/stats_block.h"

#include "core/system/vectors.h"

namespace repro_check::core::detail {
namespace {

using Narrow = NarrowKind<>;
using Wide = WideKind;

inline constexpr std::size_t kSums = kStatsLanes / kDoubles;
/// Vectors of elements that hold as many.
template <typename Kind>
inline constexpr std::size_t kVectors = kStatsLanes / Kind::kLanes;

/// What a block has, a lane each. Extremes are of no order, so theirs need not be kStatsLanes.
template <typename Kind>
struct Gathered {
  typename Kind::Values low;
  typename Kind::Values high;
  // NOLINTBEGIN(modernize-avoid-c-arrays): std::array has external linkage
  Doubles sum[kSums] = {};
  Doubles squares[kSums] = {};
  // NOLINTEND(modernize-avoid-c-arrays)

  Gathered() {
    const auto infinity = __builtin_bit_cast(typename Kind::Value, Kind::kInfinity);
    low = typename Kind::Values{} + infinity;
    high = typename Kind::Values{} - infinity;
  }
};

/// `of` where `value` is finite, else 0. A float that is not finite is a double that is not.
inline Doubles where_finite(const Doubles& value, const Doubles& of) {
  const Longs finite = (__builtin_bit_cast(Longs, value) & Wide::kMagnitude) < Wide::kInfinity;
  return masked(of, finite);
}

/// Extremes, sums and counts of `count` elements, a multiple of kStatsLanes.
/// @tparam kFinite  they are taken to be, which is half the work. What follows them is on its way
/// to
///                  the cache meanwhile.
/// @return false when they are not; nothing was gathered then
template <typename Kind, bool kFinite>
inline bool gather(const typename Kind::Value* values,
                   std::size_t count,
                   typename Kind::Bit normal,
                   Gathered<Kind>& lanes,
                   BlockStats& found) {
  using Bits = typename Kind::Bits;
  Gathered<Kind> local = lanes;
  Bits largest{};
  Bits odd{};
  Bits nans{};
  Bits high_infs{};
  Bits zeros{};
  Bits small{};
  for (std::size_t i = 0; i < count; i += kStatsLanes) {
    if constexpr (kFinite) __builtin_prefetch(values + i + count);
    for (std::size_t v = 0; v < kVectors<Kind>; ++v) {
      const auto value = load<typename Kind::Values>(values + i + v * Kind::kLanes);
      const Bits bits = __builtin_bit_cast(Bits, value);
      const Bits magnitude = bits & Kind::kMagnitude;
      if constexpr (kFinite) {
        largest = greater_of(magnitude, largest);
      } else {
        odd += magnitude >= Kind::kInfinity;
        nans += magnitude > Kind::kInfinity;
        high_infs += bits == Kind::kInfinity;
      }
      zeros += magnitude == 0;
      small += magnitude < normal;
      local.low = lesser_of(value, local.low);
      local.high = greater_of(value, local.high);
    }
    for (std::size_t v = 0; v < kSums; ++v) {
      const Doubles wide = doubles_at(values + i + v * kDoubles);
      local.sum[v] += kFinite ? wide : where_finite(wide, wide);
    }
  }
  if (most_of(largest, typename Kind::Bit{}) >= Kind::kInfinity) return false;
  const std::uint64_t odd_count = hits(odd);
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
/// @tparam kFinite  everything is known to be
template <typename Kind, bool kFinite>
inline void gather_squares(const typename Kind::Value* values,
                           std::size_t count,
                           double mean,
                           Gathered<Kind>& lanes) {
  Gathered<Kind> local = lanes;
  for (std::size_t i = 0; i < count; i += kStatsLanes) {
    for (std::size_t v = 0; v < kSums; ++v) {
      const Doubles wide = doubles_at(values + i + v * kDoubles);
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
    for (std::size_t lane = 0; lane < kDoubles; ++lane) sum += lanes[v][lane];
  }
  return sum;
}

/// A zero has no sign here: which of two that stand in different lanes comes first is not defined.
template <typename Kind>
inline void finish_extremes(const Gathered<Kind>& lanes, BlockStats& found) {
  found.min = static_cast<double>(lanes.low[0]);
  found.max = static_cast<double>(lanes.high[0]);
  for (std::size_t lane = 0; lane < Kind::kLanes; ++lane) {
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
  Gathered<Kind> lanes;
  BlockStats found{};
  const std::size_t whole = pieces.whole_count;
  const bool finite = gather<Kind, true>(pieces.whole, whole, normal, lanes, found);
  if (!finite) gather<Kind, false>(pieces.whole, whole, normal, lanes, found);
  if (pieces.padding > 0) {
    gather<Kind, false>(pieces.rest, kStatsLanes, normal, lanes, found);
    found.nans -= pieces.padding;
  }
  finish_extremes(lanes, found);
  if (found.finite == 0) return found;
  found.mean = mean_of<Kind>(values, count, in_order(lanes.sum), static_cast<double>(found.finite));
  if (finite) {
    gather_squares<Kind, true>(pieces.whole, whole, found.mean, lanes);
  } else {
    gather_squares<Kind, false>(pieces.whole, whole, found.mean, lanes);
  }
  if (pieces.padding > 0) {
    gather_squares<Kind, false>(pieces.rest, kStatsLanes, found.mean, lanes);
  }
  found.squares = in_order(lanes.squares);
  return found;
}

/// The greatest of all lanes, after mask and flip, says it: two instructions a vector.
template <typename Lane>
bool any_odd(const std::byte* data, std::size_t size, const OddLanes& odd) {
  // Vectors of short lanes need an extension of AVX-512 that not every processor has.
  constexpr std::size_t kBytes = sizeof(Lane) < 4 && kVectorBytes > 32 ? 32 : kVectorBytes;
  using Lanes = Vector<Lane, kBytes>;
  constexpr std::size_t kRound = 4 * kBytes;
  const auto mask = static_cast<Lane>(odd.mask);
  const auto flip = static_cast<Lane>(odd.flip);
  const auto take = [&](const std::byte* from, Lanes& largest) {
    largest = greater_of(static_cast<Lanes>((load<Lanes>(from) & mask) ^ flip), largest);
  };
  Lanes first = Lanes{} + flip;
  Lanes second = first;
  Lanes third = first;
  Lanes fourth = first;
  for (; size >= kRound; data += kRound, size -= kRound) {
    take(data, first);
    take(data + kBytes, second);
    take(data + 2 * kBytes, third);
    take(data + 3 * kBytes, fourth);
  }
  for (; size >= kBytes; data += kBytes, size -= kBytes) take(data, first);
  first = greater_of(greater_of(first, second), greater_of(third, fourth));
  Lane most = most_of(first, flip);
  for (; size >= sizeof(Lane); data += sizeof(Lane), size -= sizeof(Lane)) {
    Lane lane;
    __builtin_memcpy(&lane, data, sizeof lane);
    lane = static_cast<Lane>((lane & mask) ^ flip);
    most = lane > most ? lane : most;
  }
  return most == static_cast<Lane>(odd.top);
}

bool has_odd(const std::byte* data, std::size_t size, const OddLanes& odd) {
  switch (odd.width) {
    case 1:
      return any_odd<std::int8_t>(data, size, odd);
    case 2:
      return any_odd<std::int16_t>(data, size, odd);
    case 4:
      return any_odd<std::int32_t>(data, size, odd);
    default:
      return any_odd<std::int64_t>(data, size, odd);
  }
}

/// @param factor  of a row, and of elements in it: what these are multiplied by
template <typename Factor>
inline void add_rows(const float* values, std::size_t rows, double* sums, Factor factor) {
  constexpr std::size_t kHeld = 4;  // vectors of sums that stay in registers
  static_assert(kRowElements % (kHeld * kDoubles) == 0);
  for (std::size_t first = 0; first < kRowElements; first += kHeld * kDoubles) {
    // std::array's functions would be shared with code for other processors.
    Doubles held[kHeld];  // NOLINT(modernize-avoid-c-arrays)
    for (std::size_t i = 0; i < kHeld; ++i) held[i] = load<Doubles>(sums + first + i * kDoubles);
    for (std::size_t row = 0; row < rows; ++row) {
      const float* at = values + row * kRowElements + first;
      for (std::size_t i = 0; i < kHeld; ++i) {
        const Doubles elements = doubles_at(at + i * kDoubles);
        held[i] = plus_exact_product(held[i], elements, factor(row, elements));
      }
    }
    for (std::size_t i = 0; i < kHeld; ++i) store(sums + first + i * kDoubles, held[i]);
  }
}

void add_squares(const float* values, std::size_t rows, double* sums) {
  add_rows(values, rows, sums, [](std::size_t, const Doubles& elements) { return elements; });
}

void add_signed(const float* values, const double* signs, std::size_t rows, double* sums) {
  add_rows(values, rows, sums, [signs](std::size_t row, const Doubles&) {
    return Doubles{} + signs[row];
  });
}

constexpr StatsLoops kLoops{
    block_stats<Narrow>, block_stats<Wide>, has_odd, add_squares, add_signed};

}  // namespace

StatsLoops REPRO_CHECK_OF_ISA(stats_loops)() noexcept { return kLoops; }

}  // namespace repro_check::core::detail
