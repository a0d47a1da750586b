// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "cmd/render/json/json_alignment.h"
#include "cmd/render/json/json_coverage.h"
#include "cmd/render/json/json_gate.h"
#include "cmd/render/json/json_op.h"
#include "cmd/render/json/json_origins.h"
#include "cmd/render/json/json_repeat.h"
#include "cmd/render/json/json_replay.h"
#include "cmd/render/json/json_returned.h"
#include "cmd/render/json/json_text.h"
#include "cmd/render/render.h"
#include "cmd/render/words.h"
#include "comparators/compare.h"
#include "core/trace/manifest_lookup.h"

namespace repro_check::cmd {
namespace {

using comparators::OpDivergence;
using comparators::Relation;
using comparators::Report;
using comparators::RunSummary;
using core::NamedTensorKind;

Json json_whole_number(const std::string& text) {
  std::uint64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = !text.empty() && end.ec == std::errc{} && *end.ptr == '\0';
  return is_number ? json_integer(value) : Json(nullptr);
}

Json json_texts(const std::vector<std::string>& texts) {
  Json out = Json::array();
  for (const std::string& text : texts) {
    out.push_back(json_text(text));
  }
  return out;
}

// One digest for all tensors of a kind: name, dtype, shape and content of each, in order.
Json digest_of_named(const core::RunManifest& manifest, bool inputs) {
  std::string text;
  for (const core::NamedTensor& tensor : manifest.named_tensors) {
    if ((tensor.kind == NamedTensorKind::kInput) == inputs) {
      const core::ContentKey key{tensor.dtype, tensor.shape, tensor.digest};
      text += fmt::format("{} {}\n", tensor.name, core::content_name(key));
    }
  }
  if (text.empty()) {
    return nullptr;
  }
  return core::to_hex(core::digest_bytes(std::as_bytes(std::span(text))));
}

// Null where all of the level was kept.
Json json_ranges(const core::OpRanges& ranges) {
  if (ranges.empty()) {
    return nullptr;
  }
  Json out = Json::array();
  for (const core::OpRange& range : ranges) {
    out.push_back(Json::array({json_integer(range.first), json_integer(range.last)}));
  }
  return out;
}

bool is_known(const core::RunManifest& m) {
  return !m.created.empty() || m.trace.operators > 0 || !m.settings.empty();
}

// The dump that holds contents of a run's, and whether it was there to be read.
Json json_reference(const RunSummary& run) {
  const auto& reference = run.manifest.trace.reference;
  if (!reference) return nullptr;
  return {{"run", json_text(reference->run_name)},
          {"index_digest", core::to_hex(reference->index_digest)},
          {"contents", json_integer(reference->contents)},
          {"bytes", json_integer(reference->bytes)},
          {"given", run.missing_reference.empty()}};
}

Json json_run(const RunSummary& run, std::size_t position) {
  const core::RunManifest& m = run.manifest;
  const auto known = [&](Json value) { return is_known(m) ? std::move(value) : Json(nullptr); };
  Json out;
  out["name"] = json_text(run.name);
  out["role"] = position == 0 ? "baseline" : "candidate";
  out["dump"] = json_text_or_null(run.location);
  out["status"] = json_text(run.status);
  out["signal"] = json_text_or_null(run.signal);
  out["last_op"] = json_integer(run.last_op);
  out["device"] = known(json_text(m.device));
  out["threads"] =
      json_whole_number(core::text_or_empty(core::used_setting(m, "threads.intra_op")));
  out["seed"] = known(json_integer(m.seed));
  out["determinism"] = known(json_text(m.determinism));
  out["model_digest"] = known(core::to_hex(m.model_digest));
  out["inputs_digest"] = digest_of_named(m, true);
  out["weights_digest"] = digest_of_named(m, false);
  const auto platform = baselines::platform_of(m);
  out["platform_key"] = platform ? json_text(core::to_hex(platform->key())) : Json(nullptr);
  out["seconds"] = known(json_number(m.seconds));
  out["message"] = json_text_or_null(run.message);
  out["level"] = known(json_text(m.trace.level));
  out["keep_ops"] = json_ranges(m.trace.keep_ops);
  out["reference"] = json_reference(run);
  out["model"] = json_text_or_null(m.model_path);
  out["include"] = json_texts(m.trace.include);
  out["exclude"] = json_texts(m.trace.exclude);
  return out;
}

Json json_observer(const std::vector<comparators::ObserverFinding>& findings) {
  using Outcome = comparators::ObserverFinding::Outcome;
  Json out = Json::array();
  for (const comparators::ObserverFinding& finding : findings) {
    const bool is_changed = finding.outcome == Outcome::kChanged;
    Json item;
    item["run"] = json_text(finding.run);
    item["outcome"] = is_changed                               ? "changed"
                      : finding.outcome == Outcome::kUnchanged ? "unchanged"
                                                               : "not_judged";
    item["outputs"] = json_integer(finding.outputs);
    item["level"] = json_text_or_null(finding.level);
    item["output"] = json_text_or_null(finding.output);
    item["detail"] = json_text_or_null(finding.detail);
    out.push_back(std::move(item));
  }
  return out;
}

// What each round of recordings said by itself, under level auto.
Json json_passes(const std::vector<Report>& passes) {
  Json out = Json::array();
  for (const Report& pass : passes) {
    Json runs = Json::array();
    for (const RunSummary& run : pass.runs) {
      const core::TraceSummary& trace = run.manifest.trace;
      const bool is_whole = is_known(run.manifest);
      runs.push_back(Json{{"name", json_text(run.name)},
                          {"dump", json_text_or_null(run.location)},
                          {"level", is_whole ? json_text(trace.level) : Json(nullptr)},
                          {"keep_ops", json_ranges(trace.keep_ops)}});
    }
    const auto& first = pass.first_divergence;
    Json item;
    item["status"] = status_name(pass.status);
    item["kind"] = json_text_or_null(kind_name(pass.kind));
    item["headline"] = json_text(verdict_line(pass).raw());
    item["coverage"] = json_coverage(pass.coverage);
    item["first_divergence"] = first ? json_op(*first) : Json(nullptr);
    item["runs"] = std::move(runs);
    out.push_back(std::move(item));
  }
  return out;
}

// Of the named tensors of one run; borrowed from its report.
class NamedDigests {
 public:
  NamedDigests(const Report& report, std::size_t run) {
    if (run >= report.runs.size()) return;
    for (const core::NamedTensor& tensor : report.runs[run].manifest.named_tensors) {
      digests_.emplace(std::pair(tensor.kind, std::string_view(tensor.name)), tensor.digest);
    }
  }

