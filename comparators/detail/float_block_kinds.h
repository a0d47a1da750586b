// SPDX-License-Identifier: Apache-2.0
// What the inner loop has to know of each way values are kept. Everything here has internal linkage
// on purpose: see float_block.h.
#pragma once

#include "comparators/detail/float_block.h"
#include "comparators/detail/float_block_vectors.h"

namespace repro_check::comparators::detail {
namespace {

/// ULP distances of up to 33 bits: exact in double, and so is the sum of a block.
struct NarrowUlps {
  Doubles most{};
  Doubles sum{};
  Doubles limit;
  Longs far{};

  explicit NarrowUlps(std::uint64_t allowed) : limit(Doubles{} + static_cast<double>(allowed)) {}

  /// Leaves in `far` the lanes that are beyond the limit.
  /// @return codes
  Longs add(const Ints& from, const Ints& to, const Longs& unequal) {
    return add_apart(widen(to) - widen(from), unequal);
  }
  Longs add_apart(const Doubles& apart, const Longs& unequal) {
    const Doubles distance = magnitude_of(apart);
    most = greater_of(distance, most);
    sum += distance;
    far = distance > limit;
    // floor(log2(2d-1)) is ceil(log2 d), and of 0 it is that of 1.
    return exponents_of(magnitude_of(distance + distance - 1.0)) - kBias - unequal;
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
  Longs far{};

  explicit WideUlps(std::uint64_t allowed) : limit(ULongs{} + allowed) {}

  Longs add(const Longs& from, const Longs& to, const Longs& /*unequal*/) {
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

/// What a block holds, as far as it decides how its pairs are counted.
enum class BlockKind {
  kPlain,  ///< both of a pair of one sign, no zero, subnormal or greatest number: much that is
           ///< counted cannot be there
  kFinite,
  kSpecial,  ///< a NaN or an infinity
};

template <typename Bits>
struct Extent {
  Bits signs{};
  Bits least;
  Bits most{};

  explicit Extent(const Bits& greatest) : least(greatest) {}

  void add(const Bits& from, const Bits& to, const Bits& magnitude) {
    signs |= from ^ to;
    const Bits left = from & magnitude;
    const Bits right = to & magnitude;
    least = lesser_of(least, lesser_of(left, right));
    most = greater_of(most, greater_of(left, right));
  }

  /// @param from, before  magnitudes that plain numbers have, as bits
  template <typename Number>
  [[nodiscard]] BlockKind kind(Number from, Number before, Number infinity) const {
    Number sign = 0;
    bool inside = true;
    for (std::size_t i = 0; i < sizeof(Bits) / sizeof(Number); ++i) {
      if (most[i] >= infinity) return BlockKind::kSpecial;
      sign |= signs[i];
      inside = inside && least[i] >= from && most[i] < before;
    }
    return inside && sign >= 0 ? BlockKind::kPlain : BlockKind::kFinite;
  }
};

struct Narrow {
  using Ulps = NarrowUlps;
  static BlockKind kind(const NarrowPairs& pairs, const BlockPolicy& policy) {
    constexpr std::int32_t kMagnitude = 0x7FFF'FFFF;
    constexpr std::int32_t kInfinity = 0x7F80'0000;
    Extent<WholeInts> extent(WholeInts{} + kMagnitude);
    for (std::size_t i = 0; i < pairs.count; i += kWholeBytes / sizeof(std::int32_t)) {
      extent.add(load<WholeInts>(pairs.baseline + i),
                 load<WholeInts>(pairs.candidate + i),
                 WholeInts{} + kMagnitude);
    }
    const auto least = __builtin_bit_cast(std::int32_t, static_cast<float>(policy.min_normal));
    const auto most = __builtin_bit_cast(std::int32_t, static_cast<float>(policy.max_finite));
    return extent.kind(least > 0 ? least : 1, most, kInfinity);
  }
  static Doubles values(const float* at) { return widen(load<Floats>(at)); }
  static Longs differ(const NarrowPairs& pairs, std::size_t i) {
    return widen_mask(load<Ints>(pairs.baseline + i) != load<Ints>(pairs.candidate + i));
  }
  static Longs distance(const NarrowPairs& pairs, std::size_t i, const Longs& unequal, Ulps& ulps) {
    return ulps.add(
        load<Ints>(pairs.baseline_order + i), load<Ints>(pairs.candidate_order + i), unequal);
  }
  static Longs plain_distance(const NarrowPairs& pairs,
                              std::size_t i,
                              const Longs& unequal,
                              Ulps& ulps) {
    return distance(pairs, i, unequal, ulps);
  }
};

struct Single : Narrow {
  /// Of numbers of one sign, whose bits are as far apart as they are.
  static Longs plain_distance(const NarrowPairs& pairs,
                              std::size_t i,
                              const Longs& unequal,
                              Ulps& ulps) {
    return ulps.add_apart(widen(load<Ints>(pairs.candidate + i) - load<Ints>(pairs.baseline + i)),
                          unequal);
  }
  static Longs distance(const NarrowPairs& pairs, std::size_t i, const Longs& unequal, Ulps& ulps) {
    return ulps.add(order_of_bits(load<Ints>(pairs.baseline + i)),
                    order_of_bits(load<Ints>(pairs.candidate + i)),
                    unequal);
  }
};

struct Wide {
  using Ulps = WideUlps;
  static BlockKind kind(const WidePairs& pairs, const BlockPolicy& policy) {
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
  static Doubles values(const double* at) { return load<Doubles>(at); }
  static Longs differ(const WidePairs& pairs, std::size_t i) {
    return load<Longs>(pairs.baseline + i) != load<Longs>(pairs.candidate + i);
  }
  static Longs distance(const WidePairs& pairs, std::size_t i, const Longs& unequal, Ulps& ulps) {
    return ulps.add(order_of_bits(load<Longs>(pairs.baseline + i)),
                    order_of_bits(load<Longs>(pairs.candidate + i)),
                    unequal);
  }
  static Longs plain_distance(const WidePairs& pairs,
                              std::size_t i,
                              const Longs& unequal,
                              Ulps& ulps) {
    return ulps.add(load<Longs>(pairs.baseline + i), load<Longs>(pairs.candidate + i), unequal);
  }
};

}  // namespace
}  // namespace repro_check::comparators::detail
