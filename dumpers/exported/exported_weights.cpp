// SPDX-License-Identifier: Apache-2.0
#include "dumpers/exported/exported_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/error.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/model_file/exported_file.h"
#include "dumpers/model_file/model_file.h"

namespace repro_check::exported {
namespace {

using model_file::PickledTensor;

/// Bytes from the begin of a storage to behind the last element of a tensor; empty where that is
/// more than any file has.
std::optional<std::uint64_t> extent_of(const PickledTensor& tensor) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 46U;
  if (tensor.offset < 0 || tensor.shape.size() != tensor.strides.size()) return std::nullopt;
  auto last = static_cast<std::uint64_t>(tensor.offset);
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] < 0 || tensor.strides[i] < 0) return std::nullopt;
    if (tensor.shape[i] == 0) return 0;
    const auto steps = static_cast<std::uint64_t>(tensor.shape[i]) - 1;
    const auto stride = static_cast<std::uint64_t>(tensor.strides[i]);
    if (steps != 0 && stride > kMost / steps) return std::nullopt;
    last += steps * stride;
    if (last > kMost) return std::nullopt;
  }
  return (last + 1) * core::element_size(tensor.dtype);
}

struct SavedTensor {
  std::string name;
  PickledTensor tensor;
  std::uint64_t extent = 0;  ///< bytes from the begin of its storage
  bool has_gradient = false;
};

core::Error refusal(const std::filesystem::path& file, const std::string& what) {
  return core::usage_error(file.string() + ": " + what,
                           "copy it again from an undamaged file, or export the model again");
}

SavedTensor saved_tensor(const std::filesystem::path& file,
                         const std::string& name,
                         const nlohmann::ordered_json& payload) {
  auto tensor = model_file::tensor_of(payload);
  if (!tensor) {
    throw core::usage_error(file.string() + ": " + name +
                                " is no plain tensor: it lies in a pickle, which is not loaded",
                            "export the model with plain dense tensors");
  }
  const auto extent = extent_of(*tensor);
  if (!capture::scalar_type_of(tensor->dtype) || !extent) {
    throw refusal(file, name + " has a dtype or a size that is not known");
  }
  return {
      name, std::move(*tensor), *extent, payload.at("tensor_meta").value("requires_grad", false)};
}

/// @param storage  of bytes
at::Tensor view_of(const SavedTensor& saved, const at::Tensor& storage) {
  const PickledTensor& tensor = saved.tensor;
  at::Tensor made = at::empty({0}, at::dtype(*capture::scalar_type_of(tensor.dtype)));
  made.set_(storage.storage(), tensor.offset, tensor.shape, tensor.strides);
  return made.set_requires_grad(saved.has_gradient);
}

}  // namespace

std::map<std::string, at::Tensor> read_tensors(const std::filesystem::path& file,
                                               const nlohmann::ordered_json& payloads,
                                               const std::string& folder) {
  const at::NoGradGuard no_grad;
  std::map<std::string, std::vector<SavedTensor>> by_entry;
  for (const auto& item : payloads.items()) {
    if (item.value().at("tensor_meta").is_null()) continue;  // an object that is no tensor
    SavedTensor saved = saved_tensor(file, item.key(), item.value());
    by_entry[folder + "/" + saved.tensor.storage].push_back(std::move(saved));
  }
  std::map<std::string, at::Tensor> tensors;
  const std::uint64_t bytes_of_file = std::filesystem::file_size(file);
  model_file::visit_entries(
      file, [&](const std::string& name, const model_file::EntryReader& read) {
        const auto entry = by_entry.find(model_file::entry_below(name, folder));
        if (entry == by_entry.end()) return;
        std::uint64_t needed = 0;
        for (const SavedTensor& saved : entry->second) needed = std::max(needed, saved.extent);
        if (needed > bytes_of_file) throw refusal(file, name + " is shorter than its tensors");
        // Memory of LibTorch's own: how it is aligned decides how some kernels go through it.
        const std::string bytes = read(needed + 1);
        if (bytes.size() < needed) throw refusal(file, name + " is shorter than its tensors");
        const at::Tensor storage =
            at::empty({static_cast<std::int64_t>(bytes.size())}, at::dtype(at::kByte));
        std::memcpy(storage.data_ptr(), bytes.data(), bytes.size());
        for (const SavedTensor& saved : entry->second) {
          tensors[saved.name] = view_of(saved, storage);
        }
        by_entry.erase(entry);
      });
  if (!by_entry.empty()) throw refusal(file, by_entry.begin()->first + " is missing");
  return tensors;
}

}  // namespace repro_check::exported
