// SPDX-License-Identifier: Apache-2.0
// The inner loop over values that a float holds, in two passes over a block that is in the cache:
// sums and relative errors in double, then distances and what bits alone tell in whole registers of
// integers. Everything here has internal linkage on purpose: see float_block.h.
#pragma once

#include "comparators/measure/float_block.h"
#include "comparators/measure/float_block_extent.h"
#include "comparators/measure/float_block_vectors.h"

namespace repro_check::comparators::detail {
namespace {

inline constexpr std::size_t kWholeLanes = kWholeBytes / sizeof(std::int32_t);
inline constexpr std::int32_t kNarrowMagnitude = 0x7FFF'FFFF;
inline constexpr unsigned kFloatMantissaBits = 23;
inline constexpr std::int32_t kFloatBias = 127;
/// Of the high word of a double.
inline constexpr unsigned kWordMantissaBits = 20;

inline std::int32_t bits_of(double value) {
  return __builtin_bit_cast(std::int32_t, static_cast<float>(value));
}

inline BlockKind narrow_kind(const NarrowPairs& pairs, const BlockPolicy& policy) {
  constexpr std::int32_t kInfinity = 0x7F80'0000;
  Extent<WholeInts> extent(WholeInts{} + kNarrowMagnitude);
  for (std::size_t i = 0; i < pairs.count; i += kWholeLanes) {
    extent.add(load<WholeInts>(pairs.baseline + i),
               load<WholeInts>(pairs.candidate + i),
               WholeInts{} + kNarrowMagnitude);
  }
  const std::int32_t least = bits_of(policy.min_normal);
  return extent.kind(least > 0 ? least : 1, bits_of(policy.max_finite), kInfinity);
}

/// Beyond atol + rtol * |b|, said in the lowest bit of the high word of a relative error: what
/// reads that word looks at its exponent.
inline Longs with_flag(const Doubles& rel, const Longs& over) {
  constexpr std::int64_t kFlag = std::int64_t{1} << 32;
  return (__builtin_bit_cast(Longs, rel) & ~kFlag) | (over & kFlag);
}

/// The lanes that one vector holds, over the whole block: few enough accumulators to stay in
/// registers.
template <bool kPlain, bool kTolerant>
inline void add_errors(const NarrowPairs& pairs,
                       const BlockPolicy& policy,
                       std::size_t lane,
                       BlockSums& sums,
                       std::int32_t* rel_words,
                       BlockFindings& found) {
  LaneSums sum(sums, lane);
  Doubles max_abs{};
  Doubles max_rel{};
  Longs outside_1e3{};
  Longs outside_5e3{};
  Longs short_of{};
  for (std::size_t i = lane; i < pairs.count; i += kBlockLanes) {
    const Doubles b = widen(load<Floats>(pairs.baseline + i));
    const Doubles c = widen(load<Floats>(pairs.candidate + i));
    const Doubles abs = magnitude_of(c - b);
    const Doubles base = magnitude_of(b);
    const Doubles rel = kPlain ? abs / base : masked(abs / base, base > 0);
    sum.abs += abs;
    sum.rel += rel;
    sum.d2 += abs * abs;
    sum.b2 = plus_exact_product(sum.b2, b, b);
    sum.c2 = plus_exact_product(sum.c2, c, c);
    sum.bc = plus_exact_product(sum.bc, b, c);
    max_abs = greater_of(abs, max_abs);
    max_rel = greater_of(rel, max_rel);
    outside_1e3 += rel >= 1e-3;
    outside_5e3 += rel >= 5e-3;
    auto words = __builtin_bit_cast(Longs, rel);
    if constexpr (kTolerant) {
      words = with_flag(rel, abs > policy.atol + policy.rtol * base);
      short_of |= (abs > policy.atol + policy.given_rtol * base) |
                  (abs > policy.given_atol + policy.rtol * base);
    }
    store(rel_words + i, high_words(words));
  }
  sum.keep(sums, lane);
  if (most_of(max_abs) > found.max_abs) found.max_abs = most_of(max_abs);
  if (most_of(max_rel) > found.max_rel) found.max_rel = most_of(max_rel);
  found.outside_1e3 += hits(outside_1e3);
  found.outside_5e3 += hits(outside_5e3);
  found.short_of_given += hits(short_of);
}

/// How many pairs `needed_rtol` does not pass.
inline std::uint64_t short_of_rtol(const NarrowPairs& pairs, double needed) {
  Longs count{};
  for (std::size_t i = 0; i < pairs.count; i += kWidth) {
    const Doubles b = widen(load<Floats>(pairs.baseline + i));
    const Doubles base = magnitude_of(b);
    const Doubles abs = magnitude_of(widen(load<Floats>(pairs.candidate + i)) - b);
    count += (base > 0) & (abs > needed * base);
  }
  return hits(count);
}

/// Distances of a pair in ULP: two finite numbers are less than 2^32 apart.
inline WholeUInts distance_of(const WholeInts& from, const WholeInts& to) {
  return __builtin_bit_cast(WholeUInts, greater_of(from, to)) -
         __builtin_bit_cast(WholeUInts, lesser_of(from, to));
}

/// Exponents, as floats have them, of distances less 1; kFloatBias - 1 of 0, anything where there
/// is no distance.
template <bool kPlain>
inline WholeInts exponents_below(const WholeUInts& distance) {
  const WholeUInts below = distance - 1;
  // Without the bit after the first one no conversion rounds up to the next exponent.
  const auto floats =
      __builtin_convertvector(__builtin_bit_cast(WholeInts, below & ~(below >> 1)), WholeFloats);
  auto exponents =
      __builtin_bit_cast(WholeInts, __builtin_bit_cast(WholeUInts, floats) >> kFloatMantissaBits);
  // Beyond 2^31 the conversion saw a negative number: its sign stands above the exponent.
  if constexpr (!kPlain) exponents = lesser_of(exponents, WholeInts{} + (kFloatBias + 31));
  return greater_of(exponents, WholeInts{} + (kFloatBias - 1));
}

/// Codes of relative errors whose high words these are, of pairs that differ from a base that is
/// not 0.
inline WholeInts rel_codes_of(const WholeInts& words) {
  constexpr std::int32_t kBefore = kBias + kLeastRelExponent - 1;
  const WholeInts least = WholeInts{} + ((kBefore + 1) << kWordMantissaBits);
  const WholeInts most = WholeInts{} + ((kBias + kGreatestRelExponent) << kWordMantissaBits);
  return (lesser_of(greater_of(words, least), most) >> kWordMantissaBits) - kBefore;
}

/// What the bits of both sides tell where zeros, signs and ends of the range may be among them.
struct BitCounters {
  WholeInts zero_bases{};
  WholeInts no_bases{};
  WholeInts same{};
  WholeInts flips{};
  WholeInts flushed{};
  WholeInts saturated{};
  WholeInts least_normal;
  WholeInts greatest;

