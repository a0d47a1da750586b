// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/model.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/digest/digest.h"
#include "core/tensor/dtype.h"
#include "core/trace/run_manifest.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/exported/exported_module.h"
#include "dumpers/exported/marks.h"
#include "dumpers/model_file/model_file.h"
#include "dumpers/torchscript/failures.h"
#include "dumpers/torchscript/inputs.h"
#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check::torchscript {

namespace {

core::Error load_failure(const std::filesystem::path& path, const std::exception& error) {
  const std::string problem = path.string() + ": LibTorch " TORCH_VERSION " cannot load this model";
  if (is_out_of_memory(error)) {
    return {core::ErrorKind::kRunFailed,
            problem + ": out of memory",
            "free memory, or load on a device with more of it"};
  }
  const std::string text = full_text(error);
  std::string hint =
      "save the model again; a damaged file does not load, and a model saved by a "
      "newer LibTorch may need a recorder built against that one";
  if (text.find("nknown builtin op") != std::string::npos ||
      text.find("nknown type name") != std::string::npos) {
    hint =
        "the model uses operators or classes of an extension (torchvision, a custom library) "
        "that this recorder does not have: name the library that registers them, "
        "\"extensions\": [\"libmy.so\"], or export the model without them";
  }
  if (is_removed_call(error)) hint = kRemovedCallHint;
  return {core::ErrorKind::kUsage, problem + ": " + first_useful_line(error), hint};
}

/// Frozen modules have no such attribute left.
bool has_mode(const torch::jit::Module& module) {
  return module.hasattr("training") && module.attr("training").isBool();
}

void set_mode(const configs::RunSpec& run, LoadedModel& model) {
  if (run.model.mode == configs::ModelMode::kAsSaved) return;
  const bool train = run.model.mode == configs::ModelMode::kTrain;
  std::size_t reached = 0;
  for (const torch::jit::Module& module : model.module.modules()) {
    if (!has_mode(module)) continue;
    module._ivalue()->setAttr("training", train);
    ++reached;
  }
  // Of an exported program the runner names the operators whose mode is another.
  if (reached > 0 || model.is_exported) return;
  model.warnings.push_back(std::string("mode \"") + (train ? "train" : "eval") +
                           "\" has no effect: the modules have no `training` attribute, as in a "
                           "frozen model; its operators keep the mode that it was frozen in");
}

/// A tensor and what stands in its place. The first is held, or its address would be given to the
/// next.
struct Cast {
  at::Tensor from;
  at::Tensor to;
};

/// Floating parameters, buffers and other tensor attributes; those that were one tensor stay one.
/// Module::to would cast integer buffers as well.
void cast_floating(at::ScalarType dtype, LoadedModel& model) {
  const at::NoGradGuard no_grad;
  std::unordered_map<const void*, Cast> done;
  for (const torch::jit::Module& module : model.module.modules()) {
    const auto object = module._ivalue();
    for (std::size_t slot = 0; slot < object->type()->numAttributes(); ++slot) {
      const c10::IValue value = object->getSlot(slot);
      if (!value.isTensor() || !value.toTensor().defined()) continue;
      const at::Tensor& tensor = value.toTensor();
      if (!tensor.is_floating_point()) continue;
      const auto [found, fresh] = done.try_emplace(tensor.unsafeGetTensorImpl());
      if (fresh) {
        const at::Tensor cast = tensor.detach().to(dtype).set_requires_grad(tensor.requires_grad());
        found->second = {tensor, cast};
        // A module that stands in the model twice is visited twice.
        done.try_emplace(cast.unsafeGetTensorImpl(), Cast{cast, cast});
        object->setSlot(slot, cast);
      } else {
        object->setSlot(slot, found->second.to);
      }
    }
  }
  if (done.empty()) {
    model.warnings.emplace_back(
        "dtype casts the inputs only: the model has no floating parameters or buffers, as in a "
        "frozen model, whose weights are constants of the graph");
  }
}

core::Error refusal(const std::filesystem::path& library, const std::string& why) {
  return {core::ErrorKind::kUsage,
          library.string() + ": this extension cannot be loaded: " + why,
          "it must be built against the LibTorch of this recorder, " TORCH_VERSION
          ", and find every other library that it needs"};
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

/// What a file of a model owns.
struct Version {
  std::string file;
  std::vector<OwnedTensor> tensors;
};

/// Why tensors of one file cannot stand in the other, and how to mend it.
struct Obstacle {
  std::string problem;  ///< empty = they can
  std::string mend = "take two versions of one model: the same modules, dtypes and shapes";
};

/// Of the first name that only the left side has.
std::string only_in(const Version& left, const Version& right) {
  const std::set<std::string> known = names_of(right.tensors);
  for (const OwnedTensor& owned : left.tensors) {
    if (!known.contains(owned.name)) return owned.name + " is only in " + left.file;
  }
  return {};
}

/// Of the first place in the order of the models that does not hold the same kind of tensor.
std::string other_kind(const Version& left, const Version& right) {
  for (std::size_t i = 0; i < left.tensors.size(); ++i) {
    const OwnedTensor& a = left.tensors[i];
    const OwnedTensor& b = right.tensors[i];
    if (a.name != b.name) {
      return fmt::format("the tensors of {} and {} stand in another order: {} against {}",
                         left.file,
                         right.file,
                         a.name,
                         b.name);
    }
    const std::string here = describe_tensor(a.tensor);
    const std::string there = describe_tensor(b.tensor);
    if (here != there) {
      return fmt::format("{} is {} in {} and {} in {}", a.name, here, left.file, there, right.file);
    }
  }
  return {};
}

/// Whether a tensor that is not the first in its memory lies there as it does in the other file.
bool lies_alike(const OwnedTensor& left, const OwnedTensor& right, std::size_t number) {
  if (left.memory != right.memory) return false;
  if (left.memory == number) return true;
  return left.tensor.storage_offset() == right.tensor.storage_offset() &&
         left.tensor.strides() == right.tensor.strides();
}

std::string other_sharing(const Version& left, const Version& right) {
  for (std::size_t i = 0; i < left.tensors.size(); ++i) {
    const OwnedTensor& a = left.tensors[i];
    const OwnedTensor& b = right.tensors[i];
    if (lies_alike(a, b, i)) continue;
    const OwnedTensor& with = left.tensors[a.memory != i ? a.memory : b.memory];
    return a.name + " shares memory with " + with.name + " otherwise in " + left.file +
           " than in " + right.file;
  }
  return {};
}

Obstacle obstacle_between(const Version& first, const Version& second) {
  for (const Version* version : {&first, &second}) {
    if (!version->tensors.empty()) continue;
    return {version->file +
                ": no named parameters or buffers, as in a frozen model, whose weights are "
                "constants of the graph",
            "export the model without torch.jit.freeze"};
  }
  for (const std::string& problem : {only_in(first, second), only_in(second, first)}) {
    if (!problem.empty()) return {problem};
  }
  const std::string kind = other_kind(first, second);
  if (!kind.empty()) return {kind};
  return {other_sharing(first, second), "tie or untie these weights in both, then export again"};
}

/// Puts the values of another version of the model into tensors of this one. Those that lie in the
/// same memory are taken together; strides, device and grad mode stay.
/// @param names  empty = all
/// @throws core::Error{kUsage} when there is an obstacle, or no such name
void take_weights(const Version& into, const Version& from, const std::vector<std::string>& names) {
  const Obstacle obstacle = obstacle_between(into, from);
  if (!obstacle.problem.empty()) {
    throw usage_error("/model/weights_from: " + obstacle.problem, obstacle.mend);
  }
  const std::vector<OwnedTensor>& here = into.tensors;
  std::set<std::size_t> wanted;
  std::vector<std::string> known;
  known.reserve(here.size());
  for (const OwnedTensor& owned : here) known.push_back(owned.name);
  for (const std::string& name : names) {
    const auto found = std::ranges::find(here, name, &OwnedTensor::name);
    if (found == here.end()) {
      throw usage_error(
          "/model/weights: " + into.file + " has no \"" + name + "\"" + suggest(name, known),
          "`repro-check inspect DUMP -v` lists the names of a recorded model");
    }
    wanted.insert(found->memory);
  }
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (!names.empty() && !wanted.contains(here[i].memory)) continue;
    at::Tensor target = here[i].tensor;
    target.copy_(from.tensors[i].tensor);
  }
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

namespace {

LoadedModel read_model(const std::filesystem::path& path, at::Device device) {
  const bool is_exported =
      model_file::require_model(path) == model_file::FileKind::kExportedProgram;
  try {
    if (!is_exported) return {torch::jit::load(path.string(), device), {}, false};
    auto [module, warnings] = exported::load_exported(path, device);
    return {std::move(module), std::move(warnings), true};
  } catch (const core::Error&) {
    throw;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) model_file::require_undamaged(path);
    throw load_failure(path, error);
  }
}

}  // namespace

torch::jit::Module load_module(const std::filesystem::path& path, at::Device device) {
  return read_model(path, device).module;
}

LoadedModel load_model(const configs::RunSpec& run, at::Device device) {
  LoadedModel model = read_model(run.model.path, device);
  set_mode(run, model);
  if (run.model.weights_from) {
    const std::filesystem::path& from = *run.model.weights_from;
    take_weights({run.model.path.string(), owned_tensors(model.module)},
                 {from.string(), owned_tensors(load_module(from, at::kCPU))},
                 run.model.weights);
  }
  if (run.dtype) {
    const auto dtype = to_scalar_type(*run.dtype);
    if (!dtype || !core::is_floating(*run.dtype)) {
      throw usage_error("dtype \"" + std::string(core::dtype_name(*run.dtype)) +
                            "\" is no floating dtype of LibTorch " TORCH_VERSION,
                        "take float16, bfloat16, float32 or float64");
    }
    cast_floating(*dtype, model);
  }
  return model;
}

std::string training_flags(const torch::jit::Module& module) {
  constexpr std::size_t kNamed = 3;
  std::size_t with_mode = 0;
  std::vector<std::string> training;
  for (const auto& each : module.named_modules()) {
    if (!has_mode(each.value)) continue;
    ++with_mode;
    if (each.value.attr("training").toBool()) {
      training.push_back(each.name.empty() ? "the model itself" : each.name);
    }
  }
  if (with_mode == 0) return std::string(core::kNoTrainingFlags);
  if (training.empty()) return "off";
  if (training.size() == with_mode) return "on";
  std::string text = "on in " + std::to_string(training.size()) + " of " +
                     std::to_string(with_mode) + " modules: " + training.front();
  const std::size_t shown = std::min(kNamed, training.size());
  for (std::size_t i = 1; i < shown; ++i) text += ", " + training[i];
  if (shown < training.size()) text += " and " + std::to_string(training.size() - shown) + " more";
  return text;
}

std::vector<std::string> method_names(const torch::jit::Module& module) {
  std::vector<std::string> names;
  for (const torch::jit::Method& method : module.get_methods()) names.push_back(method.name());
  return names;
}

torch::jit::Method find_method(const torch::jit::Module& module,
                               const std::string& name,
                               const std::filesystem::path& path) {
  if (const auto method = module.find_method(name)) return *method;
  const std::vector<std::string> names = method_names(module);
  const std::string others = names.empty() ? "; it has no methods at all" : suggest(name, names);
  throw usage_error(path.string() + ": the model has no method \"" + name + "\"" + others,
                    "set model.method; a method is exported with @torch.jit.export");
}

std::vector<core::EnvironmentFact> load_extensions(
    const std::vector<std::filesystem::path>& libraries) {
  std::vector<core::EnvironmentFact> facts;
  for (const std::filesystem::path& library : libraries) {
    try {
      // As torch.ops.load_library does: one may need what an earlier one defines.
      if (::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
        const char* why = ::dlerror();
        throw refusal(library, why == nullptr ? "no reason given" : why);
      }
    } catch (const core::Error&) {
      throw;
    } catch (const std::exception& error) {  // what registers operators may throw
      throw refusal(library, first_useful_line(error));
    }
    facts.push_back(
        {"extension." + library.filename().string(), core::to_hex(core::digest_file(library))});
  }
  return facts;
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
  const Version one{first.string(), owned_tensors(load_module(first, at::kCPU))};
  const Version other{second.string(), owned_tensors(load_module(second, at::kCPU))};
  WeightVersions versions;
  const Obstacle obstacle = obstacle_between(one, other);
  if (!obstacle.problem.empty()) {
    versions.obstacle = obstacle.problem;
    versions.mend = obstacle.mend;
    return versions;
  }

  const std::vector<OwnedTensor>& here = one.tensors;
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
    const auto differing = count_differing(here[i].tensor, other.tensors[i].tensor);
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
  return translated("comparing the weights", "both files are held at once", [&] {
    return compare(first, second);
  });
}

namespace {

using torch::jit::Node;
using torch::jit::Value;

constexpr std::int64_t kAnySize = -1;
constexpr std::string_view kEmbedding = "aten::embedding";

/// What these give has shape and dtype of what they take, as a rule.
constexpr std::array<std::string_view, 6> kPassed{
    "aten::clone", "aten::contiguous", "aten::detach", "aten::dropout", "aten::relu", "aten::to"};

/// What these give has the dtype of what they take, in another shape.
constexpr std::array<std::string_view, 3> kReshaped{"aten::flatten", "aten::reshape", "aten::view"};

struct Weight {
  std::string name;  ///< `encoder.layers.0.weight`
  at::Tensor tensor;
};

class FirstLayers {
 public:
  FirstLayers(const torch::jit::Module& module, const Value* self) : module_(module), self_(self) {}

