// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comparators/report/report.h"
#include "core/tensor/dtype.h"

namespace repro_check::comparators {

/// The first elements whose bits differ, at most `limit`, in row-major order.
/// @param baseline, candidate  same dtype and shape
std::vector<Sample> first_differences(core::TensorView baseline,
                                      core::TensorView candidate,
                                      std::size_t limit);

/// Whether a differing element is wanted.
using WantedElement = std::function<bool(const std::byte* baseline, const std::byte* candidate)>;

/// The same of a part of a tensor, behind what `samples` already holds, until they are `limit`.
/// @param baseline, candidate  of the shape of the whole tensor and with the bytes of the part
/// @param first  index of the first element of the part
/// @param wanted  nothing = all of them
void add_differences(core::TensorView baseline,
                     core::TensorView candidate,
                     std::uint64_t first,
                     std::size_t limit,
                     std::vector<Sample>& samples,
                     const WantedElement& wanted = {});

/// Shortest text that reads back as this element, 8 and 16 bit floats through float32: `0.1`, `-0`,
/// `nan`, `inf`, `(1-2j)`, `True`.
/// @param element  element_size(dtype) bytes, little-endian
std::string element_text(core::Dtype dtype, std::span<const std::byte> element);

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

}  // namespace repro_check::comparators