  [[nodiscard]] Json of(NamedTensorKind kind, const std::string& name) const {
    const auto found = digests_.find(std::pair(kind, std::string_view(name)));
    return found == digests_.end() ? Json(nullptr) : Json(core::to_hex(found->second));
  }

 private:
  std::map<std::pair<NamedTensorKind, std::string_view>, core::Digest> digests_;
};

std::string named_pointer(const comparators::NamedTensorDifference& tensor) {
  switch (tensor.kind) {
    case NamedTensorKind::kInput:
      return "input." + tensor.name;
    case NamedTensorKind::kParameter:
      return "parameter." + tensor.name;
    case NamedTensorKind::kBuffer:
      break;
  }
  return "buffer." + tensor.name;
}

// The first divergence and the further ones, in trace order.
std::vector<const OpDivergence*> every_divergence(const Report& report) {
  std::vector<const OpDivergence*> all;
  if (report.first_divergence) {
    all.push_back(&*report.first_divergence);
  }
  for (const OpDivergence& op : report.divergences) {
    all.push_back(&op);
  }
  return all;
}

Json json_divergences(const Report& report) {
  Json items = Json::array();
  for (const OpDivergence* op : every_divergence(report)) {
    items.push_back(json_op(*op));
  }
  Json out;
  out["shown"] = items.size();
  out["total"] = json_integer(std::max<std::uint64_t>(report.divergences_total, items.size()));
  out["items"] = std::move(items);
  return out;
}

Json json_missing(const Report& report) {
  Json items = Json::array();
  for (const OpDivergence* op : every_divergence(report)) {
    if (op->relation == Relation::kMissing) {
      Json item;
      item["missing_in"] = op->baseline_index ? "candidate" : "baseline";
      item["op_index"] = json_integer(shown_index(*op));
      item["key"] = json_key(*op);
      items.push_back(std::move(item));
    }
  }
  Json out;
  out["in_baseline"] = json_integer(report.coverage.missing_in_baseline);
  out["in_candidate"] = json_integer(report.coverage.missing_in_candidate);
  out["shown"] = items.size();
  out["items"] = std::move(items);
  return out;
}

// Counts of the items above by the module that called them, sorted by its path.
Json json_modules(const Report& report) {
  std::map<std::string, std::map<Relation, std::uint64_t>> modules;
  for (const OpDivergence* op : every_divergence(report)) {
    const auto& site = shown_record(*op).site;
    ++modules[site == nullptr ? "" : site->module_path][op->relation];
  }
  Json out = Json::array();
  for (auto& [path, counts] : modules) {
    Json item;
    item["path"] = json_text(path);
    for (const Relation relation :
         {Relation::kOrigin, Relation::kPropagated, Relation::kMismatch, Relation::kMissing}) {
      item[std::string(relation_name(relation))] = json_integer(counts[relation]);
    }
    out.push_back(std::move(item));
  }
  return out;
}

Json json_generators(const Report& report) {
  Json out = Json::array();
  for (const OpDivergence* op : every_divergence(report)) {
    if (Json item = json_rng(*op); !item.is_null()) {
      out.push_back(std::move(item));
    }
  }
  return out;
}

Json json_random(const comparators::RandomDraws& draws) {
  Json out;
  out["operators"] = json_integer(draws.operators);
  out["devices"] = json_texts(draws.devices);
  out["seeds"] = Json::array();
  for (const std::uint64_t seed : draws.seeds) out["seeds"].push_back(json_integer(seed));
  out["parting"] = json_text_or_null(draws.parting);
  return out;
}

}  // namespace

Json json_tool(const Report& report, const RenderOptions& options) {
  Json libtorch = Json::array();
  for (const RunSummary& run : report.runs) {
    libtorch.push_back(json_text_or_null(
        core::text_or_empty(core::environment_fact(run.manifest, "libtorch.version"))));
  }
  Json out;
  out["name"] = "repro-check";
  out["version"] = REPRO_CHECK_VERSION;
  out["dump_format"] = fmt::format("{}.{}", core::kDumpFormatMajor, core::kDumpFormatMinor);
  out["libtorch"] = std::move(libtorch);
  out["hdf5"] = json_text_or_null(options.hdf5_version);
  return out;
}

Json json_verdict(const Report& report) {
  Json also = Json::array();
  for (const auto status : report.also) {
    also.push_back(status_name(status));
  }
  Json out;
  out["status"] = status_name(report.status);
  out["kind"] = json_text_or_null(kind_name(report.kind));
  out["exit_code"] = static_cast<int>(comparators::exit_code_of(report));
  out["headline"] = json_text(verdict_line(report).raw());
  out["reasons"] = json_texts(report.reasons);
  out["also"] = std::move(also);
  out["mend"] = json_text_or_null(report.mend);
  out["policy"] = json_text_or_null(report.policy);
  out["from_accepted"] = report.from_accepted;
  return out;
}

Json json_differences(const Report& report) {
  Json out = Json::array();
  for (const auto& difference : report.differences) {
    Json item;
    item["pointer"] = json_text(difference.pointer);
    item["baseline"] = json_text(difference.baseline);
    item["candidate"] = json_text(difference.candidate);
    item["affects_numbers"] = difference.affects_numbers;
    out.push_back(std::move(item));
  }
  const NamedDigests baseline(report, 0);
  const NamedDigests candidate(report, 1);
  for (const auto& tensor : report.named_tensors) {
    const bool renamed = !tensor.candidate_name.empty();
    Json item;
    item["pointer"] = json_text(named_pointer(tensor));
    item["baseline"] = baseline.of(tensor.kind, tensor.name);
    item["candidate"] = candidate.of(tensor.kind, renamed ? tensor.candidate_name : tensor.name);
    item["affects_numbers"] = true;
    item["note"] = json_text_or_null(tensor.note);
    item["metrics"] = json_metrics(tensor.metrics);
    item["samples"] = json_samples(tensor.samples);
    out.push_back(std::move(item));
  }
  return out;
}

Json json_runs(const Report& report) {
  Json out = Json::array();
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    out.push_back(json_run(report.runs[i], i));
  }
  return out;
}

