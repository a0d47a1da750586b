// SPDX-License-Identifier: Apache-2.0
#include "baselines/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "baselines/detail/tokens.h"
#include "core/trace/lane.h"

namespace repro_check::baselines {
namespace {

// Sorted keys: the order in which a configuration was resolved is nobody's business.
using Json = nlohmann::json;

bool is_tensors_only(const core::Value& value) {
  if (std::holds_alternative<core::TensorSlot>(value.data)) return true;
  const auto* list = std::get_if<core::ValueList>(&value.data);
  return list != nullptr && std::ranges::all_of(list->items, is_tensors_only);
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
  return text.size() <= kLongest ? text : "xxh3:" + core::to_hex(detail::digest_text(text));
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

core::Digest digest_of(const std::vector<Fact>& facts) {
  std::string text;
  for (const Fact& fact : facts) text += fact.name + '=' + fact.value + '\n';
  return detail::digest_text(text);
}

// What the model is, without the numbers in it: those may be what went wrong.
core::Digest model_digest(const core::RunManifest& manifest) {
  std::string text = manifest.model_method + '\n';
  for (core::NamedTensor tensor : manifest.named_tensors) {
    if (tensor.kind == core::NamedTensorKind::kInput) continue;
    tensor.digest = {};
    text += to_line(tensor) + '\n';
  }
  return detail::digest_text(text);
}

bool is_returned(const AcceptedOp& op) { return op.name == core::kReturnedOperator; }

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
    baseline.folded.push_back({kind, static_cast<std::uint64_t>(count), detail::digest_text(text)});
  }
}

}  // namespace

AcceptedOp summarise(const core::OpRecord& record) {
  AcceptedOp op;
  op.phase = record.phase;
  if (record.op != nullptr) op.name = record.op->full_name();
  if (record.site != nullptr) op.module = record.site->module_path;
  op.step = record.step;
  op.rank = record.rank;
  op.lane = record.lane;
  op.depth = record.depth;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role != core::TensorRole::kOutput) continue;
    AcceptedOutput output{tensor.slot, tensor.dtype, tensor.shape, tensor.state, {}};
    if (tensor.state == core::ContentState::kHashed) output.digest = tensor.digest;
    op.outputs.push_back(std::move(output));
  }
  op.scalars = scalars_of(record);
  return op;
}

Baseline summarise_unfolded(const core::DumpSource& dump,
                            const Platform& platform,
                            const std::string& gate,
                            const std::string& policy) {
  const core::RunManifest& manifest = dump.manifest();
  Baseline baseline;
  baseline.gate = gate;
  baseline.model = model_digest(manifest);
  baseline.facts = facts_of(manifest.configuration);
  baseline.config = digest_of(baseline.facts);
  baseline.policy = policy;
  baseline.operators = dump.op_count();
  baseline.platform = platform;
  baseline.root = manifest.trace.index_digest;
  baseline.tensors = manifest.named_tensors;
  std::ranges::stable_sort(baseline.tensors, {}, &core::NamedTensor::kind);
  baseline.ops.reserve(baseline.operators);
  for (std::uint64_t i = 0; i < baseline.operators; ++i) {
    baseline.ops.push_back(summarise(dump.op(i)));
  }
  return baseline;
}

Baseline in_order_of_lanes(Baseline baseline) {
  std::ranges::stable_sort(baseline.ops, {}, [](const AcceptedOp& op) {
    return std::tuple(op.rank, op.lane, core::is_unordered(op.lane) ? to_line(op) : std::string());
  });
  return baseline;
}

Baseline fold(Baseline baseline) {
  fold_tensors(baseline);
  baseline = in_order_of_lanes(std::move(baseline));
  if (baseline.ops.size() <= kMostLines) return baseline;
  return fold_operators(std::move(baseline));
}

Baseline fold_operators(Baseline baseline) {
  baseline = in_order_of_lanes(std::move(baseline));
  std::map<std::string, std::pair<std::uint64_t, std::string>> modules;
  for (const AcceptedOp& op : baseline.ops) {
    // A path no module has: baselines made before returned values were recorded keep their modules.
    auto& [operators, lines] = modules[is_returned(op) ? op.name : op.module];
    ++operators;
    lines += to_line(op) + '\n';
  }
  baseline.ops.clear();
  for (const auto& [path, module] : modules) {
    baseline.modules.push_back({path, module.first, detail::digest_text(module.second)});
  }
  return baseline;
}

bool holds_returned(const Baseline& baseline) {
  return std::ranges::any_of(baseline.ops, is_returned) ||
         std::ranges::any_of(baseline.modules, [](const AcceptedModule& module) {
           return module.path == core::kReturnedOperator;
         });
}

Baseline without_returned(Baseline baseline) {
  std::erase_if(baseline.ops, is_returned);
  return baseline;
}

Baseline summarise(const core::DumpSource& dump,
                   const Platform& platform,
                   const std::string& gate,
                   const std::string& policy) {
  return fold(summarise_unfolded(dump, platform, gate, policy));
}

}  // namespace repro_check::baselines
