// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace repro_check::comparators {

/// Elements that are added side by side. A part of the definition of every sum, not of the machine.
inline constexpr std::size_t kLanes = 8;

/// The sums over pairs that are both finite; d = c - b.
template <typename Sum>
struct ErrorSums {
  Sum abs{};
  Sum rel{};
  Sum d2{};
  Sum b2{};
  Sum c2{};
  Sum bc{};
};

/// Calls `each` with every sum of the one and that of the other.
template <typename One, typename Other, typename Each>
void for_each_sum(One& one, Other& other, const Each& each) {
  each(one.abs, other.abs);
  each(one.rel, other.rel);
  each(one.d2, other.d2);
  each(one.b2, other.b2);
  each(one.c2, other.c2);
  each(one.bc, other.bc);
}

// NOLINTNEXTLINE(modernize-avoid-c-arrays): std::array has external linkage
using SumLanes = double[kLanes];
/// Those of one leaf, lane by lane.
using LeafSums = ErrorSums<SumLanes>;

// The inner loops over floats and doubles, compiled once an instruction set: see
// core/system/vectors.h.

/// Elements between two looks at whether something new was seen; whole lanes of a leaf.
inline constexpr std::size_t kBlock = 512;
inline constexpr std::size_t kBlockLanes = kLanes;

/// Pairs, padded to whole lanes with pairs that are both 0.
struct NarrowPairs {
  const float* baseline;
  const float* candidate;
  /// Neighbours differ by 1, both zeros are 0; null where the values are float32 and their bits say
  /// it.
  const std::int32_t* baseline_order;
  const std::int32_t* candidate_order;
  std::size_t count;  ///< multiple of kBlockLanes, at most kBlock
};
struct WidePairs {
  const double* baseline;
  const double* candidate;
  std::size_t count;  ///< as above
};

/// They go on from block to block inside a leaf.
using BlockSums = LeafSums;

/// How far apart the two of a pair are, as one number: kRelBits of it say the binary exponent of
/// the relative error, the others that of the ULP distance.
inline constexpr unsigned kRelBits = 7;
inline constexpr int kLeastRelExponent = -64;
inline constexpr int kGreatestRelExponent = 8;
/// 0 without a difference, then the exponents from the least on, then baseline 0 and candidate not.
inline constexpr std::size_t kRelCodes = 75;
inline constexpr std::int32_t kRelOfZeroBase = 74;
/// 0 without a distance, otherwise 1 + ceil(log2 of it).
inline constexpr std::size_t kUlpCodes = 66;

struct BlockPolicy {
  double rtol;
  double atol;
  double needed_rtol;  ///< least rtol that passes all earlier pairs with atol 0
  double given_rtol;   ///< the same with `atol`; infinite where nobody wants to know
  double given_atol;   ///< least atol that passes all earlier pairs with `rtol`; likewise
  double min_normal;   ///< of the dtype; 0 where it has no smaller numbers
  double max_finite;   ///< of the dtype
  std::uint64_t max_ulp;
  bool signed_zero_distinct;
};

/// What one block has.
struct BlockFindings {
  double max_abs;
  double max_rel;
  std::uint64_t n_rel;  ///< baselines that are not 0
  std::uint64_t zero_base;
  std::uint64_t outside_1e3;
  std::uint64_t outside_5e3;
  std::uint64_t differ;   ///< in bits
  std::uint64_t unequal;  ///< in value
  std::uint64_t beyond;
  std::uint64_t flips;      ///< signs of two numbers that are not 0
  std::uint64_t flushed;    ///< subnormal against 0
  std::uint64_t saturated;  ///< candidates of the greatest magnitude there is, beside lesser ones
  std::uint64_t short_of_rtol;   ///< pairs that needed_rtol does not pass
  std::uint64_t short_of_given;  ///< pairs that given_rtol or given_atol do not
  std::uint64_t ulp_max;
  std::uint64_t ulp_low;   ///< sum of the low halves of the ULP distances
  std::uint64_t ulp_high;  ///< and of the high ones
  std::uint64_t special;   ///< not 0: a NaN or an infinity is there, and nothing else was done
};

/// The loops, for one instruction set. All give the same bits.
/// @param codes  filled for every pair, unless BlockFindings::special
struct BlockLoops {
  BlockFindings (*narrow)(const NarrowPairs&, const BlockPolicy&, BlockSums&, std::int32_t* codes);
  BlockFindings (*wide)(const WidePairs&, const BlockPolicy&, BlockSums&, std::int32_t* codes);
  /// Adds squares of `count` values to b2, c2 and bc; returns how many are not 0.
  std::uint64_t (*narrow_squares)(const float* values, std::size_t count, BlockSums&);
  std::uint64_t (*wide_squares)(const double* values, std::size_t count, BlockSums&);
};

BlockLoops portable_block_loops() noexcept;
// To be called on machines that have it; where the compiler does not, the same as the portable
// ones.
BlockLoops avx2_block_loops() noexcept;
BlockLoops avx512_block_loops() noexcept;
/// The best this machine can run.
const BlockLoops& block_loops() noexcept;

}  // namespace repro_check::comparators
