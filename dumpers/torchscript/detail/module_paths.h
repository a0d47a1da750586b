// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace repro_check::torchscript {

struct ModuleName {
  std::string path;  ///< as named_modules() has it: a module found twice keeps its first name
  std::string type;  ///< class name without its package
};

/// Names of the modules of one loaded model.
class ModulePaths {
 public:
  explicit ModulePaths(const torch::jit::Module& root);

  /// The module at the end of a chain of attributes from the root; of attributes that are no module
  /// (a list, a TorchScript class) the module that holds them.
  [[nodiscard]] ModuleName resolve(const std::vector<std::string>& chain) const;

 private:
  void visit(const torch::jit::Module& module, const std::string& path);

  torch::jit::Module root_;
  std::unordered_map<const void*, std::string> first_path_;
};

}  // namespace repro_check::torchscript
