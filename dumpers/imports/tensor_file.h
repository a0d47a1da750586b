// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/tensor/tensor_record.h"

namespace repro_check::imports {

/// A tensor of a file, with its values for as long as the visit takes.
struct FileTensor {
  std::string name;       ///< in the file; empty where the file holds this one alone
  std::size_t place = 0;  ///< among the tensors of the file, as the file orders them
  core::TensorView values;
};

using TensorVisit = std::function<void(const FileTensor&)>;

/// Whether the name ends as those of files with tensors do: `.safetensors`, `.npz`, `.npy`, `.pt`,
/// `.pth`, `.bin`, `.ckpt`.
bool is_tensor_file(const std::filesystem::path& file);

/// Visits every tensor of a file, in any order. A pickle in it is read as one: nothing is called,
/// imported or executed. Memory: the largest storage in the file.
/// @return classes of objects in a pickle that are no tensors and were not opened, one each
/// @throws core::Error{kUsage} where the file is of another kind or damaged, or holds a tensor of a
///         dtype that the format of dumps lacks
std::vector<std::string> visit_tensors(const std::filesystem::path& file, const TensorVisit& visit);

}  // namespace repro_check::imports
