// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "configs/spec/run_config.h"

namespace repro_check::torchscript {

struct LoadedModel {
  torch::jit::Module module;
  std::vector<std::string> warnings;  ///< what was asked for and could not be done
  bool is_exported = false;           ///< of torch.export
};

/// A module, fresh from the file, on the device.
/// @throws core::Error{kUsage} when it is missing or neither TorchScript nor of torch.export,
/// saying what it is;
///         core::Error{kRunFailed} when memory runs out
torch::jit::Module load_module(const std::filesystem::path& path, at::Device device);

/// load_module, then the mode, the weights of another version and the dtype that the run asks for.
/// @throws core::Error{kUsage} also when tensors of the other version cannot stand in this one
LoadedModel load_model(const configs::RunSpec& run, at::Device device);

/// Which modules are in training mode, by their own flags: `on in 2 of 40 modules: a, b.c`.
std::string training_flags(const torch::jit::Module& module);

std::vector<std::string> method_names(const torch::jit::Module& module);

/// @throws core::Error{kUsage} with the near miss
torch::jit::Method find_method(const torch::jit::Module& module,
                               const std::string& name,
                               const std::filesystem::path& path);

/// A parameter, a buffer or another tensor attribute of a module.
struct OwnedTensor {
  std::string name;  ///< `encoder.3.weight`; a module that stands twice gives two names
  at::Tensor tensor;
  std::size_t memory = 0;  ///< number of the first tensor that lies in the same storage
};

/// In the order of the model: a module's own, then those of its children. What lists, dictionaries
/// and TorchScript classes hold is not among them, nor are constants of a graph.
std::vector<OwnedTensor> owned_tensors(const torch::jit::Module& module);

/// `float32 [4, 4]`.
std::string describe_tensor(const at::Tensor& tensor);

}  // namespace repro_check::torchscript
