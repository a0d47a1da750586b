// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/report_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "cmd/render/formats.h"
#include "cmd/render/json/op_json.h"
#include "cmd/render/words.h"
#include "comparators/compare.h"
#include "core/trace/manifest_lookup.h"

namespace repro_check::cmd {

using comparators::OpDivergence;
using comparators::Relation;
using comparators::Report;
using comparators::RunSummary;
using core::NamedTensorKind;
using Outcome = comparators::ObserverFinding::Outcome;

namespace {

constexpr std::array<std::string_view, 3> kObserverOutcomes{"unchanged", "changed", "not_judged"};
std::string_view observer_name(Outcome what) {
  return kObserverOutcomes.at(static_cast<std::size_t>(what));
}

std::string_view side_name(bool of_baseline) { return of_baseline ? "baseline" : "candidate"; }

void describe_side(auto f, Of<decltype(f), bool>& of_baseline) {
  f.word(of_baseline, true, side_name);
}

/// {baseline, candidate}, null where the text is empty.
void describe_texts(auto f,
                    Of<decltype(f), std::string>& baseline,
                    Of<decltype(f), std::string>& candidate) {
  text_or_null(f.at("baseline"), baseline);
  text_or_null(f.at("candidate"), candidate);
}

// Which side is nearer to the float64 result, which is all that is said of the ratio.
void describe_nearer(JsonWriter f, const std::optional<double>& ratio) {
  if (ratio) f.json() = *ratio == 1 ? "neither" : side_name(!(*ratio > 1));
}

void describe_nearer(JsonReader f, std::optional<double>& ratio) {
  if (f.json().is_null()) return;
  const auto side = f.json().get<std::string>();
  ratio = side == "neither" ? 1.0 : side == "candidate" ? 2.0 : 0.5;
}

void describe_found(auto f, Of<decltype(f), OpDivergence>& op) {
  describe_call(f, op);
  if constexpr (f.kReads) {
    std::string differs;
    f("differs", differs);
    if (!differs.empty()) op.notes = {differs};
  } else if (const auto differs = f.part("differs", !op.outputs.empty() || !op.notes.empty())) {
    describe(*differs, op_amount(op));
  }
}

}  // namespace

// Looked up by what they describe, and so in no anonymous namespace.

void describe(auto f, Of<decltype(f), comparators::Status>& status) {
  f.word(status, comparators::Status::kNoBaseline, status_name);
}

void describe(auto f, Of<decltype(f), comparators::Coverage>& c) {
  f("baseline_ops", c.baseline_ops);
  f("candidate_ops", c.candidate_ops);
  f("compared", c.compared);
  f("equal", c.equal);
  f("within_policy", c.within_policy);
  f("diverged", c.diverged);
  f("origins", c.origins);
  f("propagated", c.propagated);
  f("mismatched", c.mismatched);
  f("missing_in_baseline", c.missing_in_baseline);
  f("missing_in_candidate", c.missing_in_candidate);
  f("skipped", c.skipped);
  f("not_judged", c.not_judged);
  f("tensors", c.tensors);
  f("outputs", c.outputs);
  f("metadata_only", c.metadata_only);
  f("ignored", c.ignored);
  f("not_judged_tensors", c.not_judged_tensors);
  f("elements", c.elements);
  f("bytes", c.bytes);
  f("sliced", c.sliced);
}

void describe(auto f, Of<decltype(f), comparators::ReturnedValues>& returned) {
  f("baseline", returned.baseline);
  f("candidate", returned.candidate);
  f("compared", returned.compared);
  f("equal", returned.equal);
  f("within_policy", returned.within_policy);
  f("diverged", returned.diverged);
  f("skipped", returned.skipped);
  f("not_judged", returned.not_judged);
  f("missing", returned.missing);
  f("tensors", returned.tensors);
  f("others", returned.others);
  f("opaque", returned.opaque);
  f("first", returned.first);
}

void describe(auto f, Of<decltype(f), comparators::RuleUse>& rule) {
  f("match", rule.match);
  f("policy", rule.policy);
  f("tensors", rule.tensors);
}

void describe(auto f, Of<decltype(f), comparators::Screened>& screened) {
  f("tensors", screened.tensors);
  f("elements", screened.elements);
  f("beyond", screened.beyond);
}

void describe(auto f, Of<decltype(f), comparators::Difference>& difference) {
  f("pointer", difference.pointer);
  f("baseline", difference.baseline);
  f("candidate", difference.candidate);
  f("affects_numbers", difference.affects_numbers);
}

void describe(auto f, Of<decltype(f), comparators::RandomDraws>& draws) {
  f("operators", draws.operators);
  f("devices", draws.devices);
  f("seeds", draws.seeds);
  text_or_null(f.at("parting"), draws.parting);
}

void describe(auto f, Of<decltype(f), comparators::GrowthStep>& step) {
  f("op_index", step.op);
  f("operator", step.operator_name);
  f("module", step.module_path);
  f("in", step.in);
  f("out", step.out);
  f("factor", step.factor);
}

void describe(auto f, Of<decltype(f), comparators::Origin>& origin) {
  describe_indices(f.at("op_index"), origin.baseline_index, origin.candidate_index);
  describe_names(f, origin.record);
  describe_source(f.at("source"), origin.record);
  f("relation", origin.relation);
  f.at("cause").word(origin.cause, comparators::kLastCause, comparators::cause_name);
  f("beyond_policy", origin.beyond_policy);
  f("l2_rel", origin.l2_rel);
  f("tainted", origin.tainted);
  const auto outputs = f.at("final_values");
  outputs("total", origin.outputs_total);
  outputs("ops", origin.outputs);
  const auto path = f.at("path");
  path("steps", origin.path_steps);
  path("items", origin.path);
}

void describe(auto f, Of<decltype(f), comparators::Interval>& interval) {
  f("low", interval.low);
  f("high", interval.high);
}

void describe(auto f, Of<decltype(f), comparators::FlakyOp>& op) {
  f("op_index", op.index);
  describe_names(f, op.record);
  f.derived("runs", [&] { return json_integer(op.runs()); });
  f("counts", op.counts);
  f("disagreement", op.disagreement);
  f("differs", op.differs);
  f("l2_rel", op.l2_rel);
  f("ulp_max", op.ulp_max);
}

void describe(auto f, Of<decltype(f), comparators::OpRepeatability>& ops) {
  f("runs", ops.runs);
  f("assessed", ops.assessed);
  f("flaky", ops.flaky);
  f.derived("stable", [&] { return json_integer(ops.assessed - ops.flaky); });
  f("not_assessed", ops.not_assessed);
  f.derived("shown", [&] { return Json(ops.ops.size()); });
  f("items", ops.ops);
  f("notes", ops.notes);
}

void describe(auto f, Of<decltype(f), comparators::RepeatedRun>& run) {
  f("name", run.name);
  text_or_null(f.at("dump"), run.location);
  text_or_null(f.at("status"), run.status);
  f("first_divergence", run.first_divergence);
}

void describe(auto f, Of<decltype(f), comparators::Decision>& decision) {
  describe_indices(f.at("op_index"), decision.baseline_index, decision.candidate_index);
  describe_names(f, decision.op);
  describe_indices(f.at("value"), decision.baseline, decision.candidate);
  describe_source(f.at("source"), decision.op);
}

void describe(auto f, Of<decltype(f), comparators::ControlFlow>& parting) {
  describe_indices(
      f.at("last_common"), parting.last_common_baseline, parting.last_common_candidate);
  describe_texts(f.at("next"), parting.baseline_next, parting.candidate_next);
  describe_indices(f.at("unmatched"), parting.unmatched_baseline, parting.unmatched_candidate);
  f("rejoined", parting.rejoined);
  f("decision", parting.decision);
  if (const auto after = f.part("after", parting.last_common_baseline.has_value())) {
    describe_names(*after, parting.last_common);
    describe_source(after->at("source"), parting.last_common);
  }
}

void describe(auto f, Of<decltype(f), comparators::NameMapUse::Entry>& entry) {
  f("line", entry.line);
  f("kind", entry.kind);
  f("pattern", entry.pattern);
  f("replacement", entry.replacement);
  f("operators", entry.operators);
  f("tensors", entry.tensors);
}

void describe(auto f, Of<decltype(f), comparators::RankDivergence>& first) {
  describe_side(f.at("in"), first.in_baseline);
  f("op_index", first.op_index);
  describe_names(f, first.op);
}

void describe(auto f, Of<decltype(f), comparators::ReplayEvidence::Setting>& setting) {
  describe_side(f.at("run"), setting.of_baseline);
  text_or_null(f.at("isa"), setting.isa);
  f("cpu_capability", setting.cpu_capability);
  f("threads", setting.threads);
  f("calls", setting.calls);
  f("results", setting.results);
  f("as_recorded", setting.as_recorded);
}

void describe(auto f, Of<decltype(f), comparators::ReplayEvidence>& evidence) {
  describe_indices(f.at("op_index"), evidence.baseline_op, evidence.candidate_op);
  text_or_null(f.at("problem"), evidence.problem);
  f("same_inputs", evidence.same_inputs);
  f("settings", evidence.settings);
  const auto reference = f.at("float64");
  reference("baseline_rmse", evidence.baseline_rmse);
  reference("candidate_rmse", evidence.candidate_rmse);
  describe_nearer(reference.at("nearer"), evidence.reference_ratio);
  f("sentences", evidence.sentences);
}

void describe(auto f, Of<decltype(f), comparators::ObserverFinding>& finding) {
  f("run", finding.run);
  f.at("outcome").word(finding.outcome, Outcome::kNotJudged, observer_name);
  f("outputs", finding.outputs);
  text_or_null(f.at("level"), finding.level);
  text_or_null(f.at("output"), finding.output);
  text_or_null(f.at("detail"), finding.detail);
}

void describe(auto f, Of<decltype(f), comparators::ExpectedOutcome>& entry) {
  f("match", entry.match);
  f("reason", entry.reason);
  text_or_null(f.at("issue"), entry.issue);
  f("owner", entry.owner);
  f("expires", entry.expires);
  f.at("outcome").word(entry.what, comparators::ExpectedOutcome::What::kElsewhere, expected_name);
  f("operators", entry.operators);
  text_or_null(f.at("detail"), entry.detail);
  f.at("found").items(entry.found, [](auto item, auto& op) { describe_found(item, op); });
}

namespace {

constexpr std::array<std::pair<NamedTensorKind, std::string_view>, 3> kNamedTensors{{
    {NamedTensorKind::kInput, "input."},
    {NamedTensorKind::kParameter, "parameter."},
    {NamedTensorKind::kBuffer, "buffer."},
}};

bool is_known(const core::RunManifest& m) {
  return !m.created.empty() || m.trace.operators > 0 || !m.settings.empty();
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
  if (text.empty()) return nullptr;
  return core::to_hex(core::digest_bytes(std::as_bytes(std::span(text))));
}

void describe_range(JsonWriter f, const core::OpRange& range) {
  f.json() = Json::array({json_integer(range.first), json_integer(range.last)});
}

void describe_range(JsonReader f, core::OpRange& range) {
  range = {read_whole(JsonReader(f.json().at(0))), read_whole(JsonReader(f.json().at(1)))};
}

// Null where all of the level was kept.
void describe_ranges(auto f, std::string_view key, Of<decltype(f), core::OpRanges>& ranges) {
  const auto kept = f.part(key, !ranges.empty());
  if (kept) kept->items(ranges, [](auto item, auto& range) { describe_range(item, range); });
}

void describe_threads(JsonWriter f, const core::RunManifest& m) {
  const std::string text = core::text_or_empty(core::used_setting(m, "threads.intra_op"));
  std::uint64_t count = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), count);
  if (!text.empty() && end.ec == std::errc{} && *end.ptr == '\0') describe(f, count);
}

