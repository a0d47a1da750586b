// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/weight_versions.h"

#include <cstring>
#include <map>
#include <utility>

#include "core/error.h"
#include "dumpers/torchscript/detail/exception_text.h"
#include "dumpers/torchscript/detail/loaded_model.h"
#include "dumpers/torchscript/detail/owned_tensors.h"

namespace repro_check::torchscript {
namespace {

/// Elements with other bits; empty where two tensors cannot be looked at byte by byte.
std::optional<std::uint64_t> count_differing(const at::Tensor& first, const at::Tensor& second) {
  for (const at::Tensor* tensor : {&first, &second}) {
    if (tensor->layout() != at::kStrided || tensor->is_quantized() || tensor->is_meta()) {
      return std::nullopt;
    }
  }
  const auto plain = [](const at::Tensor& tensor) {
    return tensor.detach().resolve_conj().resolve_neg().contiguous();
  };
  const at::Tensor a = plain(first);
  const at::Tensor b = plain(second);
  if (a.nbytes() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0) return 0;
  const auto* left = static_cast<const char*>(a.data_ptr());
  const auto* right = static_cast<const char*>(b.data_ptr());
  const auto size = static_cast<std::size_t>(a.element_size());
  std::uint64_t differing = 0;
  for (std::size_t at = 0; at < a.nbytes(); at += size) {
    if (std::memcmp(left + at, right + at, size) != 0) ++differing;
  }
  return differing;
}

/// Whether two that share memory are one tensor under two names.
bool is_one_tensor(const OwnedTensor& left, const OwnedTensor& right) {
  return left.tensor.is_same(right.tensor) ||
         (left.tensor.storage_offset() == right.tensor.storage_offset() &&
          left.tensor.sizes() == right.tensor.sizes() &&
          left.tensor.strides() == right.tensor.strides());
}

WeightVersions compare(const std::filesystem::path& first, const std::filesystem::path& second) {
  const std::vector<OwnedTensor> here = owned_tensors(load_module(first, at::kCPU));
  const std::vector<OwnedTensor> there = owned_tensors(load_module(second, at::kCPU));
  WeightVersions versions;
  Obstacle obstacle = obstacle_between(here, first, there, second);
  versions.obstacle = std::move(obstacle.problem);
  versions.mend = std::move(obstacle.mend);
  if (!versions.obstacle.empty()) return versions;

  std::map<std::size_t, WeightDifference> groups;
  for (std::size_t i = 0; i < here.size(); ++i) {
    versions.names.push_back(here[i].name);
    WeightDifference& group = groups[here[i].memory];
    if (group.names.empty()) {
      group.what = describe_tensor(here[i].tensor);
      group.differing = 0;
    }
    group.names.push_back(here[i].name);
    if (i != here[i].memory && is_one_tensor(here[i], here[here[i].memory])) continue;
    group.elements += static_cast<std::uint64_t>(here[i].tensor.numel());
    const auto differing = count_differing(here[i].tensor, there[i].tensor);
    group.differing =
        differing && group.differing ? std::optional(*group.differing + *differing) : std::nullopt;
  }
  for (auto& [memory, group] : groups) {
    if (group.differing != 0) versions.different.push_back(std::move(group));
  }
  return versions;
}

}  // namespace

WeightVersions compare_weights(const std::filesystem::path& first,
                               const std::filesystem::path& second) {
  try {
    return compare(first, second);
  } catch (const core::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw core::Error(core::ErrorKind::kRunFailed,
                      "comparing the weights failed: " + first_useful_line(error),
                      is_out_of_memory(error) ? "memory ran out: both files are held at once" : "");
  }
}

}  // namespace repro_check::torchscript