  /// Fills in what the first layer that takes `value` wants, if one is known.
  /// @param is_reshaped  `value` has another shape than the argument: only tokens are known then,
  ///                     of which any shape will do
  /// @return whether one is
  bool describe(const Value* value, MethodArgument& argument, bool is_reshaped = false) {
    // A loop may lead back.
    if (!seen_.insert(value).second) return false;
    for (const torch::jit::Use& use : value->uses()) {
      const Node* node = use.user;
      const std::string_view kind = node->kind().toQualString();
      if ((!is_reshaped || kind == kEmbedding) && take(kind, *node, use.offset, argument)) {
        return true;
      }
      if (use.offset != 0 || node->outputs().size() != 1) continue;
      const bool reshapes = std::ranges::find(kReshaped, kind) != kReshaped.end();
      const bool passes = reshapes || std::ranges::find(kPassed, kind) != kPassed.end();
      if (passes && describe(node->output(), argument, is_reshaped || reshapes)) return true;
    }
    return false;
  }

 private:
  bool take(std::string_view kind, const Node& node, std::size_t place, MethodArgument& argument) {
    const bool is_convolution = kind == "aten::_convolution" || kind == "aten::convolution" ||
                                kind == "aten::conv1d" || kind == "aten::conv2d" ||
                                kind == "aten::conv3d";
    if (kind == kEmbedding && place == 1) {
      const auto weight = weight_of(node.input(0), 2);
      if (!weight) return false;
      note(*weight, {kAnySize, kAnySize}, argument);
      argument.dtype = "int64";
      argument.rows = weight->tensor.size(0);
    } else if (kind == "aten::linear" && place == 0) {
      const auto weight = weight_of(node.input(1), 2);
      if (!weight) return false;
      note(*weight, {1, weight->tensor.size(1)}, argument);
    } else if (is_convolution && place == 0) {
      return take_convolution(kind, node, argument);
    } else if ((kind == "aten::lstm" || kind == "aten::gru" || kind == "aten::rnn_tanh") &&
               place == 0) {
      const Node* list = node.input(2)->node();
      if (list->kind() != c10::prim::ListConstruct || list->inputs().empty()) return false;
      const auto weight = weight_of(list->inputs().front(), 2);
      if (!weight) return false;
      note(*weight, {kAnySize, kAnySize, weight->tensor.size(1)}, argument);
    } else {
      return false;
    }
    return true;
  }