void describe_threads(JsonReader f, core::RunManifest& m) {
  std::optional<std::uint64_t> count;
  describe(f, count);
  if (!count || m.created.empty()) return;
  const std::string text = std::to_string(*count);
  m.settings.push_back({"threads.intra_op", text, text});
}

// The dump that holds contents of a run's, and whether it was there to be read.
void describe_reference(auto f, Of<decltype(f), RunSummary>& run) {
  auto& reference = run.manifest.trace.reference;
  const auto there = f.part("reference", reference.has_value());
  if (!there) return;
  if constexpr (f.kReads) reference.emplace();
  (*there)("run", reference->run_name);
  (*there)("index_digest", reference->index_digest);
  (*there)("contents", reference->contents);
  (*there)("bytes", reference->bytes);
  bool given = run.missing_reference.empty();
  (*there)("given", given);
  if constexpr (f.kReads) run.missing_reference = given ? "" : "it was not given";
}

void describe_run(auto f, Of<decltype(f), RunSummary>& run, bool is_baseline) {
  auto& m = run.manifest;
  const bool known = is_known(m);
  const auto put = [&](std::string_view key, auto& value) {
    if (const auto member = f.part(key, known)) describe(*member, value);
  };
  f("name", run.name);
  f.derived("role", [&] { return Json(side_name(is_baseline)); });
  text_or_null(f.at("dump"), run.location);
  f("status", run.status);
  text_or_null(f.at("signal"), run.signal);
  f("last_op", run.last_op);
  put("device", m.device);
  if constexpr (f.kReads) m.created = f.json().at("device").is_null() ? "" : "unknown";
  describe_threads(f.at("threads"), m);
  put("seed", m.seed);
  put("determinism", m.determinism);
  put("model_digest", m.model_digest);
  f.derived("inputs_digest", [&] { return digest_of_named(m, true); });
  f.derived("weights_digest", [&] { return digest_of_named(m, false); });
  f.derived("platform_key", [&] {
    const auto platform = baselines::platform_of(m);
    return platform ? json_text(core::to_hex(platform->key())) : Json();
  });
  put("seconds", m.seconds);
  text_or_null(f.at("message"), run.message);
  put("level", m.trace.level);
  describe_ranges(f, "keep_ops", m.trace.keep_ops);
  describe_reference(f, run);
  text_or_null(f.at("model"), m.model_path);
  f("include", m.trace.include);
  f("exclude", m.trace.exclude);
}

