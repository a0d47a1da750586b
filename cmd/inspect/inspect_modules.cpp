// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <ranges>
#include <string>
#include <unordered_map>
#include <vector>

#include "cmd/inspect/inspect_list.h"
#include "cmd/render/text.h"

namespace repro_check::cmd {
namespace {

/// Of operators, by what their outputs hold.
struct Tally {
  std::uint64_t operators = 0;
  std::uint64_t nan = 0;      ///< with a NaN in an output
  std::uint64_t inf = 0;      ///< with an infinity
  std::uint64_t unknown = 0;  ///< with an output in which nobody counted them

  void add(const Tally& other) {
    operators += other.operators;
    nan += other.nan;
    inf += other.inf;
    unknown += other.unknown;
  }
};

struct Module {
  std::string path;   ///< empty for the root
  std::string label;  ///< its last part
  std::string type = {};
  std::size_t depth = 0;
  Tally own = {};    ///< called by the module itself
  Tally total = {};  ///< and by those inside it
  std::vector<Module*> inside = {};
};

Tally tally_of(const core::OpRecord& op) {
  Tally tally{1};
  for (const core::TensorRecord& tensor : op.tensors) {
    if (tensor.role != core::TensorRole::kOutput) continue;
    const auto counts = tensor.non_finite();
    if (tensor.state == core::ContentState::kHashed && !counts) tally.unknown = 1;
    if (counts && counts->nans > 0) tally.nan = 1;
    if (counts && counts->infs() > 0) tally.inf = 1;
  }
  return tally;
}

class ModuleTree {
 public:
  ModuleTree() { by_path_.emplace("", &modules_.emplace_back()); }

  void see(const core::OpRecord& op) {
    Module& module = find(op.site ? op.site->module_path : "");
    if (op.site && module.type.empty()) module.type = op.site->module_type;
    module.own.add(tally_of(op));
  }

  /// The root first, each before those inside it.
  std::vector<Module*> finish() {
    std::vector<Module*> open{&modules_.front()};
    std::vector<Module*> order;
    while (!open.empty()) {
      order.push_back(open.back());
      open.pop_back();
      const std::vector<Module*>& inside = order.back()->inside;
      open.insert(open.end(), inside.rbegin(), inside.rend());
    }
    for (Module* module : std::views::reverse(order)) {
      module->total.add(module->own);
      for (const Module* inner : module->inside) module->total.add(inner->total);
    }
    return order;
  }

 private:
  Module& find(const std::string& path) {
    /// What lies deeper is one module: a path of a damaged dump may be all dots.
    constexpr std::size_t kDeepest = 256;
    const auto found = by_path_.find(path);
    if (found != by_path_.end()) return *found->second;
    Module* at = &modules_.front();
    std::size_t begin = 0;
    while (at->depth < kDeepest) {
      const std::size_t dot = at->depth + 1 < kDeepest ? path.find('.', begin) : std::string::npos;
      Module*& place = by_path_[path.substr(0, dot)];
      if (place == nullptr) {
        place = &modules_.emplace_back(
            Module{path.substr(0, dot), path.substr(begin, dot - begin), {}, at->depth + 1});
        at->inside.push_back(place);
      }
      at = place;
      if (dot == std::string::npos) break;
      begin = dot + 1;
    }
    return *at;
  }

  std::deque<Module> modules_;
  std::unordered_map<std::string, Module*> by_path_;
};

std::string line_of(const Module& module, Form form) {
  const Tally& total = module.total;
  const std::string path = module.path.empty() ? "(root)" : escape_name(module.path);
  const std::string type = escape_name(module.type);
  if (form == Form::kTabs) {
    // Nothing is said of NaN where nobody counted.
    const auto known = [&](std::uint64_t count) {
      return count == 0 && total.unknown > 0 ? "?" : std::to_string(count);
    };
    return fmt::format("{}\t{}\t{}\t{}\t", path, type, total.operators, module.own.operators) +
           known(total.nan) + "\t" + known(total.inf) + "\n";
  }
  constexpr std::size_t kMostIndent = 32;
  std::string text =
      fmt::format("{:>9}  {:{}}", total.operators, "", 2 * std::min(module.depth, kMostIndent));
  text += module.path.empty() ? path : escape_name(module.label);
  if (!type.empty()) text += " (" + type + ")";
  if (total.nan > 0) text += fmt::format("  NaN in {}", total.nan);
  if (total.inf > 0) text += fmt::format("  Inf in {}", total.inf);
  if (total.unknown > 0) text += fmt::format("  unknown in {}", total.unknown);
  return text + "\n";
}

Json module_json(const Module& module) {
  const auto known = [&](std::uint64_t count) {
    return count == 0 && module.total.unknown > 0 ? Json(nullptr) : Json(count);
  };
  return {{"path", json_text(module.path)},
          {"type", json_text(module.type)},
          {"depth", module.depth},
          {"operators", module.total.operators},
          {"own_operators", module.own.operators},
          {"nan", known(module.total.nan)},
          {"inf", known(module.total.inf)},
          {"uncounted", module.total.unknown}};
}

}  // namespace

void list_modules(const core::DumpSource& dump, Form form, const TextSink& sink) {
  ModuleTree tree;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord op = dump.op(i);
    if (!core::is_returned(op)) tree.see(op);
  }
  RowDocument document(inspect_document(dump), "modules", form, sink);
  for (const Module* module : tree.finish()) {
    document.add(is_json(form) ? json_piece(module_json(*module), false) : line_of(*module, form));
  }
  document.finish();
}

}  // namespace repro_check::cmd