  explicit BitCounters(const BlockPolicy& policy)
      : least_normal(WholeInts{} + bits_of(policy.min_normal)),
        greatest(WholeInts{} + bits_of(policy.max_finite)) {}

  /// @param equal  in value
  void add(const WholeInts& b, const WholeInts& c, const WholeInts& equal) {
    const WholeInts base = b & kNarrowMagnitude;
    const WholeInts other = c & kNarrowMagnitude;
    const WholeInts no_base = base == 0;
    const WholeInts no_other = other == 0;
    zero_bases += no_base;
    no_bases += no_base & ~no_other;
    same += b == c;
    flips += ((b ^ c) >> 31) & ~(no_base | no_other);
    flushed += ~equal & (no_base | no_other) & (greater_of(base, other) < least_normal);
    saturated += (other >= greatest) & (base < greatest);
  }
  void finish(std::uint64_t count, BlockFindings& found) const {
    found.n_rel += count - hits(zero_bases);
    found.zero_base += hits(no_bases);
    found.outside_1e3 += hits(no_bases);
    found.outside_5e3 += hits(no_bases);
    found.differ += count - hits(same);
    found.flips += hits(flips);
    found.flushed += hits(flushed);
    found.saturated += hits(saturated);
  }
};

inline WholeInts order_at(const NarrowPairs& pairs, bool of_baseline, bool plain, std::size_t i) {
  const std::int32_t* orders = of_baseline ? pairs.baseline_order : pairs.candidate_order;
  if (orders != nullptr) return load<WholeInts>(orders + i);
  const auto bits = load<WholeInts>((of_baseline ? pairs.baseline : pairs.candidate) + i);
  // Of numbers of one sign the bits are as far apart as they are.
  return plain ? bits : order_of_bits(bits);
}

template <bool kPlain, bool kTolerant>
inline void add_distances(const NarrowPairs& pairs,
                          const BlockPolicy& policy,
                          const std::int32_t* rel_words,
                          std::int32_t* codes,
                          BlockFindings& found) {
  constexpr std::uint64_t kMost = 0xFFFF'FFFF;
  const auto limit = static_cast<std::uint32_t>(policy.max_ulp < kMost ? policy.max_ulp : kMost);
  const WholeInts strict_zero =
      WholeInts{} - static_cast<std::int32_t>(policy.signed_zero_distinct);
  WholeUInts most{};
  WholeUInts low{};
  WholeUInts high{};
  WholeInts equals{};
  WholeInts beyond{};
  BitCounters bits(policy);
  for (std::size_t i = 0; i < pairs.count; i += kWholeLanes) {
    const WholeUInts distance =
        distance_of(order_at(pairs, true, kPlain, i), order_at(pairs, false, kPlain, i));
    const auto equal = __builtin_bit_cast(WholeInts, distance == 0);
    most = greater_of(most, distance);
    low += distance & 0xFFFFU;
    high += distance >> 16U;
    equals += equal;
    const auto words = load<WholeInts>(rel_words + i);
    WholeInts rel = rel_codes_of(words);
    WholeInts over = ~equal;
    if constexpr (kTolerant) {
      const WholeUInts within = lesser_of(distance, WholeUInts{} + limit);
      over = (words << 31) >> 31;
      over |= ~__builtin_bit_cast(WholeInts, within == distance);
    }
    if constexpr (!kPlain) {
      const auto b = load<WholeInts>(pairs.baseline + i);
      const auto c = load<WholeInts>(pairs.candidate + i);
      bits.add(b, c, equal);
      over |= equal & (b != c) & strict_zero;
      const WholeInts no_base = (b & kNarrowMagnitude) == 0;
      rel = (rel & ~no_base) | (no_base & static_cast<std::int32_t>(kRelOfZeroBase));
    }
    beyond += over;
    // 1 + ceil(log2 d) is 2 + floor(log2(d-1)), and of 1 it is 1.
    const WholeInts ulp = exponents_below<kPlain>(distance) - (kFloatBias - 2);
    store(codes + i, ((ulp << kRelBits) + rel) & ~equal);
  }
  found.ulp_max = most_of(most);
  found.ulp_low = total(low) + (total(high) << 16U);
  found.unequal = pairs.count - hits(equals);
  found.beyond = hits(beyond);
  if constexpr (kPlain) {
    found.n_rel = pairs.count;
    found.differ = found.unequal;
  } else {
    bits.finish(pairs.count, found);
  }
}

template <bool kPlain, bool kTolerant>
BlockFindings add_narrow_as(const NarrowPairs& pairs,
                            const BlockPolicy& policy,
                            BlockSums& sums,
                            std::int32_t* codes) {
  BlockFindings found{};
  alignas(kWholeBytes) std::int32_t rel_words[kBlock];  // NOLINT(modernize-avoid-c-arrays)
  for (std::size_t lane = 0; lane < kBlockLanes; lane += kWidth) {
    add_errors<kPlain, kTolerant>(pairs, policy, lane, sums, rel_words, found);
  }
  add_distances<kPlain, kTolerant>(pairs, policy, rel_words, codes, found);
  // |c-b| > needed * |b| as rounded says that the quotient is hardly less than `needed`.
  if (found.max_rel >= policy.needed_rtol * (1 - 0x1p-50)) {
    found.short_of_rtol = short_of_rtol(pairs, policy.needed_rtol);
  }
  return found;
}

inline BlockFindings add_narrow(const NarrowPairs& pairs,
                                const BlockPolicy& policy,
                                BlockSums& sums,
                                std::int32_t* codes) {
  const bool tolerant = policy.rtol > 0 || policy.atol > 0;
  switch (narrow_kind(pairs, policy)) {
    case BlockKind::kPlain:
      return tolerant ? add_narrow_as<true, true>(pairs, policy, sums, codes)
                      : add_narrow_as<true, false>(pairs, policy, sums, codes);
    case BlockKind::kFinite:
      return tolerant ? add_narrow_as<false, true>(pairs, policy, sums, codes)
                      : add_narrow_as<false, false>(pairs, policy, sums, codes);
    case BlockKind::kSpecial:
      break;
  }
  BlockFindings found{};
  found.special = 1;
  return found;
}

}  // namespace
}  // namespace repro_check::comparators::detail
