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

Named facts_of(const Baseline& baseline) {
  Named named;
  for (const Fact& fact : baseline.facts) named.emplace(fact.name, fact.value);
  return named;
}

std::string form_of(const core::NamedTensor& tensor) {
  std::string line = to_line(tensor);
  return line.substr(line.rfind(' ') + 1);
}

bool is_input(const core::NamedTensor& tensor) {
  return tensor.kind == core::NamedTensorKind::kInput;
}

Named inputs_of(const Baseline& baseline) {
  Named named;
  for (const core::NamedTensor& tensor : baseline.tensors) {
    if (is_input(tensor)) named.emplace(tensor.name, form_of(tensor));
  }
  for (const AcceptedTensors& all : baseline.folded) {
    if (all.kind != core::NamedTensorKind::kInput) continue;
    named.emplace("(all of them)", fmt::format("{} {}", all.count, core::to_hex(all.digest)));
  }
  return named;
}

// Shapes alone: what a model owns, whatever the numbers are.
Named weights_of(const Baseline& baseline) {
  Named named;
  for (const core::NamedTensor& tensor : baseline.tensors) {
    if (is_input(tensor)) continue;
    const std::string form = form_of(tensor);
    named.emplace(tensor.name, form.substr(0, form.rfind(':')));
  }
  return named;
}

std::string place_text(const AcceptedOp& op) {
  return op.module.empty() ? op.name : fmt::format("{} ({})", op.name, op.module);
}

std::string module_changes(const Baseline& accepted, const Baseline& now) {
  Named before;
  Named after;
  for (const AcceptedModule& module : accepted.modules) {
    before.emplace(module.path, core::to_hex(module.digest));
  }
  for (const AcceptedModule& module : now.modules) {
    after.emplace(module.path, core::to_hex(module.digest));
  }
  std::vector<Change> changes;
  add_differences(before, after, "", changes);
  return fmt::format("{} of {} modules change, first {}",
                     changes.size(),
                     std::max(before.size(), after.size()),
                     changes.empty() ? "none" : changes.front().name);
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
    add_differences(facts_of(accepted), facts_of(now), "config ", changes);
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
  const auto weights = [](const Baseline& baseline) {
    std::vector<core::NamedTensor> tensors = baseline.tensors;
    std::erase_if(tensors, is_input);
    return tensors;
  };
  const auto folded = [](const Baseline& baseline) {
    std::vector<AcceptedTensors> all = baseline.folded;
    std::erase_if(all, [](const AcceptedTensors& tensors) {
      return tensors.kind == core::NamedTensorKind::kInput;
    });
    return all;
  };
  return weights(accepted) == weights(now) && folded(accepted) == folded(now);
}

std::string describe_changes(const Baseline& accepted, const Baseline& now) {
  if (!accepted.modules.empty() || !now.modules.empty()) return module_changes(accepted, now);
  const std::size_t shorter = std::min(accepted.ops.size(), now.ops.size());
  std::size_t first = 0;
  while (first < shorter && accepted.ops[first] == now.ops[first]) ++first;
  if (first == accepted.ops.size() && first == now.ops.size()) return "no operator changes";
  const AcceptedOp& op = first < now.ops.size() ? now.ops[first] : accepted.ops[first];
  if (accepted.ops.size() != now.ops.size()) {
    return fmt::format(
        "{} -> {} operators, first change {}", accepted.ops.size(), now.ops.size(), place_text(op));
  }
  std::size_t count = 0;
  for (std::size_t i = first; i < shorter; ++i) {
    if (accepted.ops[i] != now.ops[i]) ++count;
  }
  return fmt::format("{} of {} operators change, first {}", count, shorter, place_text(op));
}

}  // namespace repro_check::baselines
