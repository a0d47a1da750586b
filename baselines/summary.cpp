// SPDX-License-Identifier: Apache-2.0
#include "baselines/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "core/trace/lane.h"
#include "core/trace/run_manifest.h"

namespace repro_check::baselines {
namespace {

// Sorted keys: the order in which a configuration was resolved is nobody's business.
using Json = nlohmann::json;

constexpr std::string_view kUnknown = "unknown";

// Not the name of the CPU: machines of one name compute differently, and of two names alike.
constexpr auto kFacts = std::to_array<const char*>({"os.machine",
                                                    "cpu.capability",
                                                    "libtorch.version",
                                                    "compiler",
                                                    "blas",
                                                    "mkl",
                                                    "onednn",
                                                    "cuda",
                                                    "cudnn"});
constexpr auto kProbes = std::to_array<const char*>(
    {"probe.convolution", "probe.matmul", "probe.softmax", "probe.exp", "probe.sum"});

std::string threads_of(const core::RunManifest& manifest) {
  const std::string* found = core::used_setting(manifest, "threads.intra_op");
  return found == nullptr ? std::string(kUnknown) : *found;
}

std::string value_of(const Platform& platform, std::string_view name) {
  const auto found = std::ranges::find(platform.fields, name, &Fact::name);
  return found == platform.fields.end() ? std::string(kUnknown) : found->value;
}

bool is_tensors_only(const core::Value& value) {
  if (std::holds_alternative<core::TensorSlot>(value.data)) return true;
  const auto* list = std::get_if<core::ValueList>(&value.data);
  return list != nullptr && std::ranges::all_of(list->items, is_tensors_only);
}

// Contents of inputs have lines of their own: where they come from does not matter.
void forget_sources(Json& value) {
  if (value.is_array()) {
    for (Json& item : value) forget_sources(item);
    return;
  }
  if (!value.is_object()) return;
  for (const char* kind : {"generate", "npy", "torch", "hdf5"}) {
    if (!value.contains(kind)) continue;
    Json tensor = Json::object();
    if (value.contains("name")) tensor["name"] = value["name"];
    tensor["kind"] = "tensor";
    value = std::move(tensor);
    return;
  }
  for (auto& [key, member] : value.items()) forget_sources(member);
}

// What of a resolved run numbers can depend on: not where things lie, nor how much is stored.
std::vector<Fact> facts_of(const std::string& configuration) {
  Json run = Json::parse(configuration, nullptr, false);
  if (!run.is_object()) return {};
  run.erase("name");
  run.erase("recorder");
  run.erase("extensions");
  if (run.contains("model") && run["model"].is_object()) {
    // Which numbers the weights are is looked at beside this.
    for (const char* key : {"path", "weights_from", "weights"}) run["model"].erase(key);
  }
  if (run.contains("calls")) forget_sources(run["calls"]);
  Json dump = run.value("dump", Json());
  run.erase("dump");
  for (const char* key : {"depth", "include", "exclude"}) {
    if (dump.is_object() && dump.contains(key)) run["dump"][key] = dump[key];
  }
  std::vector<Fact> facts;
  const Json flat = run.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    facts.push_back({pointer, value.dump(-1, ' ', true, Json::error_handler_t::replace)});
  }
  return facts;
}

core::Digest digest_of_facts(const std::vector<Fact>& facts) {
  std::string text;
  for (const Fact& fact : facts) text += fact.name + '=' + fact.value + '\n';
  return digest_of(text);
}

// What the model is, without the numbers in it: those may be what went wrong.
core::Digest model_digest(const core::RunManifest& manifest) {
  std::string text = manifest.model_method + '\n';
  for (core::NamedTensor tensor : manifest.named_tensors) {
    if (tensor.kind == core::NamedTensorKind::kInput) continue;
    tensor.digest = {};
    text += to_line(tensor) + '\n';
  }
  return digest_of(text);
}

bool is_returned_line(const std::string& line) { return core::is_returned(op_of(line).record); }

void fold_tensors(Baseline& baseline) {
  using enum core::NamedTensorKind;
  for (const core::NamedTensorKind kind : {kInput, kParameter, kBuffer}) {
    const auto is_kind = [&](const core::NamedTensor& tensor) { return tensor.kind == kind; };
    const auto count = std::ranges::count_if(baseline.tensors, is_kind);
    if (std::cmp_less_equal(count, kMostLines)) continue;
    std::string text;
    for (const core::NamedTensor& tensor : baseline.tensors) {
      if (is_kind(tensor)) text += to_line(tensor) + '\n';
    }
    std::erase_if(baseline.tensors, is_kind);
    baseline.folded.push_back({kind, static_cast<std::uint64_t>(count), digest_of(text)});
  }
}

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

std::optional<Platform> platform_of(const core::RunManifest& manifest) {
  Platform platform;
  for (const char* name : kFacts) {
    const std::string* value = core::environment_fact(manifest, name);
    platform.fields.push_back({name, value != nullptr ? *value : std::string(kUnknown)});
  }
  platform.fields.push_back({"device", manifest.device});
  platform.fields.push_back({"threads", threads_of(manifest)});
  for (const char* name : kProbes) {
    const std::string* value = core::environment_fact(manifest, name);
    if (value == nullptr) return std::nullopt;
    platform.fields.push_back({name, *value});
  }
  return platform;
}

std::string describe(const Platform& platform) {
  return fmt::format("{} {} libtorch-{} {} threads-{}",
                     value_of(platform, "os.machine"),
                     value_of(platform, "cpu.capability"),
                     value_of(platform, "libtorch.version"),
                     value_of(platform, "device"),
                     value_of(platform, "threads"));
}

std::string scalars_of(const core::OpRecord& record) {
  constexpr std::size_t kLongest = 64;
  if (std::ranges::all_of(record.results, is_tensors_only)) return {};
  std::string text;
  const bool has_paths =
      core::is_returned(record) && record.arguments.size() == record.results.size();
  for (std::size_t i = 0; i < record.results.size(); ++i) {
    if (!text.empty()) text += ' ';
    if (has_paths) text += record.arguments[i].name + '=';
    text += core::to_text(record.results[i]);
  }
  return text.size() <= kLongest ? text : "xxh3:" + core::to_hex(digest_of(text));
}

std::string to_line(const core::OpRecord& record) { return to_line(record, scalars_of(record)); }

Baseline summarise(const core::DumpSource& dump,
                   const Platform& platform,
                   const std::string& gate,
                   const std::string& policy) {
  const core::RunManifest& manifest = dump.manifest();
  Baseline baseline;
  baseline.gate = gate;
  baseline.model = model_digest(manifest);
  baseline.facts = facts_of(manifest.configuration);
  baseline.config = digest_of_facts(baseline.facts);
  baseline.policy = policy;
  baseline.operators = dump.op_count();
  baseline.platform = platform;
  baseline.root = manifest.trace.index_digest;
  baseline.tensors = manifest.named_tensors;
  std::ranges::stable_sort(baseline.tensors, {}, &core::NamedTensor::kind);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::string>> lanes;
  for (std::uint64_t i = 0; i < baseline.operators; ++i) {
    const core::OpRecord record = dump.op(i);
    lanes[{record.rank, record.lane}].push_back(to_line(record));
  }
  baseline.ops.reserve(baseline.operators);
  for (auto& [place, lines] : lanes) {
    if (core::is_unordered(place.second)) std::ranges::sort(lines);
    std::ranges::move(lines, std::back_inserter(baseline.ops));
  }
  return baseline;
}

Baseline fold(Baseline baseline) {
  fold_tensors(baseline);
  return baseline.ops.size() <= kMostLines ? baseline : fold_operators(std::move(baseline));
}

Baseline fold_operators(Baseline baseline) {
  std::map<std::string, std::pair<std::uint64_t, std::string>> modules;
  for (const std::string& line : baseline.ops) {
    const core::OpRecord record = op_of(line).record;
    // A path no module has: baselines made before returned values were recorded keep their modules.
    auto& [operators, lines] =
        modules[core::is_returned(record) ? record.op->name : record.site->module_path];
    ++operators;
    lines += line + '\n';
  }
  baseline.ops.clear();
  for (const auto& [path, module] : modules) {
    baseline.modules.push_back({path, module.first, digest_of(module.second)});
  }
  return baseline;
}

bool holds_returned(const Baseline& baseline) {
  return std::ranges::any_of(baseline.ops, is_returned_line) ||
         std::ranges::any_of(baseline.modules, [](const AcceptedModule& module) {
           return module.path == core::kReturnedOperator;
         });
}

Baseline without_returned(Baseline baseline) {
  std::erase_if(baseline.ops, is_returned_line);
  return baseline;
}

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
