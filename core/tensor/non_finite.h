// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "core/digest/digest.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::core {

/// By the bits of every element: what the processor does with subnormal numbers is no matter. A
/// dtype without NaN and infinities (integers, bool, quantised ones, float4) has none.
/// @param content  whole elements, of any alignment
NonFinite count_non_finite(Dtype dtype, std::span<const std::byte> content) noexcept;

struct CountedLeaf {
  Digest digest;
  NonFinite counts;
};

/// Digest and counts in one walk through memory: what is hashed is looked at while it is in the
/// cache.
/// @param leaf  as digest_leaf() takes it
CountedLeaf count_leaf(Dtype dtype, std::span<const std::byte> leaf) noexcept;

}  // namespace repro_check::core