  bool take_convolution(std::string_view kind, const Node& node, MethodArgument& argument) {
    const auto weight = weight_of(node.input(1), 3);
    const auto groups = torch::jit::toIValue(node.namedInput("groups"));
    if (!weight || !groups || !groups->isInt()) return false;
    bool is_transposed = false;
    if (kind == "aten::_convolution" || kind == "aten::convolution") {
      const auto flag = torch::jit::toIValue(node.namedInput("transposed"));
      if (!flag || !flag->isBool()) return false;
      is_transposed = flag->toBool();
    }
    const std::int64_t channels =
        is_transposed ? weight->tensor.size(0) : weight->tensor.size(1) * groups->toInt();
    std::vector<std::int64_t> shape(static_cast<std::size_t>(weight->tensor.dim()), kAnySize);
    shape[0] = 1;
    shape[1] = channels;
    note(*weight, std::move(shape), argument);
    return true;
  }

  /// A floating tensor that the model owns, with at least so many dimensions.
  [[nodiscard]] std::optional<Weight> weight_of(const Value* value, std::int64_t dimensions) const {
    Weight weight;
    const auto found = attribute(value, weight.name);
    if (!found || !found->isTensor()) return std::nullopt;
    weight.tensor = found->toTensor();
    const bool fits = weight.tensor.defined() && weight.tensor.is_floating_point() &&
                      weight.tensor.dim() >= dimensions;
    return fits ? std::optional(std::move(weight)) : std::nullopt;
  }