void describe_runs(auto f, Of<decltype(f), std::vector<RunSummary>>& runs) {
  bool is_baseline = true;
  f.items(runs, [&](auto item, auto& run) {
    describe_run(item, run, is_baseline);
    is_baseline = false;
  });
}

void describe_versions(JsonWriter f, const std::vector<RunSummary>& runs) {
  f.items(runs, [](JsonWriter item, const RunSummary& run) {
    text_or_null(item,
                 core::text_or_empty(core::environment_fact(run.manifest, "libtorch.version")));
  });
}

/// Of runs that are about to be read.
void describe_versions(JsonReader f, std::vector<RunSummary>& runs) {
  f.items(runs, [](JsonReader item, RunSummary& run) {
    std::string version;
    describe(item, version);
    if (!version.empty()) run.manifest.environment.push_back({"libtorch.version", version});
  });
}

void describe_tool(auto f,
                   Of<decltype(f), std::vector<RunSummary>>& runs,
                   Of<decltype(f), std::string>& hdf5_version) {
  f.derived("name", [] { return Json("repro-check"); });
  f.derived("version", [] { return Json(REPRO_CHECK_VERSION); });
  f.derived("dump_format", [] {
    return Json(fmt::format("{}.{}", core::kDumpFormatMajor, core::kDumpFormatMinor));
  });
  describe_versions(f.at("libtorch"), runs);
  text_or_null(f.at("hdf5"), hdf5_version);
}

