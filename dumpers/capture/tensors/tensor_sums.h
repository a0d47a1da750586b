// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

namespace repro_check::capture {

/// L2 norm over all elements of all tensors, in double: the same bits whatever the number of
/// threads. Shared out over LibTorch's own threads; calls no operator where tensors lie in host
/// memory.
/// @param tensors  strided, of float64, float32, float16 or bfloat16; undefined ones count as empty
/// @return NaN where an element is NaN; empty where a tensor is of another kind, or there is none
std::optional<double> l2_norm(std::span<const at::Tensor> tensors);

/// Sums of core::kSketchSums groups of elements, as core::sketch_distance() takes them: of every
/// 64 elements in a row, each is added to another sum, all with one sign that is drawn for the row.
/// Otherwise as l2_norm().
std::optional<std::vector<double>> sketch(std::span<const at::Tensor> tensors);

}  // namespace repro_check::capture