  /// @param name  gets the path from the model to it
  [[nodiscard]] std::optional<c10::IValue> attribute(const Value* value, std::string& name) const {
    if (value == self_) return c10::IValue(module_._ivalue());
    const Node* node = value->node();
    if (node->kind() != c10::prim::GetAttr) return std::nullopt;
    const auto owner = attribute(node->input(), name);
    if (!owner || !owner->isObject()) return std::nullopt;
    const std::string& member = node->s(c10::attr::name);
    name += (name.empty() ? "" : ".") + member;
    return owner->toObject()->getAttr(member);
  }

  static void note(const Weight& weight,
                   std::vector<std::int64_t> shape,
                   MethodArgument& argument) {
    argument.layer = weight.name;
    argument.dtype = core::dtype_name(capture::dtype_of(weight.tensor.scalar_type()));
    argument.shape = std::move(shape);
  }

  const torch::jit::Module& module_;
  const Value* self_;
  std::set<const Value*> seen_;
};

/// What an input of an exported program was exported as.
void describe_exported(const Value* value, MethodArgument& argument) {
  for (const torch::jit::Use& use : value->uses()) {
    if (use.user->kind() != c10::Symbol::fromQualString(exported::kExpectTensor)) continue;
    const auto dtype = torch::jit::toIValue(use.user->input(2));
    const auto least = torch::jit::toIValue(use.user->input(3));
    const auto most = torch::jit::toIValue(use.user->input(4));
    if (!dtype || !least || !most) continue;
    const auto type = static_cast<at::ScalarType>(dtype->toInt());
    argument.dtype = core::dtype_name(capture::dtype_of(type));
    argument.shape = least->toIntVector();
    const std::vector<std::int64_t> bounds = most->toIntVector();
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      if (argument.shape[i] != bounds[i] && argument.shape[i] <= 1) argument.shape[i] = kAnySize;
    }
    if (argument.layer.empty()) argument.layer = "the exported program";
  }
}

MethodArgument describe_argument(const c10::Argument& argument) {
  MethodArgument described{argument.name(), argument.type()->repr_str(), false, {}};
  if (argument.default_value()) {
    std::ostringstream text;
    text << *argument.default_value();
    described.has_default = true;
    described.default_value = text.str();
  }
  return described;
}

/// Adds what the weights of the model tell of its tensors.
void describe_by_weights(const torch::jit::Module& module,
                         const torch::jit::Method& method,
                         ModelDescription& description) {
  std::set<std::string> dtypes;
  for (const at::Tensor& weight : module.parameters()) {
    if (weight.is_floating_point()) {
      dtypes.emplace(core::dtype_name(capture::dtype_of(weight.scalar_type())));
    }
  }
  if (dtypes.size() == 1) description.dtype = *dtypes.begin();
  const auto graph = torch::jit::toGraphFunction(method.function()).graph()->copy();
  torch::jit::Inline(*graph);
  FirstLayers layers(module, graph->inputs().front());
  for (std::size_t i = 0; i < description.arguments.size() && i + 1 < graph->inputs().size(); ++i) {
    MethodArgument& argument = description.arguments[i];
    if (argument.type != "Tensor") continue;
    layers.describe(graph->inputs()[i + 1], argument);
    describe_exported(graph->inputs()[i + 1], argument);
  }
}

}  // namespace

ModelDescription describe_model(const std::filesystem::path& path, const std::string& method) {
  return translated("reading the model", "free some, or take a smaller model", [&] {
    const torch::jit::Module module = load_module(path, at::kCPU);
    ModelDescription description{method, method_names(module), {}};
    const torch::jit::Method found = find_method(module, method, path);
    const c10::FunctionSchema& schema = found.function().getSchema();
    for (std::size_t i = 1; i < schema.arguments().size(); ++i) {
      description.arguments.push_back(describe_argument(schema.arguments()[i]));
    }
    describe_by_weights(module, found, description);
    return description;
  });
}

}  // namespace repro_check::torchscript
