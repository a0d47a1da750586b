// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/owned_tensors.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <unordered_map>

#include "core/tensor/dtype.h"
#include "dumpers/torchscript/detail/torch_types.h"
#include "dumpers/torchscript/suggestion.h"

namespace repro_check::torchscript {
namespace {

std::string dtype_text(at::ScalarType type) {
  for (int number = 1; number <= static_cast<int>(core::Dtype::kQInt32); ++number) {
    const auto dtype = static_cast<core::Dtype>(number);
    if (to_scalar_type(dtype) == type) return std::string(core::dtype_name(dtype));
  }
  return c10::toString(type);
}

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
  text << dtype_text(tensor.scalar_type()) << ' ' << tensor.sizes();
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

}  // namespace repro_check::torchscript
