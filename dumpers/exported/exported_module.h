// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <string>
#include <vector>

namespace repro_check::exported {

struct ExportedModule {
  torch::jit::Module module;
  std::vector<std::string> warnings;  ///< what Python checks of the inputs, and this does not
};

/// A program of `torch.export.save` as a TorchScript module: its parameters and buffers under their
/// names, and a method `forward` that calls the operators of its graph. Nothing of the file is
/// executed, and no pickle in it is read. The module of the model that a node is of is its scope
/// (mark_of()), its place the Python stack, as a traced one has it.
/// @param device  for all tensors, whatever the file names
/// @throws core::Error{kUsage} naming the file: where it is damaged, or holds what is not known
ExportedModule load_exported(const std::filesystem::path& file, at::Device device);

}  // namespace repro_check::exported
