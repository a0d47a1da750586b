// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor_view.h"

namespace repro_check::cmd {

/// The name of a dtype in the header; empty where the format has none: complex32 and complex128,
/// quantised ones, float4 pairs, and the float8 kinds without a negative zero.
std::string_view safetensors_dtype(core::Dtype dtype) noexcept;

struct SafeTensor {
  std::string name;
  core::TensorView tensor;  ///< borrowed
};

/// Eight bytes with the length of a header, which is a JSON object with dtype, shape and place of
/// each tensor, padded to a multiple of eight bytes; then the contents in order without a gap.
/// Source: the format section of the safetensors README.
/// @param metadata  text by text, under `__metadata__`
/// @throws core::Error{kUnsupportedDtype} for a dtype without a name, core::Error{kIo}
void write_safetensors(const std::filesystem::path& file,
                       std::span<const SafeTensor> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace repro_check::cmd
