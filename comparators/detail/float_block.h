// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// The inner loop over floats. It is compiled once for every machine and once for those with AVX2,
// so nothing here may pull in inline functions of a library: the linker would keep one copy for
// both.

namespace repro_check::comparators::detail {

/// Elements between two looks at whether something new was seen; whole lanes of a leaf.
inline constexpr std::size_t kBlock = 512;
inline constexpr std::size_t kBlockLanes = 8;

/// Pairs that are all finite, padded to whole lanes with pairs that are both 0.
template <typename Value, typename Order>
struct BlockPairs {
  const Value* baseline;
  const Value* candidate;
  const Order* baseline_order;  ///< neighbours differ by 1, both zeros are 0
  const Order* candidate_order;
  std::size_t count;  ///< multiple of kBlockLanes, at most kBlock
};
using NarrowPairs = BlockPairs<float, std::int32_t>;
using WidePairs = BlockPairs<double, std::int64_t>;

/// Sums that go on from block to block inside a leaf, lane by lane.
struct BlockSums {
  // NOLINTBEGIN(modernize-avoid-c-arrays): std::array has external linkage
  double abs[kBlockLanes];
  double rel[kBlockLanes];
  double d2[kBlockLanes];
  double b2[kBlockLanes];
  double c2[kBlockLanes];
  double bc[kBlockLanes];
  // NOLINTEND(modernize-avoid-c-arrays)
};

struct BlockPolicy {
  double rtol;
  double atol;
  double needed_rtol;  ///< least rtol that passes all earlier pairs with atol 0
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
  std::uint64_t short_of_rtol;  ///< pairs that needed_rtol does not pass
  std::uint64_t ulp_max;
  std::uint64_t ulp_low;   ///< sum of the low halves of the ULP distances
  std::uint64_t ulp_high;  ///< and of the high ones
};

/// The loops, for one instruction set. All give the same bits.
struct BlockLoops {
  BlockFindings (*narrow)(const NarrowPairs&, const BlockPolicy&, BlockSums&);
  BlockFindings (*wide)(const WidePairs&, const BlockPolicy&, BlockSums&);
  /// Adds squares of `count` values to b2, c2 and bc; returns how many are not 0.
  std::uint64_t (*narrow_squares)(const float* values, std::size_t count, BlockSums&);
  std::uint64_t (*wide_squares)(const double* values, std::size_t count, BlockSums&);
};

BlockLoops portable_block_loops() noexcept;
/// To be called on machines with AVX2 only; elsewhere the same as portable_block_loops().
BlockLoops avx2_block_loops() noexcept;
/// The best this machine can run.
const BlockLoops& block_loops() noexcept;

}  // namespace repro_check::comparators::detail
