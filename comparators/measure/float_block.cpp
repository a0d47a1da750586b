// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/float_block.h"

#include "core/system/vectors.h"

namespace repro_check::comparators {

// Two passes over a block that is in the cache: sums and relative errors in double, then distances
// and what bits alone tell in whole registers of integers.

namespace {

using core::detail::Doubles;
using core::detail::doubles_at;
using core::detail::greater_of;
using core::detail::hits;
using core::detail::Ints;
using core::detail::kDoubles;
using core::detail::lesser_of;
using core::detail::load;
using core::detail::Longs;
using core::detail::masked;
using core::detail::most_of;
using core::detail::plus_exact_product;
using core::detail::store;
using core::detail::total;

/// In a whole register, and at most in the lanes of a block.
using Narrow = core::detail::NarrowKind<(core::detail::kVectorBytes < 32 ? 16 : 32)>;
using Wide = core::detail::WideKind;

/// Of the high word of a double.
constexpr unsigned kWordMantissaBits = 20;

template <typename Kind>
typename Kind::Bit bits_of(double value) {
  return __builtin_bit_cast(typename Kind::Bit, static_cast<typename Kind::Value>(value));
}

inline Doubles magnitude_of(const Doubles& value) {
  return masked(value, Longs{} + Wide::kMagnitude);
}

/// What a block holds, as far as it decides how its pairs are counted.
enum class BlockKind {
  kPlain,  ///< both of a pair of one sign, no zero, subnormal or greatest number: much that is
           ///< counted cannot be there
  kFinite,
  kSpecial,  ///< a NaN or an infinity
};

template <typename Kind, typename Pairs>
BlockKind kind_of(const Pairs& pairs, const BlockPolicy& policy) {
  using Bits = typename Kind::Bits;
  using Bit = typename Kind::Bit;
  Bits signs{};
  Bits least = Bits{} + Kind::kMagnitude;
  Bits most{};
  for (std::size_t i = 0; i < pairs.count; i += Kind::kLanes) {
    const auto from = load<Bits>(pairs.baseline + i);
    const auto to = load<Bits>(pairs.candidate + i);
    const Bits left = from & Kind::kMagnitude;
    const Bits right = to & Kind::kMagnitude;
    signs |= from ^ to;
    least = lesser_of(least, lesser_of(left, right));
    most = greater_of(most, greater_of(left, right));
  }
  const Bit smallest = bits_of<Kind>(policy.min_normal);
  const Bit before = bits_of<Kind>(policy.max_finite);
  Bit sign = 0;
  bool inside = true;
  for (std::size_t i = 0; i < Kind::kLanes; ++i) {
    if (most[i] >= Kind::kInfinity) return BlockKind::kSpecial;
    sign |= signs[i];
    inside = inside && least[i] >= (smallest > 0 ? smallest : 1) && most[i] < before;
  }
  return inside && sign >= 0 ? BlockKind::kPlain : BlockKind::kFinite;
}

/// Beyond atol + rtol * |b|, said in the lowest bit of the high word of a relative error: what
/// reads that word looks at its exponent.
inline Longs with_flag(const Doubles& rel, const Longs& over) {
  constexpr std::int64_t kFlag = std::int64_t{1} << 32;
  return (__builtin_bit_cast(Longs, rel) & ~kFlag) | (over & kFlag);
}

/// The product of two floats takes no more bits than a double has.
template <typename Kind>
Doubles plus_product(const Doubles& sum, const Doubles& one, const Doubles& other) {
  if constexpr (sizeof(typename Kind::Value) == sizeof(float)) {
    return plus_exact_product(sum, one, other);
  } else {
    return sum + one * other;
  }
}

/// The lanes that one vector holds, over the whole block: few enough accumulators to stay in
/// registers.
template <typename Kind, bool kPlain, bool kTolerant, typename Pairs>
void add_errors(const Pairs& pairs,
                const BlockPolicy& policy,
                std::size_t lane,
                BlockSums& sums,
                std::int32_t* rel_words,
                BlockFindings& found) {
  ErrorSums<Doubles> sum;
  for_each_sum(
      sum, sums, [&](Doubles& mine, const SumLanes& all) { mine = load<Doubles>(all + lane); });
  Doubles max_abs{};
  Doubles max_rel{};
  Longs outside_1e3{};
  Longs outside_5e3{};
  Longs short_of{};
  for (std::size_t i = lane; i < pairs.count; i += kBlockLanes) {
    const Doubles b = doubles_at(pairs.baseline + i);
    const Doubles c = doubles_at(pairs.candidate + i);
    const Doubles abs = magnitude_of(c - b);
    const Doubles base = magnitude_of(b);
    const Doubles rel = kPlain ? abs / base : masked(abs / base, base > 0);
    sum.abs += abs;
    sum.rel += rel;
    sum.d2 += abs * abs;
    sum.b2 = plus_product<Kind>(sum.b2, b, b);
    sum.c2 = plus_product<Kind>(sum.c2, c, c);
    sum.bc = plus_product<Kind>(sum.bc, b, c);
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
    store(rel_words + i, core::detail::high_words(words));
  }
  for_each_sum(sum, sums, [&](const Doubles& mine, SumLanes& all) { store(all + lane, mine); });
  found.max_abs = most_of(max_abs, found.max_abs);
  found.max_rel = most_of(max_rel, found.max_rel);
  found.outside_1e3 += hits(outside_1e3);
  found.outside_5e3 += hits(outside_5e3);
  found.short_of_given += hits(short_of);
}

/// How many pairs `needed_rtol` does not pass.
template <typename Pairs>
std::uint64_t short_of_rtol(const Pairs& pairs, double needed) {
  Longs count{};
  for (std::size_t i = 0; i < pairs.count; i += kDoubles) {
    const Doubles b = doubles_at(pairs.baseline + i);
    const Doubles base = magnitude_of(b);
    const Doubles abs = magnitude_of(doubles_at(pairs.candidate + i) - b);
    count += (base > 0) & (abs > needed * base);
  }
  return hits(count);
}

/// Sign-magnitude to a number line on which neighbours differ by 1.
template <typename Kind>
typename Kind::Bits order_of_bits(const typename Kind::Bits& bits) {
  const typename Kind::Bits sign = bits < 0;
  return ((bits & Kind::kMagnitude) ^ sign) - sign;
}

/// Of numbers of one sign the bits are as far apart as they are.
template <typename Kind, bool kPlain>
typename Kind::Bits order_at(const typename Kind::Value* values) {
  const auto bits = load<typename Kind::Bits>(values);
  return kPlain ? bits : order_of_bits<Kind>(bits);
}

/// Distances of a pair in ULP.
template <typename Kind, bool kPlain, typename Pairs>
typename Kind::UBits distance_at(const Pairs& pairs, std::size_t i) {
  using Bits = typename Kind::Bits;
  using UBits = typename Kind::UBits;
  Bits from = order_at<Kind, kPlain>(pairs.baseline + i);
  Bits to = order_at<Kind, kPlain>(pairs.candidate + i);
  if constexpr (sizeof(typename Kind::Value) == sizeof(float)) {
    if (pairs.baseline_order != nullptr) {
      from = load<Bits>(pairs.baseline_order + i);
      to = load<Bits>(pairs.candidate_order + i);
    }
  }
  return __builtin_bit_cast(UBits, greater_of(from, to)) -
         __builtin_bit_cast(UBits, lesser_of(from, to));
}

/// 1 + ceil(log2 of distances), where there is one: that is 2 + floor(log2(d-1)), and of 1 it is 1.
template <typename Kind, bool kPlain>
typename Kind::Bits ulp_codes_of(const typename Kind::UBits& distance) {
  using Bits = typename Kind::Bits;
  using UBits = typename Kind::UBits;
  const UBits below = distance - 1;
  // Without the bit after the first one no conversion rounds up to the next exponent.
  const auto numbers = __builtin_convertvector(__builtin_bit_cast(Bits, below & ~(below >> 1)),
                                               typename Kind::Values);
  auto exponents =
      __builtin_bit_cast(Bits, __builtin_bit_cast(UBits, numbers) >> Kind::kMantissaBits);
  // The highest bit made the conversion see a negative number: its sign stands above the exponent.
  constexpr auto kMost =
      Kind::kBias + static_cast<typename Kind::Bit>(8 * sizeof(typename Kind::Bit) - 1);
  if constexpr (!kPlain) exponents = lesser_of(exponents, Bits{} + kMost);
  return greater_of(exponents, Bits{} + (Kind::kBias - 1)) - (Kind::kBias - 2);
}

/// Codes of relative errors whose high words these are, of pairs that differ from a base that is
/// not 0.
template <typename Kind>
typename Kind::Bits rel_codes_of(const typename Kind::Bits& words) {
  using Bits = typename Kind::Bits;
  constexpr typename Kind::Bit kBefore = Wide::kBias + kLeastRelExponent - 1;
  constexpr typename Kind::Bit kMost = Wide::kBias + kGreatestRelExponent;
  const Bits least = Bits{} + ((kBefore + 1) << kWordMantissaBits);
  const Bits most = Bits{} + (kMost << kWordMantissaBits);
  return (lesser_of(greater_of(words, least), most) >> kWordMantissaBits) - kBefore;
}

/// What the bits of both sides tell where zeros, signs and ends of the range may be among them.
template <typename Kind>
struct BitCounters {
  using Bits = typename Kind::Bits;
  Bits zero_bases{};
  Bits no_bases{};
  Bits same{};
  Bits flips{};
  Bits flushed{};
  Bits saturated{};
  Bits least_normal;
  Bits greatest;

