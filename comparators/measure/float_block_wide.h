// SPDX-License-Identifier: Apache-2.0
// The inner loop over values that only a double holds. Everything here has internal linkage on
// purpose: see float_block.h.
#pragma once

#include "comparators/measure/float_block.h"
#include "comparators/measure/float_block_extent.h"
#include "comparators/measure/float_block_vectors.h"

namespace repro_check::comparators::detail {
namespace {

/// ULP distances of 64 bits, summed in halves so that nothing overflows.
struct WideUlps {
  ULongs most{};
  ULongs low{};
  ULongs high{};
  ULongs limit;
  Longs far{};

  explicit WideUlps(std::uint64_t allowed) : limit(ULongs{} + allowed) {}

  Longs add(const Longs& from, const Longs& to) {
    const ULongs up = __builtin_bit_cast(ULongs, to) - __builtin_bit_cast(ULongs, from);
    const ULongs distance = to > from ? up : -up;
    most = distance > most ? distance : most;
    low += distance & 0xFFFF'FFFFU;
    high += distance >> 32U;
    far = __builtin_bit_cast(Longs, distance > limit);
    Longs codes{};
    for (std::size_t i = 0; i < kWidth; ++i) {
      const std::uint64_t d = distance[i];
      codes[i] = d <= 1 ? static_cast<std::int64_t>(d) : 65 - __builtin_clzll(d - 1);
    }
    return codes;
  }
  void finish(BlockFindings& found) const {
    for (std::size_t i = 0; i < kWidth; ++i) {
      if (most[i] > found.ulp_max) found.ulp_max = most[i];
      found.ulp_low += low[i];
      found.ulp_high += high[i];
    }
  }
};

inline BlockKind wide_kind(const WidePairs& pairs, const BlockPolicy& policy) {
  constexpr std::int64_t kMagnitude = 0x7FFF'FFFF'FFFF'FFFF;
  constexpr std::int64_t kInfinity = 0x7FF0'0000'0000'0000;
  Extent<Longs> extent(Longs{} + kMagnitude);
  for (std::size_t i = 0; i < pairs.count; i += kWidth) {
    extent.add(
        load<Longs>(pairs.baseline + i), load<Longs>(pairs.candidate + i), Longs{} + kMagnitude);
  }
  return extent.kind(__builtin_bit_cast(std::int64_t, policy.min_normal),
                     __builtin_bit_cast(std::int64_t, policy.max_finite),
                     kInfinity);
}

/// Eight counters in the bytes of each lane, few enough hits a lane and block for a byte: so they
/// take one register and not eight.
struct PackedCounters {
  ULongs lanes{};

  static ULongs bit(const Longs& hit, unsigned place) {
    return __builtin_bit_cast(ULongs, hit) & (std::uint64_t{1} << (8 * place));
  }
  [[nodiscard]] std::uint64_t total_of(unsigned place) const {
    return total((lanes >> (8 * place)) & 0xFFU);
  }
};
static_assert(kBlock / kBlockLanes < 256);

struct Counters {
  PackedCounters always;
  PackedCounters seldom;

