// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/names.h"

namespace repro_check::comparators {

using configs::NameRewrite;

NameRewriter::Name NameRewriter::operator_name(const core::OperatorInfo& op) const {
  const std::string full = op.full_name();
  if (map_ == nullptr) return {full, std::nullopt, false};
  for (std::size_t i = 0; i < map_->entries.size(); ++i) {
    const NameRewrite& entry = map_->entries[i];
    if (entry.kind != NameRewrite::Kind::kOperator) continue;
    auto text = entry.pattern.rewrite(full, entry.replacement);
    if (!text && !op.overload.empty()) {
      text = entry.pattern.rewrite(op.name, entry.replacement);
      if (text) *text += "." + op.overload;
    }
    if (text) return {*text, i, *text != full};
  }
  return {full, std::nullopt, false};
}

NameRewriter::Name NameRewriter::module_path(const std::string& path) const {
  if (without_modules_) return {{}, std::nullopt, false};
  for (std::size_t i = 0; i < entries(); ++i) {
    const NameRewrite& entry = map_->entries[i];
    if (entry.kind != NameRewrite::Kind::kModule) continue;
    if (const auto text = entry.pattern.rewrite(path, entry.replacement)) {
      return {*text, i, *text != path};
    }
  }
  if (renames_ != nullptr) {
    const auto renamed = renames_->find(path);
    if (renamed != renames_->end()) return {renamed->second, std::nullopt, true};
  }
  return {path, std::nullopt, false};
}

NameRewriter::Name NameRewriter::tensor_name(const std::string& name) const {
  const std::size_t dot = name.rfind('.');
  const std::string owner = dot == std::string::npos ? std::string() : name.substr(0, dot);
  const std::string own = dot == std::string::npos ? name : name.substr(dot + 1);
  Name module = module_path(owner);
  module.text += (module.text.empty() ? "" : ".") + own;
  return module;
}

std::string NameRewriter::module_of(const core::OpRecord& head) const {
  return module_path(head.site ? head.site->module_path : std::string()).text;
}

}  // namespace repro_check::comparators
