// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/model.h"

#include <dlfcn.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <unordered_map>

#include "core/digest/digest.h"
#include "core/error.h"
#include "dumpers/torchscript/failures.h"
#include "dumpers/torchscript/model_file.h"
#include "dumpers/torchscript/tensors.h"
#include "dumpers/torchscript/weights.h"

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
  if (reached > 0) return;
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

}  // namespace

torch::jit::Module load_module(const std::filesystem::path& path, at::Device device) {
  require_torchscript(path);
  try {
    return torch::jit::load(path.string(), device);
  } catch (const std::exception& error) {
    throw load_failure(path, error);
  }
}

LoadedModel load_model(const configs::RunSpec& run, at::Device device) {
  LoadedModel model{load_module(run.model.path, device), {}};
  set_mode(run, model);
  if (run.model.weights_from) {
    const torch::jit::Module other = load_module(*run.model.weights_from, at::kCPU);
    take_weights(model.module, run.model.path, other, *run.model.weights_from, run.model.weights);
  }
  if (run.dtype) {
    const auto dtype = to_scalar_type(*run.dtype);
    if (!dtype || !core::is_floating(*run.dtype)) {
      throw core::Error(core::ErrorKind::kUsage,
                        "dtype \"" + std::string(core::dtype_name(*run.dtype)) +
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
  if (with_mode == 0) return "no flags";
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
  throw core::Error(core::ErrorKind::kUsage,
                    path.string() + ": the model has no method \"" + name + "\"" + others,
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
        {"extension." + library.filename().string(), core::to_hex(digest_file(library))});
  }
  return facts;
}

}  // namespace repro_check::torchscript