void describe_verdict(auto f, Of<decltype(f), Report>& report) {
  f("status", report.status);
  f("kind", report.kind);
  f.derived("exit_code", [&] { return Json(static_cast<int>(exit_code_of(report))); });
  f.derived("headline", [&] { return json_text(verdict_line(report).raw()); });
  f("reasons", report.reasons);
  f("also", report.also);
  text_or_null(f.at("mend"), report.mend);
  text_or_null(f.at("policy"), report.policy);
  f("from_accepted", report.from_accepted);
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

  [[nodiscard]] std::optional<core::Digest> of(NamedTensorKind kind,
                                               const std::string& name) const {
    const auto found = digests_.find(std::pair(kind, std::string_view(name)));
    return found == digests_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::map<std::pair<NamedTensorKind, std::string_view>, core::Digest> digests_;
};

/// By run.
using DigestPair = std::array<std::optional<core::Digest>, 2>;

void describe_named_tensor(auto f,
                           Of<decltype(f), comparators::NamedTensorDifference>& tensor,
                           Of<decltype(f), std::string>& pointer,
                           DigestPair& digests) {
  f("pointer", pointer);
  f("baseline", digests[0]);
  f("candidate", digests[1]);
  f.derived("affects_numbers", [] { return Json(true); });
  text_or_null(f.at("note"), tensor.note);
  f("metrics", tensor.metrics);
  f("samples", tensor.samples);
}

void describe_named_tensors(JsonWriter f, const Report& report) {
  const NamedDigests baseline(report, 0);
  const NamedDigests candidate(report, 1);
  for (const comparators::NamedTensorDifference& tensor : report.named_tensors) {
    const std::string& name = tensor.candidate_name.empty() ? tensor.name : tensor.candidate_name;
    DigestPair digests{baseline.of(tensor.kind, tensor.name), candidate.of(tensor.kind, name)};
    const auto* const prefix =
        std::ranges::find(kNamedTensors, tensor.kind, &decltype(kNamedTensors)::value_type::first);
    const std::string pointer = std::string(prefix->second) + tensor.name;
    describe_named_tensor(JsonWriter(f.json().emplace_back()), tensor, pointer, digests);
  }
}

/// @return whether it was one of a tensor
bool read_named_tensor(JsonReader f, Report& report) {
  if (!f.json().contains("samples")) return false;
  comparators::NamedTensorDifference tensor;
  DigestPair digests;
  std::string pointer;
  describe_named_tensor(f, tensor, pointer, digests);
  for (const auto& [kind, prefix] : kNamedTensors) {
    if (!pointer.starts_with(prefix)) continue;
    tensor.kind = kind;
    tensor.name = pointer.substr(prefix.size());
    for (std::size_t run = 0; run < digests.size(); ++run) {
      if (!digests.at(run)) continue;
      if (run >= report.runs.size()) f.refuse("no digest of a run");
      // What the report says of a run's tensors is their digests alone.
      report.runs[run].manifest.named_tensors.push_back(
          {kind, tensor.name, core::Dtype::kUnknown, {}, *digests.at(run)});
    }
    report.named_tensors.push_back(std::move(tensor));
    return true;
  }
  return false;
}

void describe_differences(JsonWriter f, const Report& report) {
  describe(f, report.differences);
  describe_named_tensors(f, report);
}

void describe_differences(JsonReader f, Report& report) {
  for (const Json& each : f.json()) {
    const JsonReader item(each);
    if (!read_named_tensor(item, report)) describe(item, report.differences.emplace_back());
  }
}

// The first divergence and the further ones, in trace order.
std::vector<const OpDivergence*> every_divergence(const Report& report) {
  std::vector<const OpDivergence*> all;
  if (report.first_divergence) all.push_back(&*report.first_divergence);
  for (const OpDivergence& op : report.divergences) all.push_back(&op);
  return all;
}

void describe_divergences(JsonWriter f, const Report& report) {
  const auto all = every_divergence(report);
  f("shown", all.size());
  f("total", std::max<std::uint64_t>(report.divergences_total, all.size()));
  f.at("items").items(all, [](JsonWriter item, const OpDivergence* op) { describe(item, *op); });
}

/// The first item is first_divergence, which has been read, where there is one.
void describe_divergences(JsonReader f, Report& report) {
  f("total", report.divergences_total);
  f("items", report.divergences);
  if (report.first_divergence && !report.divergences.empty()) {
    report.divergences.erase(report.divergences.begin());
  }
}

Json json_missing(const Report& report) {
  Json items = Json::array();
  for (const OpDivergence* op : every_divergence(report)) {
    if (op->relation != Relation::kMissing) continue;
    items.push_back({{"missing_in", side_name(!op->baseline_index)},
                     {"op_index", json_integer(shown_index(*op))},
                     {"key", json_key(*op)}});
  }
  const std::size_t shown = items.size();
  return {{"in_baseline", json_integer(report.coverage.missing_in_baseline)},
          {"in_candidate", json_integer(report.coverage.missing_in_candidate)},
          {"shown", shown},
          {"items", std::move(items)}};
}

// Counts of the divergences shown by the module that called them, sorted by its path.
Json json_modules(const Report& report) {
  std::map<std::string, std::map<Relation, std::uint64_t>> modules;
  for (const OpDivergence* op : every_divergence(report)) {
    const auto& site = shown_record(*op).site;
    ++modules[site == nullptr ? "" : site->module_path][op->relation];
  }
  Json out = Json::array();
  for (auto& [path, counts] : modules) {
    Json item{{"path", json_text(path)}};
    for (const Relation relation :
         {Relation::kOrigin, Relation::kPropagated, Relation::kMismatch, Relation::kMissing}) {
      item[std::string(relation_name(relation))] = json_integer(counts[relation]);
    }
    out.push_back(std::move(item));
  }
  return out;
}

void describe_all_generators(JsonWriter f, const Report& report) {
  f.json() = Json::array();
  for (const OpDivergence* op : every_divergence(report)) {
    if (!op->baseline.generator && !op->candidate.generator) continue;
    const JsonWriter item(f.json().emplace_back());
    describe_indices(item.at("op_index"), op->baseline_index, op->candidate_index);
    item.json()["operator"] = json_key(*op)["operator"];
    describe_generators(item, *op);
  }
}

/// Of operators that have been read.
void describe_all_generators(JsonReader f, Report& report) {
  using Indices = std::pair<std::optional<std::uint64_t>, std::optional<std::uint64_t>>;
  std::map<Indices, OpDivergence*> by_index;
  const auto add = [&](OpDivergence& op) {
    by_index.emplace(Indices(op.baseline_index, op.candidate_index), &op);
  };
  if (report.first_divergence) add(*report.first_divergence);
  std::ranges::for_each(report.divergences, add);
  for (const Json& each : f.json()) {
    const JsonReader item(each);
    Indices indices;
    describe_indices(item.at("op_index"), indices.first, indices.second);
    const auto found = by_index.find(indices);
    if (found != by_index.end()) describe_generators(item, *found->second);
  }
}

void describe_growth(auto f, Of<decltype(f), Report>& report) {
  auto& growth = report.growth;
  f("origins", report.origins_total);
  f("final_values", report.final_values);
  f("first", growth.first);
  f("last", growth.last);
  f("ratio", growth.ratio);
  f("steepest", growth.steepest);
  f("amplified", growth.amplified);
  f("damped", growth.damped);
  f("carried", growth.carried);
  f("absorbed", growth.absorbed);
  f("steep", growth.steep);
  f("exceeded", growth.exceeded);
}

// What a round of recordings said by itself, under level auto.
void describe_pass(auto f, Of<decltype(f), Report>& pass) {
  f("status", pass.status);
  f("kind", pass.kind);
  f.derived("headline", [&] { return json_text(verdict_line(pass).raw()); });
  f("coverage", pass.coverage);
  f("first_divergence", pass.first_divergence);
  f.at("runs").items(pass.runs, [](auto item, auto& run) {
    auto& manifest = run.manifest;
    item("name", run.name);
    text_or_null(item.at("dump"), run.location);
    if (const auto level = item.part("level", is_known(manifest))) {
      describe(*level, manifest.trace.level);
      if constexpr (item.kReads) manifest.created = "unknown";
    }
    describe_ranges(item, "keep_ops", manifest.trace.keep_ops);
  });
}

/// Of two runs that agree nothing more is known than that.
comparators::RepeatSummary two_that_agree(const Report& report) {
  comparators::RepeatSummary repeat;
  for (const RunSummary& run : report.runs) {
    const bool is_first = repeat.runs.empty();
    repeat.runs.push_back({run.name, run.location, is_first ? "" : "reproducible", {}});
  }
  repeat.judged = 1;
  return repeat;
}

Json json_undetected(const comparators::RepeatSummary& repeat) {
  const bool none_differs = repeat.judged != 0 && repeat.differing == 0;
  return none_differs ? json_number(comparators::undetected_share(repeat.judged)) : Json();
}

void describe_repeat(auto f, Of<decltype(f), comparators::RepeatSummary>& repeat) {
  f("runs", repeat.runs);
  f("judged", repeat.judged);
  f("differing", repeat.differing);
  f.derived("chance", [&] { return json_of(repeat.chance()); });
  f.derived("undetected", [&] { return json_undetected(repeat); });
  f.derived("first_is_odd", [&] { return Json(repeat.first_is_odd()); });
  f("alike", repeat.alike);
  if (const auto ops = f.part("operators", repeat.ops.runs != 0)) describe(*ops, repeat.ops);
}

void describe_repeat_of(JsonWriter f, const Report& report) {
  if (report.repeat) {
    describe_repeat(f, *report.repeat);
  } else if (report.status == comparators::Status::kReproducible) {
    describe_repeat(f, two_that_agree(report));
  }
}

void describe_repeat_of(JsonReader f, Report& report) {
  // Of two runs that agree the JSON says what follows from that.
  if (f.json().is_null() || f.json().at("runs").size() <= 2) return;
  describe_repeat(f, report.repeat.emplace());
}

void describe_ranks(JsonWriter f, const Report& report) {
  f.json() = Json::array();
  if (report.ranks.size() < 2) return;
  f.items(report.ranks, [&](JsonWriter item, std::uint32_t rank) {
    const auto found = std::ranges::lower_bound(
        report.rank_divergences, rank, {}, &comparators::RankDivergence::rank);
    const bool has_one = found != report.rank_divergences.end() && found->rank == rank;
    item("rank", rank);
    if (const auto first = item.part("first_divergence", has_one)) describe(*first, *found);
  });
}

void describe_ranks(JsonReader f, Report& report) {
  f.items(report.ranks, [&](JsonReader item, std::uint32_t& rank) {
    item("rank", rank);
    const auto first = item.part("first_divergence", true);
    if (!first) return;
    describe(*first, report.rank_divergences.emplace_back());
    report.rank_divergences.back().rank = rank;
  });
}

void describe_map(auto f, Of<decltype(f), comparators::NameMapUse>& map) {
  f("file", map.file);
  f("entries", map.entries);
}

std::string_view mode_name(bool by_position) { return by_position ? "strict" : "keyed"; }

void describe_alignment(auto f, Of<decltype(f), Report>& report) {
  auto& alignment = report.alignment;
  f.at("mode").word(alignment.by_position, true, mode_name);
  const auto matched = f.at("matched");
  matched("position", alignment.position);
  matched("lcs", alignment.lcs);
  matched("anchor", alignment.anchor);
  matched("partial", alignment.partial);
  matched("map", alignment.map);
  matched("order", alignment.order);
  f("reordered", alignment.reordered);
  describe_indices(f.at("left_out"), alignment.left_out_baseline, alignment.left_out_candidate);
  if (const auto map = f.part("name_map", !report.name_map.entries.empty())) {
    describe_map(*map, report.name_map);
  }
  f("gave_up", alignment.gave_up);
  f("work", alignment.work);
  f("work_limit", alignment.work_limit);
}

void describe_changes(auto f, Of<decltype(f), std::vector<baselines::Change>>& changes) {
  f.items(changes, [](auto item, auto& change) {
    item("name", change.name);
    item("accepted", change.accepted);
    item("now", change.now);
  });
}

void describe_gate(auto f, Of<decltype(f), GateOutcome>& gate) {
  f("name", gate.gate);
  f("runs", gate.runs);
  f("runs_agree", gate.runs_agree);
  text_or_null(f.at("platform_key"), gate.key);
  const auto baseline = f.at("baseline");
  baseline.at("state").word(gate.baseline, BaselineState::kNoKey, state_name);
  text_or_null(baseline.at("file"), gate.file);
  describe_changes(baseline.at("changes"), gate.changes);
  text_or_null(baseline.at("summary"), gate.summary);
  text_or_null(baseline.at("nearest"), gate.nearest);
  describe_changes(baseline.at("nearest_changes"), gate.nearest_changes);
  text_or_null(f.at("pending"), gate.pending);
  text_or_null(f.at("refusal"), gate.refusal);
  f("orphans", gate.orphans);
  f("notes", gate.notes);
  text_or_null(f.at("attempt"), gate.attempt);
  text_or_null(f.at("config"), gate.config);
}

/// @param gate  null without one, and for a reader never
void describe_report(auto f,
                     Of<decltype(f), Report>& report,
                     Of<decltype(f), std::string>& hdf5_version,
                     Of<decltype(f), GateOutcome>* gate) {
  f.derived("format", [] { return Json("repro-check-report"); });
  f.derived("version", [] { return Json(kReportVersion); });
  describe_tool(f.at("tool"), report.runs, hdf5_version);
  describe_verdict(f.at("verdict"), report);
  f("returned", report.returned);
  f("coverage", report.coverage);
  f("rules", report.rules);
  f("screened", report.screened);
  describe_runs(f.at("runs"), report.runs);
  describe_differences(f.at("differences"), report);
  f("first_divergence", report.first_divergence);
  f("first_bit_difference", report.first_bit_difference);
  describe_divergences(f.at("divergences"), report);
  f("origins", report.origins);
  describe_growth(f.at("growth"), report);
  f.at("passes").items(report.passes, [](auto item, auto& pass) { describe_pass(item, pass); });
  describe_repeat_of(f.at("repeat"), report);
  f("control_flow", report.control_flow);
  describe_alignment(f.at("alignment"), report);
  describe_ranks(f.at("ranks"), report);
  f.derived("missing", [&] { return json_missing(report); });
  f.derived("modules", [&] { return json_modules(report); });
  describe_all_generators(f.at("rng"), report);
  if (f.has("random", report.draws.operators != 0)) f("random", report.draws);
  f("replay", report.replay);
  f("observer", report.observer);
  if (gate == nullptr) {
    f.derived("expected", [] { return Json::array(); });
    f.derived("gate", [] { return Json(); });
  } else {
    f("expected", gate->expected);
    if (const auto part = f.part("gate", true)) describe_gate(*part, *gate);
  }
  f("warnings", report.warnings);
  f.at("timing")("compare_seconds", report.seconds);
}

std::string line(const Json& json) { return to_document(json, false); }

}  // namespace

