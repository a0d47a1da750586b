// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/digest/digest.h"
#include "core/tensor/dtype.h"
#include "core/tensor/stats_block.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::core {

/// How a dtype spells what is no number, in each of its parts.
struct Spelling {
  detail::OddLanes odd{0, 0, 0, 0};  ///< of width 0 where it has nothing of the kind
  std::uint64_t sign = 0;            ///< 0 where it has no infinity; one is `top`, with and without
};
Spelling spelling_of(Dtype dtype) noexcept;

struct CountedLeaf {
  Digest digest;
  NonFinite counts;
};

/// Digest and counts in one walk through memory: what is hashed is looked at while it is in the
/// cache. By the bits of every element: what the processor does with subnormal numbers is no
/// matter. A dtype without NaN and infinities (integers, bool, quantised ones, float4) has none.
/// @param leaf  whole elements, of any alignment
CountedLeaf count_leaf(Dtype dtype, std::span<const std::byte> leaf) noexcept;

/// Statistics of one leaf: a piece of content that starts at a multiple of kDigestChunk. Leaves are
/// summarised on their own and put together in order, so that the result has the same bits whatever
/// the number of threads and the instruction set.
using LeafStats = detail::BlockStats;

/// Complex elements count as two numbers, quantised ones as their integers; float4 pairs are taken
/// apart. Subnormal is meant in the tensor's own dtype.
/// @param leaf  whole elements, at most kDigestChunk bytes
/// @throws Error{kUnsupportedDtype} for an unknown dtype
LeafStats leaf_stats(Dtype dtype, std::span<const std::byte> leaf);

struct LeafSummary {
  Digest digest;
  LeafStats stats;
};

/// Digest and statistics of one leaf in one walk through its memory. As leaf_stats().
LeafSummary summarise_leaf(Dtype dtype, std::span<const std::byte> leaf);

/// Mean and squares are combined as Chan, Golub and LeVeque do (1979).
TensorStats stats_of_leaves(std::span<const LeafStats> leaves);

/// The same over a whole content, on the calling thread.
TensorStats tensor_stats(Dtype dtype, std::span<const std::byte> content);

}  // namespace repro_check::core
