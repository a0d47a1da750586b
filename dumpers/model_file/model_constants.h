// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"

namespace repro_check::model_file {

/// An operator of an exported model that is given a constant.
struct ModelConstantUse {
  std::string op;              ///< `linear`, without namespace and overload
  std::uint32_t argument = 0;  ///< from 0
  std::string line;            ///< of the program where the file tells it, else of its own code
};

/// A tensor of an exported model that is neither a parameter nor a buffer.
struct ModelConstant {
  std::string name;
  core::Dtype dtype = core::Dtype::kUnknown;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  ///< of its first elements, in row-major order
  std::vector<ModelConstantUse> uses;
};

/// Reads the constants of a TorchScript file, or of one of torch.export (`.pt2`), and which
/// operators are given them. Executes nothing: of pickles only the tensors are understood.
/// @param most  elements of each that are read
/// @throws core::Error{kUsage} for another file, or one that is not as those are
std::vector<ModelConstant> read_model_constants(const std::filesystem::path& file,
                                                std::size_t most);

}  // namespace repro_check::model_file
