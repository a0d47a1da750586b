// SPDX-License-Identifier: Apache-2.0
// Included by one file an instruction set, which defines REPRO_CHECK_VECTOR_BYTES if its vectors
// are wider than every machine's. Everything here has internal linkage on purpose: see
// float_block.h.
#pragma once

#include "comparators/detail/float_block.h"

#ifndef REPRO_CHECK_VECTOR_BYTES
#define REPRO_CHECK_VECTOR_BYTES 16
#endif

namespace repro_check::comparators::detail {
namespace {

inline constexpr std::size_t kWidth = REPRO_CHECK_VECTOR_BYTES / sizeof(double);
using Doubles [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES)]] = double;
using Longs [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES)]] = std::int64_t;
using ULongs [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES)]] = std::uint64_t;
using Floats [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES / 2)]] = float;
using Ints [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES / 2)]] = std::int32_t;

template <typename Vector, typename Element>
inline Vector load(const Element* at) {
  Vector vector;
  __builtin_memcpy(&vector, at, sizeof vector);
  return vector;
}

template <typename Element, typename Vector>
inline void store(Element* at, const Vector& vector) {
  __builtin_memcpy(at, &vector, sizeof vector);
}

inline Doubles magnitude_of(const Doubles& value) {
  return __builtin_bit_cast(Doubles, __builtin_bit_cast(Longs, value) & 0x7FFF'FFFF'FFFF'FFFF);
}

inline Doubles masked(const Doubles& value, const Longs& mask) {
  return __builtin_bit_cast(Doubles, __builtin_bit_cast(Longs, value) & mask);
}

inline std::uint64_t total(const ULongs& lanes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kWidth; ++i) sum += lanes[i];
  return sum;
}

/// Hits are -1 a lane.
inline std::uint64_t hits(const Longs& lanes) { return -total(__builtin_bit_cast(ULongs, lanes)); }

inline double most_of(const Doubles& lanes) {
  double most = 0;
  for (std::size_t i = 0; i < kWidth; ++i) most = lanes[i] > most ? lanes[i] : most;
  return most;
}

/// ULP distances of up to 33 bits: exact in double, and so is the sum of a block.
struct NarrowUlps {
  Doubles most{};
  Doubles sum{};
  Doubles limit;

  explicit NarrowUlps(std::uint64_t allowed) : limit(Doubles{} + static_cast<double>(allowed)) {}

  /// @return the lanes that are beyond the limit
  Longs add(const std::int32_t* from, const std::int32_t* to) {
    const Doubles low = __builtin_convertvector(load<Ints>(from), Doubles);
    const Doubles high = __builtin_convertvector(load<Ints>(to), Doubles);
    const Doubles distance = magnitude_of(high - low);
    most = distance > most ? distance : most;
    sum += distance;
    return distance > limit;
  }
  void finish(BlockFindings& found) const {
    const auto greatest = static_cast<std::uint64_t>(most_of(most));
    if (greatest > found.ulp_max) found.ulp_max = greatest;
    for (std::size_t i = 0; i < kWidth; ++i) found.ulp_low += static_cast<std::uint64_t>(sum[i]);
  }
};

/// ULP distances of 64 bits, summed in halves so that nothing overflows.
struct WideUlps {
  ULongs most{};
  ULongs low{};
  ULongs high{};
  ULongs limit;

  explicit WideUlps(std::uint64_t allowed) : limit(ULongs{} + allowed) {}

  Longs add(const std::int64_t* from_at, const std::int64_t* to_at) {
    const auto from = load<Longs>(from_at);
    const auto to = load<Longs>(to_at);
    const ULongs up = __builtin_bit_cast(ULongs, to) - __builtin_bit_cast(ULongs, from);
    const ULongs distance = to > from ? up : -up;
    most = distance > most ? distance : most;
    low += distance & 0xFFFF'FFFFU;
    high += distance >> 32U;
    return __builtin_bit_cast(Longs, distance > limit);
  }
  void finish(BlockFindings& found) const {
    for (std::size_t i = 0; i < kWidth; ++i) {
      if (most[i] > found.ulp_max) found.ulp_max = most[i];
      found.ulp_low += low[i];
      found.ulp_high += high[i];
    }
  }
};

struct Narrow {
  using Ulps = NarrowUlps;
  static Doubles values(const float* at) {
    return __builtin_convertvector(load<Floats>(at), Doubles);
  }
  static Longs differ(const float* from, const float* to) {
    return __builtin_convertvector(load<Ints>(from) != load<Ints>(to), Longs);
  }
};

struct Wide {
  using Ulps = WideUlps;
  static Doubles values(const double* at) { return load<Doubles>(at); }
  static Longs differ(const double* from, const double* to) {
    return load<Longs>(from) != load<Longs>(to);
  }
};

struct Counters {
  Longs n_rel{};
  Longs zero_base{};
  Longs outside_1e3{};
  Longs outside_5e3{};
  Longs differ{};
  Longs unequal{};
  Longs beyond{};
  Longs short_of_rtol{};

