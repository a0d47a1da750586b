// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <unordered_map>

#include "core/error.h"
#include "dumpers/capture/torch/torch_names.h"
#include "dumpers/torchscript/failures.h"
#include "dumpers/torchscript/model.h"
#include "dumpers/torchscript/tensors.h"
#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check::torchscript {
namespace {

class Collector {
 public:
  void visit(const torch::jit::Module& module, const std::string& prefix) {
    const auto object = module._ivalue();
    const auto name_of = [&](std::size_t slot) {
      return prefix + object->type()->getAttributeName(slot);
    };
    const std::size_t slots = object->type()->numAttributes();
    for (std::size_t slot = 0; slot < slots; ++slot) {
      const c10::IValue value = object->getSlot(slot);
      if (value.isTensor() && value.toTensor().defined()) add(name_of(slot), value.toTensor());
    }
    for (std::size_t slot = 0; slot < slots; ++slot) {
      const c10::IValue value = object->getSlot(slot);
      if (value.isModule()) visit(value.toModule(), name_of(slot) + ".");
    }
  }

  std::vector<OwnedTensor> take() { return std::move(found_); }

 private:
  void add(const std::string& name, const at::Tensor& tensor) {
    // A sparse tensor has no storage of its own.
    const void* place = tensor.has_storage()
                            ? static_cast<const void*>(tensor.storage().unsafeGetStorageImpl())
                            : static_cast<const void*>(tensor.unsafeGetTensorImpl());
    const std::size_t memory = first_in_.try_emplace(place, found_.size()).first->second;
    found_.push_back({name, tensor, memory});
  }

  std::vector<OwnedTensor> found_;
  std::unordered_map<const void*, std::size_t> first_in_;
};

std::set<std::string> names_of(const std::vector<OwnedTensor>& tensors) {
  std::set<std::string> names;
  for (const OwnedTensor& owned : tensors) names.insert(owned.name);
  return names;
}

/// Of the first name that only the left side has.
std::string only_in(const std::vector<OwnedTensor>& left,
                    const std::vector<OwnedTensor>& right,
                    const std::filesystem::path& file) {
  const std::set<std::string> known = names_of(right);
  for (const OwnedTensor& owned : left) {
    if (!known.contains(owned.name)) return owned.name + " is only in " + file.string();
  }
  return {};
}

std::string other_kind(const OwnedTensor& left,
                       const std::filesystem::path& a,
                       const OwnedTensor& right,
                       const std::filesystem::path& b) {
  const std::string here = describe_tensor(left.tensor);
  const std::string there = describe_tensor(right.tensor);
  if (here == there) return {};
  return left.name + " is " + here + " in " + a.string() + " and " + there + " in " + b.string();
}

/// Whether a tensor that is not the first in its memory lies there as it does in the other file.
bool lies_alike(const OwnedTensor& left, const OwnedTensor& right, std::size_t number) {
  if (left.memory != right.memory) return false;
  if (left.memory == number) return true;
  return left.tensor.storage_offset() == right.tensor.storage_offset() &&
         left.tensor.strides() == right.tensor.strides();
}

std::string other_sharing(const std::vector<OwnedTensor>& first,
                          const std::filesystem::path& a,
                          const std::vector<OwnedTensor>& second,
                          const std::filesystem::path& b) {
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (lies_alike(first[i], second[i], i)) continue;
    const std::size_t with = first[i].memory != i ? first[i].memory : second[i].memory;
    return first[i].name + " shares memory with " + first[with].name + " otherwise in " +
           a.string() + " than in " + b.string();
  }
  return {};
}

}  // namespace

std::vector<OwnedTensor> owned_tensors(const torch::jit::Module& module) {
  Collector collector;
  collector.visit(module, "");
  return collector.take();
}

std::string describe_tensor(const at::Tensor& tensor) {
  std::ostringstream text;
  text << capture::scalar_type_name(tensor.scalar_type()) << ' ' << tensor.sizes();
  if (tensor.layout() != at::kStrided) text << ' ' << tensor.layout();
  if (tensor.is_quantized()) text << ' ' << toString(tensor.qscheme());
  return text.str();
}

Obstacle obstacle_between(const std::vector<OwnedTensor>& first,
                          const std::filesystem::path& a,
                          const std::vector<OwnedTensor>& second,
                          const std::filesystem::path& b) {
  for (const auto& [tensors, file] : {std::pair(&first, &a), std::pair(&second, &b)}) {
    if (!tensors->empty()) continue;
    return {file->string() +
                ": no named parameters or buffers, as in a frozen model, whose weights are "
                "constants of the graph",
            "export the model without torch.jit.freeze"};
  }
  const char* mend = "take two versions of one model: the same modules, dtypes and shapes";
  for (const std::string& problem : {only_in(first, second, a), only_in(second, first, b)}) {
    if (!problem.empty()) return {problem, mend};
  }
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i].name != second[i].name) {
      return {"the tensors of " + a.string() + " and " + b.string() +
                  " stand in another order: " + first[i].name + " against " + second[i].name,
              mend};
    }
    const std::string problem = other_kind(first[i], a, second[i], b);
    if (!problem.empty()) return {problem, mend};
  }
  const std::string problem = other_sharing(first, a, second, b);
  return {problem, problem.empty() ? "" : "tie or untie these weights in both, then export again"};
}

void take_weights(const torch::jit::Module& module,
                  const std::filesystem::path& path,
                  const torch::jit::Module& other,
                  const std::filesystem::path& from,
                  const std::vector<std::string>& names) {
  const std::vector<OwnedTensor> here = owned_tensors(module);
  const std::vector<OwnedTensor> there = owned_tensors(other);
  const Obstacle obstacle = obstacle_between(here, path, there, from);
  if (!obstacle.problem.empty()) {
    throw core::Error(
        core::ErrorKind::kUsage, "/model/weights_from: " + obstacle.problem, obstacle.mend);
  }
  std::set<std::size_t> wanted;
  std::vector<std::string> known;
  known.reserve(here.size());
  for (const OwnedTensor& owned : here) known.push_back(owned.name);
  for (const std::string& name : names) {
    const auto found = std::ranges::find(here, name, &OwnedTensor::name);
    if (found == here.end()) {
      throw core::Error(
          core::ErrorKind::kUsage,
          "/model/weights: " + path.string() + " has no \"" + name + "\"" + suggest(name, known),
          "`repro-check inspect DUMP -v` lists the names of a recorded model");
    }
    wanted.insert(found->memory);
  }
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (!names.empty() && !wanted.contains(here[i].memory)) continue;
    at::Tensor target = here[i].tensor;
    target.copy_(there[i].tensor);
  }
}

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
