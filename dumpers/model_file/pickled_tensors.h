// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"

namespace repro_check::model_file {

/// A tensor in a pickle of LibTorch: its bytes lie in an entry of the archive beside it.
struct PickledTensor {
  core::Dtype dtype = core::Dtype::kUnknown;
  std::string storage;      ///< name of that entry
  std::int64_t offset = 0;  ///< in elements
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

/// A tensor by its place in what was pickled: `layers.0.weight` in dicts that lie in each other,
/// `1` in a list, empty where it is all there is.
struct NamedPickledTensor {
  std::string name;
  PickledTensor tensor;
};

struct PickledObject {
  std::vector<NamedPickledTensor> tensors;  ///< in order
  std::vector<std::string> left_out;        ///< classes of objects that were not opened, one each
};

/// The tensors of what `torch.save` pickled: one, or dicts and lists of them. Numbers and texts are
/// passed over; nothing is called or imported.
/// @param origin  a path, named in the message
/// @throws core::Error{kUsage} for another pickle
PickledObject read_pickled_object(std::string_view pickle, const std::string& origin);

/// The tensors of a pickled tuple, in order; a default one stands for what is no plain tensor. Only
/// what LibTorch writes is understood, and nothing is called or imported.
/// @throws as read_pickled_object()
std::vector<PickledTensor> read_pickled_tensors(std::string_view pickle, const std::string& origin);

}  // namespace repro_check::model_file
