// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "cmd/inspect/inspect_json.h"
#include "cmd/inspect/inspect_views.h"
#include "cmd/recording/reference.h"
#include "cmd/render/json/json_text.h"
#include "cmd/render/text.h"
#include "core/trace/content_check.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {
namespace {

using core::RunManifest;

std::string row(std::string_view label, const std::string& text) {
  return fmt::format("{:<11}{}\n", label, text);
}

std::string run_rows(const RunManifest& m) {
  std::string text = row("run",
                         fmt::format("{}, recorded {} by repro-check {}",
                                     escape_name(m.run_name),
                                     escape_name(m.created),
                                     escape_name(m.tool_version)));
  text += row("model",
              fmt::format("{} {}, digest {}",
                          escape_name(m.model_path),
                          escape_name(m.model_method),
                          core::to_hex(m.model_digest)));
  text += row("settings",
              fmt::format("device {}, seed {}, determinism {}, rng {}, grad {}, dropout {}",
                          escape_name(m.device),
                          m.seed,
                          escape_name(m.determinism),
                          escape_name(m.rng),
                          escape_name(m.grad),
                          m.disable_dropout ? "disabled" : "as the model has it"));
  return text;
}

std::string trace_rows(const RunManifest& m) {
  const core::TraceSummary& trace = m.trace;
  std::string text = row("trace",
                         fmt::format("{}, {}; level {}, depth {}",
                                     format_count(trace.operator_calls(), "operator"),
                                     format_count(trace.tensors, "tensor"),
                                     escape_name(trace.level),
                                     escape_name(trace.depth)));
  if (trace.partial) {
    text += row("partial",
                fmt::format("{}; {} unfinished, {} lost",
                            escape_name(trace.partial->reason),
                            format_count(trace.partial->unfinished.size(), "operator"),
                            format_count(trace.partial->lost_contents, "content")));
  }
  const std::uint64_t elsewhere = trace.reference ? trace.reference->contents : 0;
  text += row("stored",
              fmt::format("{}, {}",
                          format_count(trace.contents - elsewhere, "content"),
                          format_bytes(trace.stored_bytes)));
  if (trace.slices != 0) {
    text += row("slices",
                fmt::format("of {} only some elements are stored, as contents of their own",
                            format_count(trace.slices, "content")));
  }
  if (trace.reference) {
    text += row("reference",
                fmt::format("{}, {} in the dump of run {} with the index digest {}",
                            format_count(elsewhere, "content"),
                            format_bytes(trace.reference->bytes),
                            escape_name(trace.reference->run_name),
                            core::to_hex(trace.reference->index_digest)));
  }
  text += row("random",
              fmt::format("{} drew random numbers, {}",
                          format_count(trace.drawing_operators, "operator"),
                          format_count(trace.substitutions, "substitution")));
  text += row(
      "time",
      fmt::format(
          "{} recording, {} loading", format_seconds(m.seconds), format_seconds(m.load_seconds)));
  return text;
}

/// The operators that occur most, most frequent first, by name where they tie.
std::string operator_row(const core::DumpSource& dump) {
  constexpr std::size_t kMost = 5;
  std::map<std::string, std::uint64_t> counts;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    if (head.op && !core::is_returned(head)) ++counts[head.op->name];
  }
  std::vector<std::pair<std::string, std::uint64_t>> ordered(counts.begin(), counts.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return a.second > b.second;
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, ordered.size()); ++i) {
    text += fmt::format(
        "{}{} {}", i == 0 ? "" : ", ", ordered[i].second, escape_name(ordered[i].first));
  }
  if (ordered.size() > kMost) {
    text += fmt::format(", and {} more kinds", ordered.size() - kMost);
  }
  return ordered.empty() ? "" : row("operators", text);
}

std::string named_rows(const RunManifest& m, bool all) {
  std::string text;
  std::uint64_t parameters = 0;
  std::uint64_t buffers = 0;
  for (const core::NamedTensor& tensor : m.named_tensors) {
    const bool is_input = tensor.kind == core::NamedTensorKind::kInput;
    if (tensor.kind == core::NamedTensorKind::kParameter) ++parameters;
    if (tensor.kind == core::NamedTensorKind::kBuffer) ++buffers;
    if (!is_input && !all) continue;
    text += row(is_input                                           ? "input"
                : tensor.kind == core::NamedTensorKind::kParameter ? "parameter"
                                                                   : "buffer",
                fmt::format("{} {}{}{}",
                            escape_name(tensor.name),
                            format_tensor_type(tensor.dtype, tensor.shape),
                            all ? " " : "",
                            all ? core::to_hex(tensor.digest) : ""));
  }
  return text + row("weights",
                    format_count(parameters, "parameter") + ", " + format_count(buffers, "buffer"));
}

std::string setting_rows(const RunManifest& m) {
  std::string text;
  for (const core::Setting& setting : m.settings) {
    text += row(
        "setting",
        escape_name(setting.name) + " = " + escape_name(setting.used) +
            (setting.found == setting.used ? "" : " (found " + escape_name(setting.found) + ")"));
  }
  for (const core::EnvironmentFact& fact : m.environment) {
    text += row("fact", escape_name(fact.name) + " = " + escape_name(fact.value));
  }
  return text;
}

}  // namespace

std::string verified_view(const core::DumpSource& dump, ViewForm form) {
  core::verify_contents(dump);
  const core::TraceSummary& trace = dump.manifest().trace;
  const std::string missing = dump.missing_reference();
  const core::TraceReference elsewhere = trace.reference.value_or(core::TraceReference{});
  const std::uint64_t contents = trace.contents - (missing.empty() ? 0 : elsewhere.contents);
  const std::uint64_t bytes = trace.stored_bytes + (missing.empty() ? elsewhere.bytes : 0);
  if (form != ViewForm::kText) {
    OrderedJson document = inspect_document(dump.location());
    document["verified"] = true;
    document["contents"] = contents;
    document["bytes"] = bytes;
    document["not_checked"] = missing.empty() ? 0 : elsewhere.contents;
    return to_document(document, form == ViewForm::kPrettyJson);
  }
  std::string text = fmt::format("VERIFIED {}, {}: {}\n",
                                 format_count(contents, "content"),
                                 format_bytes(bytes),
                                 verified_text(missing.empty()));
  if (missing.empty()) return text;
  return text + fmt::format("  not checked: {}, {}: {}\n",
                            format_count(elsewhere.contents, "content"),
                            format_bytes(elsewhere.bytes),
                            escape_name(missing));
}

std::string summary_view(const core::DumpSource& dump, ViewForm form, int verbosity) {
  const RunManifest& manifest = dump.manifest();
  if (form != ViewForm::kText) {
    OrderedJson document = inspect_document(dump.location());
    document["manifest"] = OrderedJson::parse(core::to_json_text(manifest));
    return to_document(document, form == ViewForm::kPrettyJson);
  }
  const bool all = verbosity > 0;
  std::string text = row("dump", escape_name(dump.location()));
  text += run_rows(manifest) + trace_rows(manifest) + operator_row(dump) +
          named_rows(manifest, all) + (all ? setting_rows(manifest) : "");
  for (const std::string& warning : manifest.warnings) text += row("warning", escape_name(warning));
  return text;
}

}  // namespace repro_check::cmd
