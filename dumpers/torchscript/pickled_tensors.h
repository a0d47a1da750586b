// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"

namespace repro_check::torchscript {

/// A tensor in a pickle of LibTorch: its bytes lie in an entry of the archive beside it.
struct PickledTensor {
  core::Dtype dtype = core::Dtype::kUnknown;
  std::string storage;      ///< name of that entry
  std::int64_t offset = 0;  ///< in elements
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

/// The tensors of a pickled tuple, in order; a default one stands for what is no plain tensor. Only
/// what LibTorch writes is understood, and nothing is called or imported.
/// @throws core::Error{kUsage} for another pickle
std::vector<PickledTensor> read_pickled_tensors(std::string_view pickle);

}  // namespace repro_check::torchscript
