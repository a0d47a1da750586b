// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::OpDivergence;
using comparators::Relation;
using comparators::Report;

struct Counts {
  std::uint64_t origins = 0;
  std::uint64_t propagated = 0;
  std::uint64_t missing = 0;
};

void count(Counts& counts, Relation relation) {
  if (relation == Relation::kPropagated) {
    ++counts.propagated;
  } else if (relation == Relation::kMissing) {
    ++counts.missing;
  } else {
    ++counts.origins;
  }
}

// What lies deeper is one module: a path of a forged dump may be all dots.
constexpr std::size_t kMostLevels = 256;

// Every enclosing module holds what its children hold, so that the tree reads from the top.
std::map<std::string, Counts> counts_by_module(const Report& report) {
  std::map<std::string, Counts> modules;
  const auto add = [&](const OpDivergence& op) {
    const std::string path(module_of(shown_record(op)));
    count(modules[""], op.relation);
    if (path.empty()) return;
    std::size_t dot = path.find('.');
    for (std::size_t level = 1; dot != std::string::npos && level < kMostLevels; ++level) {
      count(modules[path.substr(0, dot)], op.relation);
      dot = path.find('.', dot + 1);
    }
    count(modules[path], op.relation);
  };
  if (report.first_divergence) {
    add(*report.first_divergence);
  }
  std::for_each(report.divergences.begin(), report.divergences.end(), add);
  return modules;
}

std::string counts_text(const Counts& counts) {
  std::string text;
  const auto add = [&](std::uint64_t number, std::string_view what) {
    if (number > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", number, what);
    }
  };
  add(counts.origins, counts.origins == 1 ? "origin" : "origins");
  add(counts.propagated, "propagated");
  add(counts.missing, "missing");
  return text;
}

void add_modules(Page& page, const Report& report) {
  constexpr std::size_t kDeepest = 12;
  bool is_first = true;
  for (const auto& [path, counts] : counts_by_module(report)) {
    const auto depth = static_cast<std::size_t>(std::count(path.begin(), path.end(), '.'));
    const std::size_t indent = path.empty() ? 0 : 2 * std::min(depth + 1, kDeepest);
    const std::size_t dot = path.find_last_of('.');
    const std::string last = dot == std::string::npos ? path : path.substr(dot + 1);
    Line line(std::string(indent, ' '));
    line.put(path.empty() ? "(model)" : last, Role::kPlace);
    page.add(is_first ? "modules" : "", line.put("  " + counts_text(counts)));
    is_first = false;
  }
}

const core::Setting* find_setting(const std::vector<core::Setting>& settings,
                                  const std::string& name) {
  const auto found = std::find_if(
      settings.begin(), settings.end(), [&](const auto& setting) { return setting.name == name; });
  return found == settings.end() ? nullptr : &*found;
}

std::string used_text(const core::Setting* setting) {
  return setting == nullptr ? "(not recorded)" : escape_name(setting->used);
}

// One line a setting of either run: equal values once, others as `baseline -> candidate`.
void add_settings(Page& page, const Report& report) {
  if (report.runs.size() < 2) {
    return;
  }
  const auto& baseline = report.runs[0].manifest.settings;
  const auto& candidate = report.runs[1].manifest.settings;
  std::vector<std::string> names;
  for (const auto* settings : {&baseline, &candidate}) {
    for (const auto& setting : *settings) {
      if (std::find(names.begin(), names.end(), setting.name) == names.end()) {
        names.push_back(setting.name);
      }
    }
  }
  for (const std::string& name : names) {
    const std::string left = used_text(find_setting(baseline, name));
    const std::string right = used_text(find_setting(candidate, name));
    std::string text = escape_name(name);
    text.append(" ").append(left);
    if (left != right) text.append(" -> ").append(right);
    page.prose(&name == names.data() ? "settings" : "", text);
  }
}

void add_runs(Page& page, const Report& report) {
  for (const auto& run : report.runs) {
    const auto& m = run.manifest;
    const std::string where = escape_name(run.location);
    page.prose(&run == report.runs.data() ? "runs" : "",
               fmt::format("{}: {}, device {}, seed {}, determinism {}, dropout {}, rng {}, {}",
                           escape_name(run.name),
                           where.empty() ? escape_name(run.status) : where,
                           escape_name(m.device),
                           m.seed,
                           escape_name(m.determinism),
                           m.disable_dropout ? "off" : "as the model has it",
                           escape_name(m.rng),
                           format_seconds(m.seconds)));
  }
}

}  // namespace

Page verbose_section(const Report& report) {
  Page page;
  add_modules(page, report);
  add_runs(page, report);
  add_settings(page, report);
  return page;
}

}  // namespace repro_check::cmd
