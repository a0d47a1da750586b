// SPDX-License-Identifier: Apache-2.0
// Included by one file an instruction set, which defines REPRO_CHECK_VECTOR_BYTES if its vectors
// are wider than every machine's. Everything here has internal linkage on purpose: see
// float_block.h.
#pragma once

#include "comparators/detail/float_block.h"
#include "comparators/detail/float_block_kinds.h"
#include "comparators/detail/float_block_vectors.h"

namespace repro_check::comparators::detail {
namespace {

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
template <typename Kind, bool kPlain, bool kTolerant, typename Pairs>
inline void add_lanes(const Pairs& pairs,
                      const BlockPolicy& policy,
                      std::size_t lane,
                      BlockSums& sums,
                      std::int64_t* codes,
                      BlockFindings& found) {
  const Bounds bounds(policy);
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
    const PairVector pair = kPlain ? plain_pair_of(b, c) : pair_of(b, c);
    sum_abs += pair.abs;
    sum_rel += pair.rel;
    sum_d2 += pair.abs * pair.abs;
    sum_b2 += pair.b * pair.b;
    sum_c2 += pair.c * pair.c;
    sum_bc += pair.b * pair.c;
    max_abs = greater_of(pair.abs, max_abs);
    max_rel = greater_of(pair.rel, max_rel);
    const Longs ulp_codes = kPlain ? Kind::plain_distance(pairs, i, pair.unequal, ulps)
                                   : Kind::distance(pairs, i, pair.unequal, ulps);
    if constexpr (kPlain) {
      count_plain_pairs(pair, ulps.far, bounds, kTolerant, count);
    } else {
      count_pairs(pair, Kind::differ(pairs, i), ulps.far, bounds, kTolerant, count);
    }
    store(codes + i, (ulp_codes << kRelBits) | rel_codes(pair));
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

template <typename Kind, bool kPlain, typename Pairs>
BlockFindings add_all_lanes(const Pairs& pairs,
                            const BlockPolicy& policy,
                            BlockSums& sums,
                            std::int64_t* codes) {
  BlockFindings found{};
  const bool tolerant = policy.rtol > 0 || policy.atol > 0;
  for (std::size_t lane = 0; lane < kBlockLanes; lane += kWidth) {
    if (tolerant) {
      add_lanes<Kind, kPlain, true>(pairs, policy, lane, sums, codes, found);
    } else {
      add_lanes<Kind, kPlain, false>(pairs, policy, lane, sums, codes, found);
    }
  }
  return found;
}

template <typename Kind, typename Pairs>
BlockFindings add_block(const Pairs& pairs,
                        const BlockPolicy& policy,
                        BlockSums& sums,
                        std::int64_t* codes) {
  BlockFindings found{};
  switch (Kind::kind(pairs, policy)) {
    case BlockKind::kPlain:
      found = add_all_lanes<Kind, true>(pairs, policy, sums, codes);
      found.n_rel = pairs.count;
      found.differ = found.unequal;
      break;
    case BlockKind::kFinite:
      found = add_all_lanes<Kind, false>(pairs, policy, sums, codes);
      break;
    case BlockKind::kSpecial:
      found.special = 1;
      break;
  }
  return found;
}

BlockFindings add_narrow(const NarrowPairs& pairs,
                         const BlockPolicy& policy,
                         BlockSums& sums,
                         std::int64_t* codes) {
  return pairs.baseline_order == nullptr ? add_block<Single>(pairs, policy, sums, codes)
                                         : add_block<Narrow>(pairs, policy, sums, codes);
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
constexpr BlockLoops kLoops{
    add_narrow, add_block<Wide, WidePairs>, add_squares<Narrow, float>, add_squares<Wide, double>};

}  // namespace
}  // namespace repro_check::comparators::detail
