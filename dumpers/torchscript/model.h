// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "configs/spec/run_config.h"

namespace repro_check::torchscript {

struct LoadedModel {
  torch::jit::Module module;
  std::vector<std::string> warnings;  ///< what was asked for and could not be done
};

/// A module, fresh from the file, on the device.
/// @throws core::Error{kUsage} when it is missing or no TorchScript, saying what it is;
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

}  // namespace repro_check::torchscript