Json json_report(const Report& report, const RenderOptions& options) {
  const auto& first = report.first_divergence;
  Json out;
  out["format"] = "repro-check-report";
  out["version"] = kReportVersion;
  out["tool"] = json_tool(report, options);
  out["verdict"] = json_verdict(report);
  out["returned"] = json_returned(report.returned);
  out["coverage"] = json_coverage(report.coverage);
  out["rules"] = json_rules(report);
  out["screened"] = json_screened(report.screened);
  out["runs"] = json_runs(report);
  out["differences"] = json_differences(report);
  out["first_divergence"] = first ? json_op(*first) : Json(nullptr);
  out["first_bit_difference"] = json_integer(report.first_bit_difference);
  out["divergences"] = json_divergences(report);
  out["origins"] = json_origins(report);
  out["growth"] = json_growth(report);
  out["passes"] = json_passes(report.passes);
  out["repeat"] = json_repeat(report);
  out["control_flow"] = json_control_flow(report);
  out["alignment"] = json_alignment(report);
  out["ranks"] = json_ranks(report);
  out["missing"] = json_missing(report);
  out["modules"] = json_modules(report);
  out["rng"] = json_generators(report);
  if (report.draws.operators != 0) out["random"] = json_random(report.draws);
  out["replay"] = json_replay(report);
  out["observer"] = json_observer(report.observer);
  out["expected"] = json_expected(options.gate);
  out["gate"] = json_gate(options.gate);
  out["warnings"] = json_texts(report.warnings);
  out["timing"] = Json{{"compare_seconds", json_number(report.seconds)}};
  return out;
}

std::string render_json(const Report& report, const RenderOptions& options) {
  return to_document(json_report(report, options), options.pretty_json);
}

}  // namespace repro_check::cmd
