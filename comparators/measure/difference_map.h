// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comparators/report/op_trail.h"

namespace repro_check::comparators::detail {

/// Greatest number of blocks in a row and in a column of a map.
inline constexpr std::uint32_t kMapBlocks = 64;

/// Where two tensors of one dtype and shape differ in some bit; NaN is no special case.
/// @param element_size  bytes of an element, at least 1
/// @param baseline, candidate  element_count(shape) elements each, at least one
/// @return without op and slot
DifferenceMap map_differences(std::span<const std::int64_t> shape,
                              std::size_t element_size,
                              std::span<const std::byte> baseline,
                              std::span<const std::byte> candidate);

}  // namespace repro_check::comparators::detail