  explicit BitCounters(const BlockPolicy& policy)
      : least_normal(Bits{} + bits_of<Kind>(policy.min_normal)),
        greatest(Bits{} + bits_of<Kind>(policy.max_finite)) {}

  /// @param equal  in value
  void add(const Bits& b, const Bits& c, const Bits& equal) {
    const Bits base = b & Kind::kMagnitude;
    const Bits other = c & Kind::kMagnitude;
    const Bits no_base = base == 0;
    const Bits no_other = other == 0;
    zero_bases += no_base;
    no_bases += no_base & ~no_other;
    same += b == c;
    flips += ((b ^ c) < 0) & ~(no_base | no_other);
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

template <typename Kind>
struct DistanceCounters {
  using UBits = typename Kind::UBits;
  static constexpr bool kIsNarrow = sizeof(typename Kind::Value) == sizeof(float);
  static constexpr unsigned kHalf = 4 * sizeof(typename Kind::Bit);
  static constexpr auto kMost = static_cast<typename Kind::UBit>(-1);
  UBits most{};
  UBits low{};
  UBits high{};
  typename Kind::Bits equals{};

  void add(const UBits& distance, const typename Kind::Bits& equal) {
    most = greater_of(most, distance);
    low += distance & (kMost >> kHalf);
    high += distance >> kHalf;
    equals += equal;
  }
  void finish(std::uint64_t count, BlockFindings& found) const {
    found.ulp_max = most_of(most, typename Kind::UBit{});
    found.ulp_low = total(low) + (kIsNarrow ? total(high) << kHalf : 0);
    found.ulp_high = kIsNarrow ? 0 : total(high);
    found.unequal = count - hits(equals);
  }
};

template <typename Kind, bool kPlain, bool kTolerant, typename Pairs>
void add_distances(const Pairs& pairs,
                   const BlockPolicy& policy,
                   const std::int32_t* rel_words,
                   std::int32_t* codes,
                   BlockFindings& found) {
  using Bits = typename Kind::Bits;
  using UBits = typename Kind::UBits;
  using Distances = DistanceCounters<Kind>;
  constexpr auto kMost = Distances::kMost;
  const auto limit =
      static_cast<typename Kind::UBit>(policy.max_ulp < kMost ? policy.max_ulp : kMost);
  const Bits strict_zero = Bits{} - static_cast<typename Kind::Bit>(policy.signed_zero_distinct);
  Bits beyond{};
  Distances distances;
  BitCounters<Kind> bits(policy);
  for (std::size_t i = 0; i < pairs.count; i += Kind::kLanes) {
    const UBits distance = distance_at<Kind, kPlain>(pairs, i);
    const auto equal = __builtin_bit_cast(Bits, distance == 0);
    distances.add(distance, equal);
    Bits words;
    if constexpr (Distances::kIsNarrow) {
      words = load<Bits>(rel_words + i);
    } else {
      words = __builtin_convertvector(load<Ints>(rel_words + i), Bits);
    }
    Bits rel = rel_codes_of<Kind>(words);
    Bits over = ~equal;
    if constexpr (kTolerant) {
      const UBits within = lesser_of(distance, UBits{} + limit);
      over = -(words & 1) | ~__builtin_bit_cast(Bits, within == distance);
    }
    if constexpr (!kPlain) {
      const auto b = load<Bits>(pairs.baseline + i);
      const auto c = load<Bits>(pairs.candidate + i);
      bits.add(b, c, equal);
      over |= equal & (b != c) & strict_zero;
      const Bits no_base = (b & Kind::kMagnitude) == 0;
      rel = (rel & ~no_base) | (no_base & static_cast<typename Kind::Bit>(kRelOfZeroBase));
    }
    beyond += over;
    const Bits both = ((ulp_codes_of<Kind, kPlain>(distance) << kRelBits) + rel) & ~equal;
    if constexpr (Distances::kIsNarrow) {
      store(codes + i, both);
    } else {
      store(codes + i, __builtin_convertvector(both, Ints));
    }
  }
  distances.finish(pairs.count, found);
  found.beyond = hits(beyond);
  if constexpr (kPlain) {
    found.n_rel = pairs.count;
    found.differ = found.unequal;
  } else {
    bits.finish(pairs.count, found);
  }
}

template <typename Kind, bool kPlain, bool kTolerant, typename Pairs>
BlockFindings add_pairs_as(const Pairs& pairs,
                           const BlockPolicy& policy,
                           BlockSums& sums,
                           std::int32_t* codes) {
  BlockFindings found{};
  alignas(64) std::int32_t rel_words[kBlock];  // NOLINT(modernize-avoid-c-arrays)
  for (std::size_t lane = 0; lane < kBlockLanes; lane += kDoubles) {
    add_errors<Kind, kPlain, kTolerant>(pairs, policy, lane, sums, rel_words, found);
  }
  add_distances<Kind, kPlain, kTolerant>(pairs, policy, rel_words, codes, found);
  // |c-b| > needed * |b| as rounded says that the quotient is hardly less than `needed`.
  if (found.max_rel >= policy.needed_rtol * (1 - 0x1p-50)) {
    found.short_of_rtol = short_of_rtol(pairs, policy.needed_rtol);
  }
  return found;
}

template <typename Kind, typename Pairs>
BlockFindings add_pairs(const Pairs& pairs,
                        const BlockPolicy& policy,
                        BlockSums& sums,
                        std::int32_t* codes) {
  const bool tolerant = policy.rtol > 0 || policy.atol > 0;
  switch (kind_of<Kind>(pairs, policy)) {
    case BlockKind::kPlain:
      return tolerant ? add_pairs_as<Kind, true, true>(pairs, policy, sums, codes)
                      : add_pairs_as<Kind, true, false>(pairs, policy, sums, codes);
    case BlockKind::kFinite:
      return tolerant ? add_pairs_as<Kind, false, true>(pairs, policy, sums, codes)
                      : add_pairs_as<Kind, false, false>(pairs, policy, sums, codes);
    case BlockKind::kSpecial:
      break;
  }
  BlockFindings found{};
  found.special = 1;
  return found;
}

template <typename Value>
std::uint64_t add_squares(const Value* values, std::size_t count, BlockSums& sums) {
  Longs not_zero{};
  for (std::size_t lane = 0; lane < kBlockLanes; lane += kDoubles) {
    auto sum_b2 = load<Doubles>(sums.b2 + lane);
    auto sum_c2 = load<Doubles>(sums.c2 + lane);
    auto sum_bc = load<Doubles>(sums.bc + lane);
    for (std::size_t i = lane; i < count; i += kBlockLanes) {
      const Doubles value = doubles_at(values + i);
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

}  // namespace

BlockLoops REPRO_CHECK_OF_ISA(block_loops)() noexcept {
  return {add_pairs<Narrow, NarrowPairs>,
          add_pairs<Wide, WidePairs>,
          add_squares<float>,
          add_squares<double>};
}

}  // namespace repro_check::comparators
