// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "cmd/inspect/inspect_view.h"
#include "cmd/render/text.h"
#include "cmd/render/words.h"
#include "core/trace/content_check.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {
namespace {

/// Of the manifest, and what summary_view() adds to it.
constexpr std::array kSummary{
    ViewLine{"dump", "{dump}"},
    ViewLine{"run", "{run_name}, recorded {created} by repro-check {tool_version}"},
    ViewLine{"model", "{model_path} {model_method}, digest {model_digest}"},
    ViewLine{"settings",
             "device {device}, seed {seed}, determinism {determinism}, rng {rng}, grad {grad}, "
             "dropout {dropout}"},
    ViewLine{"trace",
             "{calls:operator}, {trace/tensors:tensor}; level {trace/level}, depth {trace/depth}"},
    ViewLine{"partial",
             "{reason}; {unfinished:operator} unfinished, {lost_contents:content} lost",
             "trace/partial"},
    ViewLine{"stored", "{own_contents:content}, {trace/stored_bytes:bytes}"},
    ViewLine{"slices",
             "of {:content} only some elements are stored, as contents of their own",
             "trace/slices"},
    ViewLine{
        "reference",
        "{contents:content}, {bytes:bytes} in the dump of run {run_name} with the index digest "
        "{index_digest}",
        "trace/reference"},
    ViewLine{"random",
             "{trace/drawing_operators:operator} drew random numbers, "
             "{trace/substitutions:substitution}"},
    ViewLine{"time", "{seconds:seconds} recording, {load_seconds:seconds} loading"},
    ViewLine{"operators", "{}", "most"},
    ViewLine{"{kind}", "{name} {dtype} {shape}[ {digest}]", "named_tensors"},
    ViewLine{"weights", "{parameters:parameter}, {buffers:buffer}"},
    ViewLine{"setting", "{name} = {used}[ ({before})]", "settings"},
    ViewLine{"fact", "{name} = {value}", "environment"},
    ViewLine{"warning", "{}", "warnings"},
};

/// The operators that occur most, most frequent first, by name where they tie.
std::string most_frequent(const core::DumpSource& dump) {
  constexpr std::size_t kMost = 5;
  std::map<std::string, std::uint64_t> counts;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    if (head.op && !core::is_returned(head)) ++counts[head.op->name];
  }
  std::vector<std::pair<std::string, std::uint64_t>> ordered(counts.begin(), counts.end());
  std::ranges::stable_sort(ordered, std::greater<>{}, [](const auto& kind) { return kind.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, ordered.size()); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", ordered[i].second, ordered[i].first);
  }
  if (ordered.size() > kMost) text += fmt::format(", and {} more kinds", ordered.size() - kMost);
  return text;
}

}  // namespace

std::string summary_view(const core::DumpSource& dump, Form form, int verbosity) {
  const core::RunManifest& manifest = dump.manifest();
  const core::TraceSummary& trace = manifest.trace;
  Json document = inspect_document(dump);
  document["manifest"] = Json::parse(core::to_json_text(manifest));
  if (is_json(form)) return print_document(document, form);
  Json model = document["manifest"];
  model["dump"] = dump.location();
  model["dropout"] = manifest.disable_dropout ? "disabled" : "as the model has it";
  model["calls"] = trace.operator_calls();
  model["own_contents"] = trace.contents - (trace.reference ? trace.reference->contents : 0);
  model["most"] = most_frequent(dump);
  const auto count = [&](core::NamedTensorKind kind) {
    return std::ranges::count(manifest.named_tensors, kind, &core::NamedTensor::kind);
  };
  model["parameters"] = count(core::NamedTensorKind::kParameter);
  model["buffers"] = count(core::NamedTensorKind::kBuffer);
  if (verbosity == 0) {
    Json inputs = Json::array();
    for (Json& tensor : model["named_tensors"]) {
      tensor.erase("digest");
      if (tensor["kind"] == "input") inputs.push_back(tensor);
    }
    model["named_tensors"] = std::move(inputs);
    model.erase("settings");
    model.erase("environment");
    return say_lines(kSummary, model);
  }
  for (Json& setting : model["settings"]) {
    if (setting["found"] != setting["used"]) {
      setting["before"] = "found " + setting["found"].get<std::string>();
    }
  }
  return say_lines(kSummary, model);
}

std::string verified_view(const core::DumpSource& dump, Form form) {
  core::verify_contents(dump);
  const core::TraceSummary& trace = dump.manifest().trace;
  const std::string missing = dump.missing_reference();
  const core::TraceReference elsewhere = trace.reference.value_or(core::TraceReference{});
  Json document = inspect_document(dump);
  document["verified"] = true;
  document["contents"] = trace.contents - (missing.empty() ? 0 : elsewhere.contents);
  document["bytes"] = trace.stored_bytes + (missing.empty() ? elsewhere.bytes : 0);
  document["not_checked"] = missing.empty() ? 0 : elsewhere.contents;
  if (is_json(form)) return print_document(document, form);
  std::string text = say("VERIFIED {contents:content}, {bytes:bytes}: ", document) +
                     std::string(verified_text(missing.empty())) + "\n";
  if (missing.empty()) return text;
  return text + fmt::format("  not checked: {}, {}: {}\n",
                            format_count(elsewhere.contents, "content"),
                            format_bytes(elsewhere.bytes),
                            escape_name(missing));
}

}  // namespace repro_check::cmd
