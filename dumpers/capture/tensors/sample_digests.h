// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace repro_check::capture {

/// A digest for each sample of a batch, over what all of its tensors hold at that place of their
/// first dimension: XXH3-128 of the rows' digests and dtypes. Equal samples have equal digests
/// wherever they stand. Shared out over LibTorch's own threads; calls no operator.
/// @param tensors  those whose first dimension is as long as that of the first one with dimensions
///                 count; in host memory, strided
/// @return two halves a sample, the high one first; empty where there is nothing to read
std::vector<std::int64_t> sample_digests(std::span<const at::Tensor> tensors);

}  // namespace repro_check::capture
