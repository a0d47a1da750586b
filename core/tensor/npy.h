// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
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

/// The same of a stream, as of a member of an archive.
/// @param size    bytes that the stream has
/// @param origin  named in errors
HostTensor read_npy(std::istream& stream, std::uintmax_t size, const std::filesystem::path& origin);

/// Writes version 1.0, C order. float16, bool and complex keep their NumPy dtype.
/// @throws Error{kUsage} for bfloat16, float8, float4, complex32 and quantised dtypes, which NumPy
///         lacks; Error{kIo} when writing fails
void write_npy(const std::filesystem::path& file, TensorView tensor);

}  // namespace repro_check::core
