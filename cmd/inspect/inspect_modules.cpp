// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <ranges>
#include <string>
#include <unordered_map>
#include <vector>

#include "cmd/inspect/inspect_json.h"
#include "cmd/inspect/inspect_rows.h"
#include "cmd/inspect/inspect_views.h"
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
  std::string type;
  std::size_t depth = 0;
  Tally own;    ///< called by the module itself
  Tally total;  ///< and by those inside it
  std::vector<Module*> inside;
};

Tally tally_of(const core::OpRecord& op) {
  Tally tally{1};
  for (const core::TensorRecord& tensor : op.tensors) {
    if (tensor.role != core::TensorRole::kOutput) continue;
    const auto counts = tensor.non_finite();
    if (tensor.state == core::ContentState::kHashed && !counts) tally.unknown = 1;
    if (!counts) continue;
    if (counts->nans > 0) tally.nan = 1;
    if (counts->infs() > 0) tally.inf = 1;
  }
  return tally;
}

/// What lies deeper is one module: a path of a damaged dump may be all dots.
constexpr std::size_t kDeepest = 256;

class ModuleTree {
 public:
  ModuleTree() { by_path_.emplace("", &modules_.emplace_back()); }

  void see(const core::OpRecord& op) {
    Module& module = find(op.site ? op.site->module_path : "");
    if (op.site && module.type.empty()) module.type = op.site->module_type;
    module.own.add(tally_of(op));
  }

  /// The root first, each before those inside it.
  std::vector<const Module*> finish() {
    std::vector<const Module*> order;
    sum_up(modules_.front(), order);
    return order;
  }

 private:
  Module& find(const std::string& path) {
    const auto found = by_path_.find(path);
    if (found != by_path_.end()) return *found->second;
    Module* at = &modules_.front();
    std::size_t begin = 0;
    for (std::size_t depth = 1; depth < kDeepest; ++depth) {
      const std::size_t dot = path.find('.', begin);
      if (dot == std::string::npos) break;
      at = &child(*at, path.substr(0, dot), begin);
      begin = dot + 1;
    }
    return child(*at, path, begin);
  }

  /// @param begin  where its own name begins in `path`
  Module& child(Module& parent, const std::string& path, std::size_t begin) {
    Module*& place = by_path_[path];
    if (place != nullptr) return *place;
    place = &modules_.emplace_back();
    place->path = path;
    place->label = path.substr(begin);
    place->depth = parent.depth + 1;
    parent.inside.push_back(place);
    return *place;
  }

  static void sum_up(Module& root, std::vector<const Module*>& order) {
    std::vector<Module*> open{&root};
    std::vector<Module*> preorder;
    while (!open.empty()) {
      Module* module = open.back();
      open.pop_back();
      preorder.push_back(module);
      open.insert(open.end(), module->inside.rbegin(), module->inside.rend());
    }
    for (Module* module : std::views::reverse(preorder)) {
      module->total.add(module->own);
      for (const Module* inner : module->inside) module->total.add(inner->total);
    }
    order.assign(preorder.begin(), preorder.end());
  }

  std::deque<Module> modules_;
  std::unordered_map<std::string, Module*> by_path_;
};

constexpr std::size_t kMostIndent = 32;

/// Nothing is said of NaN where nobody counted.
std::string count_text(std::uint64_t count, const Tally& total) {
  if (count == 0 && total.unknown > 0) return "?";
  return std::to_string(count);
}

std::string module_state(const Module& module) {
  std::string text;
  if (module.total.nan > 0) text += fmt::format("  NaN in {}", module.total.nan);
  if (module.total.inf > 0) text += fmt::format("  Inf in {}", module.total.inf);
  if (module.total.unknown > 0) text += fmt::format("  unknown in {}", module.total.unknown);
  return text;
}

std::string line_text(const Module& module, ListForm form) {
  const std::string path = module.path.empty() ? "(root)" : escape_name(module.path);
  if (form == ListForm::kTabs) {
    return fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n",
                       path,
                       escape_name(module.type),
                       module.total.operators,
                       module.own.operators,
                       count_text(module.total.nan, module.total),
                       count_text(module.total.inf, module.total));
  }
  return fmt::format("{:>9}  {}{}{}{}\n",
                     module.total.operators,
                     std::string(2 * std::min(module.depth, kMostIndent), ' '),
                     module.path.empty() ? path : escape_name(module.label),
                     module.type.empty() ? "" : " (" + escape_name(module.type) + ")",
                     module_state(module));
}

OrderedJson module_json(const Module& module) {
  const auto known = [&](std::uint64_t count) {
    return count == 0 && module.total.unknown > 0 ? OrderedJson(nullptr) : OrderedJson(count);
  };
  return {{"path", clean_utf8(module.path)},
          {"type", clean_utf8(module.type)},
          {"depth", module.depth},
          {"operators", module.total.operators},
          {"own_operators", module.own.operators},
          {"nan", known(module.total.nan)},
          {"inf", known(module.total.inf)},
          {"uncounted", module.total.unknown}};
}

}  // namespace

void list_modules(const core::DumpSource& dump, ListForm form, const TextSink& sink) {
  ModuleTree tree;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord op = dump.op(i);
    if (!core::is_returned(op)) tree.see(op);
  }
  RowDocument document(inspect_document(dump.location()), "modules", form, sink);
  for (const Module* module : tree.finish()) {
    if (document.is_json()) {
      document.add(module_json(*module));
    } else {
      document.add_line(line_text(*module, form));
    }
  }
  document.finish();
}

}  // namespace repro_check::cmd
