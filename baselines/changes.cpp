// SPDX-License-Identifier: Apache-2.0
#include "baselines/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>

namespace repro_check::baselines {
namespace {

using Named = std::map<std::string, std::string>;

constexpr const char* kNone = "none";

void add_differences(const Named& accepted,
                     const Named& now,
                     const std::string& prefix,
                     std::vector<Change>& changes) {
  for (const auto& [name, value] : accepted) {
    const auto found = now.find(name);
    if (found == now.end()) {
      changes.push_back({prefix + name, value, kNone});
    } else if (found->second != value) {
      changes.push_back({prefix + name, value, found->second});
    }
  }
  for (const auto& [name, value] : now) {
    if (!accepted.contains(name)) changes.push_back({prefix + name, kNone, value});
  }
}

Named named_facts(const Baseline& baseline) {
  Named named;
  for (const Fact& fact : baseline.facts) named.emplace(fact.name, fact.value);
  return named;
}

constexpr auto is_input = [](const auto& tensors) {
  return tensors.kind == core::NamedTensorKind::kInput;
};

Named inputs_of(const Baseline& baseline) {
  Named named;
  for (const core::NamedTensor& tensor : baseline.tensors) {
    if (!is_input(tensor)) continue;
    named.emplace(tensor.name, form_of(tensor) + ':' + core::to_hex(tensor.digest));
  }
  for (const AcceptedTensors& all : baseline.folded) {
    if (!is_input(all)) continue;
    named.emplace("(all of them)", fmt::format("{} {}", all.count, core::to_hex(all.digest)));
  }
  return named;
}

// Shapes alone: what a model owns, whatever the numbers are.
Named weights_of(const Baseline& baseline) {
  Named named;
  for (const core::NamedTensor& tensor : baseline.tensors) {
    if (!is_input(tensor)) named.emplace(tensor.name, form_of(tensor));
  }
  return named;
}

Named named_modules(const Baseline& baseline) {
  Named named;
  for (const AcceptedModule& module : baseline.modules) {
    named.emplace(module.path, core::to_hex(module.digest));
  }
  return named;
}

std::string module_changes(const Baseline& accepted, const Baseline& now) {
  std::vector<Change> changes;
  add_differences(named_modules(accepted), named_modules(now), "", changes);
  return fmt::format("{} of {} modules change, first {}",
                     changes.size(),
                     std::max(accepted.modules.size(), now.modules.size()),
                     changes.empty() ? "none" : changes.front().name);
}

std::string place_text(const std::string& line) {
  const core::OpRecord op = op_of(line).record;
  const std::string& module = op.site->module_path;
  return module.empty() ? op.op->full_name() : fmt::format("{} ({})", op.op->full_name(), module);
}

}  // namespace

std::vector<Change> stale_reasons(const Baseline& accepted, const Baseline& now) {
  std::vector<Change> changes;
  if (accepted.model != now.model) {
    add_differences(weights_of(accepted), weights_of(now), "model ", changes);
    if (changes.empty()) {
      changes.push_back({"model", core::to_hex(accepted.model), core::to_hex(now.model)});
    }
  }
  if (accepted.config != now.config) {
    add_differences(named_facts(accepted), named_facts(now), "config ", changes);
  }
  add_differences(inputs_of(accepted), inputs_of(now), "input ", changes);
  return changes;
}

std::vector<Change> platform_changes(const Platform& accepted, const Platform& now) {
  std::vector<Change> changes;
  for (const Fact& field : now.fields) {
    const auto found = std::ranges::find(accepted.fields, field.name, &Fact::name);
    const std::string before = found == accepted.fields.end() ? kNone : found->value;
    if (before != field.value) changes.push_back({field.name, before, field.value});
  }
  return changes;
}

bool same_results(const Baseline& accepted, const Baseline& now) {
  return accepted.ops == now.ops && accepted.modules == now.modules;
}

bool same_weights(const Baseline& accepted, const Baseline& now) {
  const auto without_inputs = [](auto tensors) {
    std::erase_if(tensors, is_input);
    return tensors;
  };
  return without_inputs(accepted.tensors) == without_inputs(now.tensors) &&
         without_inputs(accepted.folded) == without_inputs(now.folded);
}

std::string describe_changes(const Baseline& accepted, const Baseline& now) {
  if (!accepted.modules.empty() || !now.modules.empty()) return module_changes(accepted, now);
  const std::size_t shorter = std::min(accepted.ops.size(), now.ops.size());
  std::size_t first = 0;
  while (first < shorter && accepted.ops[first] == now.ops[first]) ++first;
  if (first == accepted.ops.size() && first == now.ops.size()) return "no operator changes";
  const std::string op = place_text(first < now.ops.size() ? now.ops[first] : accepted.ops[first]);
  if (accepted.ops.size() != now.ops.size()) {
    return fmt::format(
        "{} -> {} operators, first change {}", accepted.ops.size(), now.ops.size(), op);
  }
  std::size_t count = 0;
  for (std::size_t i = first; i < shorter; ++i) {
    if (accepted.ops[i] != now.ops[i]) ++count;
  }
  return fmt::format("{} of {} operators change, first {}", count, shorter, op);
}

}  // namespace repro_check::baselines
