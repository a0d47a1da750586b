// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/module_paths.h"

namespace repro_check::torchscript {

ModulePaths::ModulePaths(const torch::jit::Module& root) : root_(root) { visit(root, ""); }

void ModulePaths::visit(const torch::jit::Module& module, const std::string& path) {
  if (!first_path_.emplace(module._ivalue().get(), path).second) return;
  for (const auto& child : module.named_children()) {
    visit(child.value, path.empty() ? child.name : path + "." + child.name);
  }
}

ModuleName ModulePaths::resolve(const std::vector<std::string>& chain) const {
  torch::jit::Module module = root_;
  for (const std::string& name : chain) {
    if (!module.hasattr(name)) break;
    const c10::IValue value = module.attr(name);
    if (!value.isModule()) break;
    module = value.toModule();
  }
  const auto known = first_path_.find(module._ivalue().get());
  const auto type = module.type()->name();
  return {known == first_path_.end() ? std::string() : known->second,
          type ? type->name() : std::string()};
}

}  // namespace repro_check::torchscript