  void finish(BlockFindings& found) const {
    found.n_rel += hits(n_rel);
    found.zero_base += hits(zero_base);
    found.outside_1e3 += hits(outside_1e3);
    found.outside_5e3 += hits(outside_5e3);
    found.differ += hits(differ);
    found.unequal += hits(unequal);
    found.beyond += hits(beyond);
    found.short_of_rtol += hits(short_of_rtol);
  }
};

/// The lanes that one vector holds, over the whole block: few enough accumulators to stay in
/// registers.
template <typename Kind, typename Pairs>
inline void add_lanes(const Pairs& pairs,
                      const BlockPolicy& policy,
                      std::size_t lane,
                      BlockSums& sums,
                      BlockFindings& found) {
  const Doubles rtol = Doubles{} + policy.rtol;
  const Doubles atol = Doubles{} + policy.atol;
  const Doubles needed = Doubles{} + policy.needed_rtol;
  const Longs strict_zero = Longs{} - static_cast<std::int64_t>(policy.signed_zero_distinct);
  auto sum_abs = load<Doubles>(sums.abs + lane);
  auto sum_rel = load<Doubles>(sums.rel + lane);
  auto sum_d2 = load<Doubles>(sums.d2 + lane);
  auto sum_b2 = load<Doubles>(sums.b2 + lane);
  auto sum_c2 = load<Doubles>(sums.c2 + lane);
  auto sum_bc = load<Doubles>(sums.bc + lane);
  Doubles max_abs{};
  Doubles max_rel{};
  Counters count;
  typename Kind::Ulps ulps(policy.max_ulp);
  for (std::size_t i = lane; i < pairs.count; i += kBlockLanes) {
    const Doubles b = Kind::values(pairs.baseline + i);
    const Doubles c = Kind::values(pairs.candidate + i);
    const Doubles d = c - b;
    const Doubles abs = magnitude_of(d);
    const Doubles base = magnitude_of(b);
    const Longs has_base = base > 0;
    const Longs unequal = abs > 0;
    const Longs no_base = unequal & ~has_base;
    const Longs differ = Kind::differ(pairs.baseline + i, pairs.candidate + i);
    const Doubles rel = masked(abs / (has_base ? base : Doubles{} + 1.0), has_base);
    sum_abs += abs;
    sum_rel += rel;
    sum_d2 += d * d;
    sum_b2 += b * b;
    sum_c2 += c * c;
    sum_bc += b * c;
    max_abs = abs > max_abs ? abs : max_abs;
    max_rel = rel > max_rel ? rel : max_rel;
    count.n_rel += has_base;
    count.zero_base += no_base;
    count.outside_1e3 += no_base | (rel >= 1e-3);
    count.outside_5e3 += no_base | (rel >= 5e-3);
    count.differ += differ;
    count.unequal += unequal;
    const Longs far = ulps.add(pairs.baseline_order + i, pairs.candidate_order + i);
    count.beyond += (abs > atol + rtol * base) | far | (differ & ~unequal & strict_zero);
    count.short_of_rtol += has_base & (abs > needed * base);
  }
  store(sums.abs + lane, sum_abs);
  store(sums.rel + lane, sum_rel);
  store(sums.d2 + lane, sum_d2);
  store(sums.b2 + lane, sum_b2);
  store(sums.c2 + lane, sum_c2);
  store(sums.bc + lane, sum_bc);
  if (most_of(max_abs) > found.max_abs) found.max_abs = most_of(max_abs);
  if (most_of(max_rel) > found.max_rel) found.max_rel = most_of(max_rel);
  count.finish(found);
  ulps.finish(found);
}

template <typename Kind, typename Pairs>
BlockFindings add_block(const Pairs& pairs, const BlockPolicy& policy, BlockSums& sums) {
  BlockFindings found{};
  for (std::size_t lane = 0; lane < kBlockLanes; lane += kWidth) {
    add_lanes<Kind>(pairs, policy, lane, sums, found);
  }
  return found;
}

template <typename Kind, typename Value>
std::uint64_t add_squares(const Value* values, std::size_t count, BlockSums& sums) {
  Longs not_zero{};
  for (std::size_t lane = 0; lane < kBlockLanes; lane += kWidth) {
    auto sum_b2 = load<Doubles>(sums.b2 + lane);
    auto sum_c2 = load<Doubles>(sums.c2 + lane);
    auto sum_bc = load<Doubles>(sums.bc + lane);
    for (std::size_t i = lane; i < count; i += kBlockLanes) {
      const Doubles value = Kind::values(values + i);
      const Doubles square = value * value;
      sum_b2 += square;
      sum_c2 += square;
      sum_bc += square;
      not_zero += value != 0;
    }
    store(sums.b2 + lane, sum_b2);
    store(sums.c2 + lane, sum_c2);
    store(sums.bc + lane, sum_bc);
  }
  return hits(not_zero);
}

// One for each instruction set, in a namespace of its file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
constexpr BlockLoops kLoops{add_block<Narrow, NarrowPairs>,
                            add_block<Wide, WidePairs>,
                            add_squares<Narrow, float>,
                            add_squares<Wide, double>};

}  // namespace
}  // namespace repro_check::comparators::detail
