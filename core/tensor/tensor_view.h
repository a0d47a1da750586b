// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor/dtype.h"

namespace repro_check::core {

/// Borrowed tensor content: contiguous, row-major, little-endian, conj and neg bits resolved.
/// Valid only as long as whoever lent the two spans says.
struct TensorView {
  Dtype dtype = Dtype::kUnknown;
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;  ///< element_count(shape) * element_size(dtype) of them
};

/// Product of the sizes; 1 for a 0-d shape.
/// @throws Error{kDumpDamaged} on a negative size or a product beyond 2^63-1
std::int64_t element_count(std::span<const std::int64_t> shape);

/// The index of the element at a flat row-major position.
/// @param flat  below element_count(shape)
std::vector<std::int64_t> unravel(std::uint64_t flat, std::span<const std::int64_t> shape);

}  // namespace repro_check::core