Json json_report(const Report& report, const RenderOptions& options) {
  Json out;
  describe_report(JsonWriter(out), report, options.hdf5_version, options.gate);
  return out;
}

void read_report(const Json& json, Report& report, std::string& hdf5_version, GateOutcome& gate) {
  describe_report(JsonReader(json), report, hdf5_version, &gate);
}

std::string render_json(const Report& report, const RenderOptions& options) {
  return to_document(json_report(report, options), options.pretty_json);
}

std::string jsonl_header(const Report& report, const RenderOptions& options) {
  Json out{{"type", "header"}, {"format", "repro-check-lines"}, {"version", kReportVersion}};
  const JsonWriter f(out);
  describe_tool(f.at("tool"), report.runs, options.hdf5_version);
  text_or_null(f.at("policy"), report.policy);
  describe_runs(f.at("runs"), report.runs);
  describe_differences(f.at("differences"), report);
  return line(out);
}

std::string jsonl_op(const OpDivergence& op) {
  Json out{{"type", "op"}};
  describe(JsonWriter(out), op);
  return line(out);
}

std::string jsonl_fine_op(const OpDivergence& op, comparators::OpState state) {
  Json out{{"type", "op"}};
  describe_fine(JsonWriter(out), op, state);
  return line(out);
}

std::string jsonl_end(const Report& report, std::uint64_t shown) {
  std::string text;
  for (const std::string& warning : report.warnings) {
    text += line(Json{{"type", "warning"}, {"text", json_text(warning)}});
  }
  Json out{{"type", "verdict"}};
  const JsonWriter f(out);
  describe_verdict(f, report);
  f("coverage", report.coverage);
  f("shown", shown);
  f("total", std::max(shown, report.divergences_total));
  f("compare_seconds", report.seconds);
  return text + line(out);
}

std::string render_jsonl(std::span<const Report> reports, const DocumentOptions& options) {
  std::string out;
  for (const Report& report : reports) {
    const auto all = every_divergence(report);
    out += jsonl_header(report, options);
    for (const OpDivergence* op : all) out += jsonl_op(*op);
    out += jsonl_end(report, all.size());
  }
  return out;
}

}  // namespace repro_check::cmd