  void finish(BlockFindings& found) const {
    found.n_rel += always.total_of(0);
    found.zero_base += always.total_of(1);
    found.outside_1e3 += always.total_of(2);
    found.outside_5e3 += always.total_of(3);
    found.differ += always.total_of(4);
    found.unequal += always.total_of(5);
    found.short_of_rtol += always.total_of(6);
    found.beyond += always.total_of(7);
    found.flips += seldom.total_of(0);
    found.flushed += seldom.total_of(1);
    found.saturated += seldom.total_of(2);
    found.short_of_given += seldom.total_of(3);
  }
};

/// Constants of a block in every lane.
struct Bounds {
  explicit Bounds(const BlockPolicy& policy)
      : rtol(Doubles{} + policy.rtol),
        atol(Doubles{} + policy.atol),
        needed(Doubles{} + policy.needed_rtol),
        given_rtol(Doubles{} + policy.given_rtol),
        given_atol(Doubles{} + policy.given_atol),
        min_normal(Doubles{} + policy.min_normal),
        max_finite(Doubles{} + policy.max_finite),
        strict_zero(Longs{} - static_cast<std::int64_t>(policy.signed_zero_distinct)) {}
  Doubles rtol;
  Doubles atol;
  Doubles needed;
  Doubles given_rtol;
  Doubles given_atol;
  Doubles min_normal;
  Doubles max_finite;
  Longs strict_zero;
};

/// One vector of pairs.
struct PairVector {
  Doubles b;
  Doubles c;
  Doubles abs;   ///< |c-b|
  Doubles base;  ///< |b|
  Doubles rel;   ///< 0 where b is 0
  Longs has_base;
  Longs unequal;
  Longs no_base;  ///< b is 0 and c is not
};

inline PairVector pair_of(const Doubles& b, const Doubles& c) {
  PairVector pair;
  pair.b = b;
  pair.c = c;
  pair.abs = magnitude_of(c - b);
  pair.base = magnitude_of(b);
  pair.has_base = pair.base > 0;
  pair.unequal = pair.abs > 0;
  pair.no_base = pair.unequal & ~pair.has_base;
  pair.rel = masked(pair.abs / (pair.has_base ? pair.base : Doubles{} + 1.0), pair.has_base);
  return pair;
}

/// @param far       beyond the limit in ULP
/// @param tolerant  whether there is a tolerance at all
inline void count_pairs(const PairVector& pair,
                        const Longs& differ,
                        const Longs& far,
                        const Bounds& bounds,
                        bool tolerant,
                        Counters& count) {
  using Packed = PackedCounters;
  const auto& [b, c, abs, base, rel, has_base, unequal, no_base] = pair;
  const Longs over = tolerant ? abs > bounds.atol + bounds.rtol * base : unequal;
  const Longs beyond = over | far | (differ & ~unequal & bounds.strict_zero);
  count.always.lanes +=
      Packed::bit(has_base, 0) | Packed::bit(no_base, 1) | Packed::bit(no_base | (rel >= 1e-3), 2) |
      Packed::bit(no_base | (rel >= 5e-3), 3) | Packed::bit(differ, 4) | Packed::bit(unequal, 5) |
      Packed::bit(has_base & (abs > bounds.needed * base), 6) | Packed::bit(beyond, 7);
  const Doubles other = magnitude_of(c);
  const Longs both = has_base & (other > 0);
  const Longs signs = __builtin_bit_cast(Longs, b) ^ __builtin_bit_cast(Longs, c);
  count.seldom.lanes += Packed::bit(both & (signs < 0), 0) |
                        Packed::bit(unequal & ~both & (abs < bounds.min_normal), 1) |
                        Packed::bit((other >= bounds.max_finite) & (base < bounds.max_finite), 2);
  if (!tolerant) return;
  const Longs short_of = (abs > bounds.atol + bounds.given_rtol * base) |
                         (abs > bounds.given_atol + bounds.rtol * base);
  count.seldom.lanes += Packed::bit(short_of, 3);
}

/// pair_of() and count_pairs() of a plain block: nothing is zero, and what differs is unequal.
inline PairVector plain_pair_of(const Doubles& b, const Doubles& c) {
  PairVector pair{};
  pair.b = b;
  pair.c = c;
  pair.abs = magnitude_of(c - b);
  pair.base = magnitude_of(b);
  pair.rel = pair.abs / pair.base;
  pair.has_base = Longs{} - 1;
  pair.unequal = pair.abs > 0;
  return pair;
}

inline void count_plain_pairs(const PairVector& pair,
                              const Longs& far,
                              const Bounds& bounds,
                              bool tolerant,
                              Counters& count) {
  using Packed = PackedCounters;
  const Longs over = tolerant ? pair.abs > bounds.atol + bounds.rtol * pair.base : pair.unequal;
  count.always.lanes += Packed::bit(pair.rel >= 1e-3, 2) | Packed::bit(pair.rel >= 5e-3, 3) |
                        Packed::bit(pair.unequal, 5) |
                        Packed::bit(pair.abs > bounds.needed * pair.base, 6) |
                        Packed::bit(over | far, 7);
  if (!tolerant) return;
  const Longs short_of = (pair.abs > bounds.atol + bounds.given_rtol * pair.base) |
                         (pair.abs > bounds.given_atol + bounds.rtol * pair.base);
  count.seldom.lanes += Packed::bit(short_of, 3);
}

inline Longs rel_codes(const PairVector& pair) {
  const Doubles least = Doubles{} + 0x1p-64;
  const Doubles greatest = Doubles{} + 0x1p8;
  const Doubles clipped = lesser_of(greater_of(pair.rel, least), greatest);
  const Longs codes = exponents_of(clipped) - (kBias + kLeastRelExponent - 1);
  return (codes & pair.unequal & pair.has_base) | (pair.no_base & kRelOfZeroBase);
}

/// The lanes that one vector holds, over the whole block: few enough accumulators to stay in
/// registers.
template <bool kPlain, bool kTolerant>
inline void add_wide_lanes(const WidePairs& pairs,
                           const BlockPolicy& policy,
                           std::size_t lane,
                           BlockSums& sums,
                           std::int32_t* codes,
                           BlockFindings& found) {
  const Bounds bounds(policy);
  LaneSums sum(sums, lane);
  Doubles max_abs{};
  Doubles max_rel{};
  Counters count;
  WideUlps ulps(policy.max_ulp);
  for (std::size_t i = lane; i < pairs.count; i += kBlockLanes) {
    const auto from = load<Longs>(pairs.baseline + i);
    const auto to = load<Longs>(pairs.candidate + i);
    const auto b = __builtin_bit_cast(Doubles, from);
    const auto c = __builtin_bit_cast(Doubles, to);
    const PairVector pair = kPlain ? plain_pair_of(b, c) : pair_of(b, c);
    sum.abs += pair.abs;
    sum.rel += pair.rel;
    sum.d2 += pair.abs * pair.abs;
    sum.b2 += pair.b * pair.b;
    sum.c2 += pair.c * pair.c;
    sum.bc += pair.b * pair.c;
    max_abs = greater_of(pair.abs, max_abs);
    max_rel = greater_of(pair.rel, max_rel);
    // Of numbers of one sign the bits are as far apart as they are.
    const Longs ulp_codes =
        kPlain ? ulps.add(from, to) : ulps.add(order_of_bits(from), order_of_bits(to));
    if constexpr (kPlain) {
      count_plain_pairs(pair, ulps.far, bounds, kTolerant, count);
    } else {
      count_pairs(pair, from != to, ulps.far, bounds, kTolerant, count);
    }
    const Longs both = (ulp_codes << kRelBits) | rel_codes(pair);
    store(codes + i, __builtin_convertvector(both, Ints));
  }
  sum.keep(sums, lane);
  if (most_of(max_abs) > found.max_abs) found.max_abs = most_of(max_abs);
  if (most_of(max_rel) > found.max_rel) found.max_rel = most_of(max_rel);
  count.finish(found);
  ulps.finish(found);
}

template <bool kPlain>
BlockFindings add_wide_as(const WidePairs& pairs,
                          const BlockPolicy& policy,
                          BlockSums& sums,
                          std::int32_t* codes) {
  BlockFindings found{};
  const bool tolerant = policy.rtol > 0 || policy.atol > 0;
  for (std::size_t lane = 0; lane < kBlockLanes; lane += kWidth) {
    if (tolerant) {
      add_wide_lanes<kPlain, true>(pairs, policy, lane, sums, codes, found);
    } else {
      add_wide_lanes<kPlain, false>(pairs, policy, lane, sums, codes, found);
    }
  }
  return found;
}

inline BlockFindings add_wide(const WidePairs& pairs,
                              const BlockPolicy& policy,
                              BlockSums& sums,
                              std::int32_t* codes) {
  BlockFindings found{};
  switch (wide_kind(pairs, policy)) {
    case BlockKind::kPlain:
      found = add_wide_as<true>(pairs, policy, sums, codes);
      found.n_rel = pairs.count;
      found.differ = found.unequal;
      break;
    case BlockKind::kFinite:
      found = add_wide_as<false>(pairs, policy, sums, codes);
      break;
    case BlockKind::kSpecial:
      found.special = 1;
      break;
  }
  return found;
}

}  // namespace
}  // namespace repro_check::comparators::detail
