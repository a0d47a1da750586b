// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::core {

/// A tensor that owns its content: contiguous, row-major, little-endian.
struct HostTensor {
  Dtype dtype = Dtype::kUnknown;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  [[nodiscard]] TensorView view() const { return {dtype, shape, bytes}; }
};

/// Reads NumPy's .npy, versions 1 to 3, C or Fortran order, either byte order.
/// @throws Error{kUsage} when the file is missing, malformed, or of a dtype without counterpart
///         (objects, strings, structured)
HostTensor read_npy(const std::filesystem::path& file);

/// Writes version 1.0, C order. float16, bool and complex keep their NumPy dtype.
/// @throws Error{kUsage} for bfloat16, float8, float4, complex32 and quantised dtypes, which NumPy
///         lacks; Error{kIo} when writing fails
void write_npy(const std::filesystem::path& file, TensorView tensor);

}  // namespace repro_check::core
