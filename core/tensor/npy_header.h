// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"

namespace repro_check::core::detail {

/// What the header of a .npy file says.
struct NpyHeader {
  Dtype dtype = Dtype::kUnknown;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  ///< no size is negative; their product is not checked
};

/// Reads the Python literal `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`: these
/// three keys, in any order, once each.
/// @throws Error{kUsage} without the file's name
NpyHeader parse_npy_header(std::string_view text);

/// `<f4`, `|b1`; empty for a dtype NumPy lacks.
std::string_view npy_descr(Dtype dtype) noexcept;

}  // namespace repro_check::core::detail
