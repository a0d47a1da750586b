// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/report_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "cmd/render/words.h"
#include "comparators/compare.h"
#include "core/error.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {

using comparators::OpState;
using comparators::RelHistogram;
using comparators::TensorComparison;
using comparators::TensorMetrics;
using core::NamedTensorKind;

namespace {

// By MatchedBy, TensorOutcome, StepSeries::Kind and ObserverFinding::Outcome; what is no pair has
// no word.
constexpr std::array<std::string_view, 7> kMatchedBy{
    "", "position", "lcs", "anchor", "partial", "map", "order"};
constexpr std::array<std::string_view, 6> kOutcomes{
    "equal", "within_policy", "beyond_policy", "mismatch", "not_comparable", "skipped"};
constexpr std::array<std::string_view, 4> kStepNumbers{
    "loss", "gradient_norm", "learning_rate", "drift"};
constexpr std::array<std::string_view, 3> kObserverOutcomes{"unchanged", "changed", "not_judged"};
// By what is asked of them: whether it is the baseline, whether pairs are found by position.
constexpr std::array<std::string_view, 2> kSides{"candidate", "baseline"};
constexpr std::array<std::string_view, 2> kModes{"keyed", "strict"};

std::string_view fine_state_name(OpState state) {
  if (state == OpState::kEqual) return "equal";
  if (state == OpState::kWithin) return "within_policy";
  return state == OpState::kSkipped ? "skipped" : "not_judged";
}

/// A record's place as something that can be changed.
core::CallSite& own_site(core::OpRecord& record) {
  auto site = std::make_shared<core::CallSite>(record.site ? *record.site : core::CallSite{});
  core::CallSite& own = *site;
  record.site = std::move(site);
  return own;
}

void describe_operator(JsonWriter f, const core::OpRecord& record) {
  f.json() = json_text(record.op ? record.op->full_name() : "");
}

void describe_operator(JsonReader f, core::OpRecord& record) {
  std::string full;
  describe(f, full);
  if (full.empty()) return;
  const std::size_t dot = full.rfind('.');
  const bool has_overload = dot != std::string::npos && dot + 1 < full.size();
  record.op = std::make_shared<core::OperatorInfo>(
      has_overload ? core::OperatorInfo{full.substr(0, dot), full.substr(dot + 1), false}
                   : core::OperatorInfo{full, "", false});
}

void describe_module(JsonWriter f, const core::OpRecord& record) {
  f.json() = json_text(record.site ? record.site->module_path : "");
}

void describe_module(JsonReader f, core::OpRecord& record) {
  if (const auto path = f.json().get<std::string>(); !path.empty()) {
    own_site(record).module_path = path;
  }
}

void describe_module_type(JsonWriter f, const core::OpRecord& record) {
  if (record.site) text_or_null(f, record.site->module_type);
}

void describe_module_type(JsonReader f, core::OpRecord& record) {
  if (!f.json().is_null()) describe(f, own_site(record).module_type);
}

/// `operator` and `module` of a record.
void describe_names(auto f, Of<decltype(f), core::OpRecord>& record) {
  describe_operator(f.at("operator"), record);
  describe_module(f.at("module"), record);
}

/// {file, line, column}; null when not known.
void describe_source(JsonWriter f, const core::OpRecord& record) {
  const core::SourceFrame* frame = record.site ? core::display_frame(*record.site) : nullptr;
  if (frame == nullptr) return;
  f("file", frame->file);
  f("line", frame->line == 0 ? std::nullopt : std::optional(frame->line));
  f("column", std::optional<std::uint32_t>());
}

void describe_source(JsonReader f, core::OpRecord& record) {
  if (f.json().is_null()) return;
  core::SourceFrame frame;
  std::optional<std::uint32_t> line;
  f("file", frame.file);
  f("line", line);
  frame.line = line.value_or(0);
  own_site(record).frames.push_back(std::move(frame));
}

void describe_indices(auto f, auto& baseline, auto& candidate) {
  f("baseline", baseline);
  f("candidate", candidate);
}

// An integer is the exact distance of integers, which goes before the one in doubles.
void describe_max_abs(JsonWriter f, const TensorMetrics& m) {
  f.json() = m.max_abs_exact ? json_integer(*m.max_abs_exact) : json_number(m.max_abs);
}

void describe_max_abs(JsonReader f, TensorMetrics& m) {
  const Json& json = f.json();
  const bool is_long = json.is_string() &&
                       json.get<std::string>().find_first_not_of("0123456789") == std::string::npos;
  if (json.is_number_unsigned() || is_long) {
    m.max_abs_exact = read_whole(f);
    m.max_abs = static_cast<double>(*m.max_abs_exact);
  } else {
    describe(f, m.max_abs);
  }
}

// Most exponents have no pair at all, and are left out.
void describe_exponents(JsonWriter f, const RelHistogram& histogram) {
  f.json() = Json::object();
  for (std::size_t i = 0; i < histogram.exponents.size(); ++i) {
    const std::uint64_t pairs = histogram.exponents.at(i);
    if (pairs != 0) f(std::to_string(RelHistogram::kLeast + static_cast<int>(i)), pairs);
  }
}

void describe_exponents(JsonReader f, RelHistogram& histogram) {
  for (const auto& [exponent, pairs] : f.json().items()) {
    const std::int64_t place = read_integer(JsonReader(Json(exponent))) - RelHistogram::kLeast;
    histogram.exponents.at(static_cast<std::size_t>(place)) = read_whole(JsonReader(pairs));
  }
}

Json json_percentiles(const std::optional<RelHistogram>& histogram) {
  if (!histogram || !comparators::rel_percentile(*histogram, 1)) return nullptr;
  Json out;
  for (const auto& [name, share] : {std::pair{"50", 0.5},
                                    std::pair{"90", 0.9},
                                    std::pair{"99", 0.99},
                                    std::pair{"99.9", 0.999}}) {
    const auto bounds = comparators::rel_percentile(*histogram, share);
    out[name] = {json_number(bounds->at_least), json_number(bounds->at_most)};
  }
  return out;
}

void describe_position(JsonWriter f, std::uint64_t position) {
  f.json() = fmt::format("{:016x}", position);
}

void describe_position(JsonReader f, std::uint64_t& position) {
  constexpr int kHexadecimal = 16;
  const auto text = f.json().get<std::string>();
  const auto end = std::from_chars(text.data(), text.data() + text.size(), position, kHexadecimal);
  if (end.ec != std::errc{}) f.refuse("a position is hexadecimal");
}

// The bits say exactly which number it is; the text says it to a person.
void describe_side(auto f, Of<decltype(f), std::string>& text, Of<decltype(f), std::string>& bits) {
  f("value", text);
  f("bits", bits);
}

void describe_digest(auto f, std::string_view side, Of<decltype(f), core::TensorRecord>& record) {
  const auto digest = f.part(side, record.state == core::ContentState::kHashed);
  if (digest) describe(*digest, record.digest);
  if constexpr (f.kReads) {
    record.state = digest ? core::ContentState::kHashed : core::ContentState::kNone;
  }
}

void describe_tensors(auto f,
                      core::TensorRole role,
                      Of<decltype(f), std::vector<TensorComparison>>& tensors) {
  describe(f, tensors);
  if constexpr (f.kReads) {
    for (TensorComparison& t : tensors) t.role = t.baseline.role = t.candidate.role = role;
  }
}

void describe_sentence(auto f, Of<decltype(f), comparators::Cause>& cause) {
  const auto name = f.at("name");
  name.word(cause.kind, comparators::kLastCause, comparators::cause_name);
  // Evidence may stand without a cause, whose name is empty then.
  if constexpr (!f.kReads) name.json() = json_text(cause.name());
  f("evidence", cause.evidence);
  f("advice", cause.advice);
}

void describe_key(auto f,
                  Of<decltype(f), core::OpRecord>& record,
                  Of<decltype(f), std::uint64_t>& occurrence) {
  f.at("phase").word(record.phase, core::kLastPhase, core::phase_name);
  describe_names(f, record);
  f("occurrence", occurrence);
  // Of a model, which most reports are about, it is that of a call; 0 is left out.
  if (f.kReads ? f.json().contains("step") : record.step != 0) f("step", record.step);
}

void describe_call(auto f,
                   Of<decltype(f), OpDivergence>& op,
                   Of<decltype(f), core::OpRecord>& shown) {
  describe_key(f.at("key"), shown, op.occurrence);
  describe_indices(f.at("op_index"), op.baseline_index, op.candidate_index);
  describe_source(f.at("source"), shown);
  describe_module_type(f.at("module_type"), shown);
}

}  // namespace

// Looked up by what they describe, and so in no anonymous namespace.

void describe(auto f, Of<decltype(f), Relation>& relation) {
  f.word(relation, Relation::kMissing, relation_name);
}

void describe(auto f, Of<decltype(f), DivergenceKind>& kind) {
  f.word(kind, DivergenceKind::kRestore, kind_name);
}

void describe(auto f, Of<decltype(f), core::Dtype>& dtype) {
  if constexpr (f.kReads) {
    dtype = core::parse_dtype(f.json().template get<std::string>()).value_or(core::Dtype::kUnknown);
  } else {
    f.json() = core::dtype_name(dtype);
  }
}

void describe(auto f, Of<decltype(f), comparators::UlpHistogram>& histogram) {
  for (std::size_t i = 0; i < histogram.size(); ++i) {
    f(comparators::kUlpBuckets.at(i), histogram.at(i));
  }
}

void describe(auto f, Of<decltype(f), RelHistogram>& histogram) {
  f("zero", histogram.zero);
  f("infinite", histogram.infinite);
  describe_exponents(f.at("exponents"), histogram);
}

void describe(auto f, Of<decltype(f), TensorMetrics>& m) {
  f("elements", m.elements);
  f("n_diff", m.n_diff);
  f("n_beyond", m.n_beyond);
  f("n_finite", m.n_finite);
  f("first_diff", m.first_diff);
  f("first_beyond", m.first_beyond);
  f("zero_sign_only", m.zero_sign_only);
  f("nan_both_same", m.nan_both_same);
  f("nan_both_payload", m.nan_both_payload);
  f("nan_baseline", m.nan_baseline);
  f("nan_candidate", m.nan_candidate);
  f("inf_sign", m.inf_sign);
  f("inf_baseline", m.inf_baseline);
  f("inf_candidate", m.inf_candidate);
  f("noncanonical_bool", m.noncanonical_bool);
  f("false_to_true", m.false_to_true);
  f("true_to_false", m.true_to_false);
  f("zeros_both", m.zeros_both);
  f("flips", m.flips);
  f("flushed", m.flushed);
  f("saturated", m.saturated);
  describe_max_abs(f.at("max_abs"), m);
  f("max_abs_index", m.max_abs_index);
  f("mean_abs", m.mean_abs);
  f("max_rel", m.max_rel);
  f("max_rel_index", m.max_rel_index);
  f("max_rel_finite", m.max_rel_finite);
  f("zero_baseline", m.zero_baseline);
  f("mean_rel", m.mean_rel);
  f("ulp_max", m.ulp_max);
  f("ulp_mean", m.ulp_mean);
  f("ulp_hist", m.ulp_hist);
  f("rel_hist", m.rel_hist);
  f.derived("rel_percentiles", [&] { return json_percentiles(m.rel_hist); });
  f("rmse", m.rmse);
  f("nmse", m.nmse);
  f("l2_rel", m.l2_rel);
  f("cosine", m.cosine);
  f("norm_ratio", m.norm_ratio);
  f("within_1e-3", m.within_1e3);
  f("within_5e-3", m.within_5e3);
  f("rtol_needed", m.rtol_needed);
  f("atol_needed", m.atol_needed);
  f("rtol_given_atol", m.rtol_given_atol);
  f("atol_given_rtol", m.atol_given_rtol);
}

void describe(auto f, Of<decltype(f), comparators::Sample>& sample) {
  f("flat_index", sample.flat_index);
  f("index", sample.index);
  describe_side(f.at("baseline"), sample.baseline, sample.baseline_bits);
  describe_side(f.at("candidate"), sample.candidate, sample.candidate_bits);
  f("ulp", sample.ulp);
}

void describe(auto f, Of<decltype(f), core::ContentSlice>& slice) {
  f("elements", slice.elements);
  f("stride", slice.stride);
}

void describe(auto f, Of<decltype(f), comparators::NoiseDistance>& noise) {
  f("l2_rel_floor", noise.l2_rel_floor);
  f("max_abs_floor", noise.max_abs_floor);
  f("times", noise.times);
}

void describe(auto f, Of<decltype(f), comparators::Fp64Distance>& fp64) {
  f("baseline_rmse", fp64.baseline_rmse);
  f("candidate_rmse", fp64.candidate_rmse);
  f("allowed", fp64.allowed);
}

void describe(auto f, Of<decltype(f), TensorComparison>& tensor) {
  auto& b = tensor.baseline;
  auto& c = tensor.candidate;
  f("slot", b.slot.empty() ? c.slot : b.slot);
  f("dtype", b.dtype);
  f("shape", b.shape);
  if constexpr (f.kReads) {
    b.slot = c.slot;
    c.dtype = b.dtype;
    c.shape = b.shape;
  }
  // The candidate's own, where they are not the baseline's.
  if (auto own = f.part("candidate_dtype", c.dtype != b.dtype)) describe(*own, c.dtype);
  if (auto own = f.part("candidate_shape", c.shape != b.shape)) {
    if constexpr (f.kReads) c.shape.clear();
    describe(*own, c.shape);
  }
  const auto digest = f.at("digest");
  describe_digest(digest, "baseline", b);
  describe_digest(digest, "candidate", c);
  describe_word(f.at("outcome"), tensor.outcome, kOutcomes);
  text_or_null(f.at("note"), tensor.note);
  text_or_null(f.at("policy"), tensor.policy);
  f("rule", tensor.rule);
  f("slice", tensor.slice);
  f("noise", tensor.noise);
  f("fp64", tensor.fp64);
  f("metrics", tensor.metrics);
  f("samples", tensor.samples);
}

void describe(auto f, Of<decltype(f), comparators::Cause>& cause) {
  if constexpr (f.kReads) {
    if (f.json().is_null()) return;
  } else {
    const bool has_none = cause.kind == comparators::CauseKind::kNone;
    if (has_none && cause.evidence.empty() && cause.advice.empty()) return;
  }
  describe_sentence(f, cause);
  f.at("also").items(cause.also,
                     [](auto item, auto& further) { describe_sentence(item, further); });
  f("not_recorded", cause.not_recorded);
}

void describe(auto f, Of<decltype(f), core::GeneratorUse>& use) {
  f("device", use.device);
  f("seed", use.seed);
  describe_position(f.at("before"), use.position_before);
  describe_position(f.at("after"), use.position_after);
  if (auto drawn = f.part("drawn", use.drawn >= 0)) describe(*drawn, use.drawn);
}

Json json_key(const OpDivergence& op) {
  Json out;
  describe_key(JsonWriter(out), shown_record(op), op.occurrence);
  return out;
}

void describe_call(auto f, Of<decltype(f), OpDivergence>& op) {
  if constexpr (f.kReads) {
    core::OpRecord shown;
    describe_call(f, op, shown);
    for (const auto& [index, record] : {std::pair(&op.baseline_index, &op.baseline),
                                        std::pair(&op.candidate_index, &op.candidate)}) {
      if (!*index) continue;
      *record = shown;
      record->index = **index;
    }
  } else {
    describe_call(f, op, shown_record(op));
  }
}

void describe(auto f, Of<decltype(f), OpDivergence>& op) {
  describe_call(f, op);
  describe_word(f.at("matched_by"), op.matched_by, kMatchedBy);
  f("relation", op.relation);
  f("kind", op.kind);
  f.derived("rule", [&] {
    const auto* leading = leading_output(op);
    return leading == nullptr ? Json() : json_of(leading->rule);
  });
  describe_tensors(f.at("outputs"), core::TensorRole::kOutput, op.outputs);
  f("producers", op.producers);
  describe_tensors(f.at("inputs"), core::TensorRole::kInput, op.inputs);
  f("notes", op.notes);
  f("cause", op.cause);
  f("severity", op.severity);
}

void describe_fine(JsonWriter f, const OpDivergence& op, OpState state) {
  f.json()["key"] = json_key(op);
  describe_indices(f.at("op_index"), op.baseline_index, op.candidate_index);
  describe_word(f.at("matched_by"), op.matched_by, kMatchedBy);
  f("relation", std::string(fine_state_name(state)));
  if (state != OpState::kEqual) f("outputs", op.outputs);
}

void describe_generators(auto f, Of<decltype(f), OpDivergence>& op) {
  f("baseline", op.baseline.generator);
  f("candidate", op.candidate.generator);
}

template void describe(JsonWriter, const TensorMetrics&);
template void describe(JsonWriter, const core::GeneratorUse&);

namespace {

/// {baseline, candidate}, null where the text is empty.
void describe_texts(auto f,
                    Of<decltype(f), std::string>& baseline,
                    Of<decltype(f), std::string>& candidate) {
  text_or_null(f.at("baseline"), baseline);
  text_or_null(f.at("candidate"), candidate);
}

// Which side is nearer to the float64 result, which is all that is said of the ratio.
void describe_nearer(JsonWriter f, const std::optional<double>& ratio) {
  if (ratio) f.json() = *ratio == 1 ? "neither" : kSides.at(*ratio > 1 ? 0 : 1);
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
    text_or_null(f.at("differs"), differs);
    if (!differs.empty()) op.notes = {differs};
  } else if (const auto differs = f.part("differs", !op.outputs.empty() || !op.notes.empty())) {
    describe(*differs, op_amount(op));
  }
}

}  // namespace

void describe(auto f, Of<decltype(f), Status>& status) {
  f.word(status, Status::kNoBaseline, status_name);
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
  if (f.has("fused_baseline", c.fused_baseline != 0)) f("fused_baseline", c.fused_baseline);
  if (f.has("fused_candidate", c.fused_candidate != 0)) f("fused_candidate", c.fused_candidate);
}

void describe(auto f, Of<decltype(f), comparators::StepSeries>& series) {
  describe_word(f.at("number"), series.kind, kStepNumbers);
  f("ordinal", series.ordinal);
  f("stride", series.stride);
  f("first_apart", series.first_apart);
  f("steps", series.steps);
  f("baseline", series.baseline);
  f("candidate", series.candidate);
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

void describe(auto f, Of<decltype(f), comparators::RestoredState>& state) {
  f.at("kind").word(state.kind, comparators::kLastState, comparators::state_name);
  f.at("outcome").word(state.outcome, comparators::kLastRestored, comparators::restored_name);
  f("items", state.items);
  f("differing", state.differing);
  text_or_null(f.at("name"), state.name);
  text_or_null(f.at("detail"), state.detail);
  text_or_null(f.at("place"), state.place);
  f("moved", state.moved);
}

void describe(auto f, Of<decltype(f), comparators::ResumeSummary>& resume) {
  f("step", resume.step);
  text_or_null(f.at("saved"), resume.saved);
  text_or_null(f.at("loaded"), resume.loaded);
  f("files", resume.files);
  describe_indices(f.at("op_index"), resume.baseline_op, resume.candidate_op);
  f("first_calls", resume.first_calls);
  f("states", resume.states);
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
  describe_word(f.at("in"), first.in_baseline, kSides);
  f("op_index", first.op_index);
  describe_names(f, first.op);
}

void describe(auto f, Of<decltype(f), comparators::ReplayEvidence::Setting>& setting) {
  describe_word(f.at("run"), setting.of_baseline, kSides);
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
  describe_word(f.at("outcome"), finding.outcome, kObserverOutcomes);
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

// Null where all of the level was kept.
void describe_ranges(auto f, std::string_view key, Of<decltype(f), core::OpRanges>& ranges) {
  const auto kept = f.part(key, !ranges.empty());
  if (!kept) return;
  kept->items(ranges, [](auto item, auto& range) {
    std::vector<std::uint64_t> ends{range.first, range.last};
    describe(item, ends);
    if constexpr (item.kReads) range = {ends[0], ends[1]};
  });
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
  f.derived("role", [&] { return Json(kSides.at(is_baseline ? 1 : 0)); });
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
  // Of programs alone, and so left out of most.
  if (f.kReads ? f.json().contains("only") : !m.trace.only.empty()) f("only", m.trace.only);
  if (f.kReads ? f.json().contains("optimizer") : !m.trace.optimizer.empty()) {
    f("optimizer", m.trace.optimizer);
  }
  if (f.kReads ? f.json().contains("method") : m.is_of_program()) f("method", m.model_method);
}

void describe_runs(auto f, Of<decltype(f), std::vector<RunSummary>>& runs) {
  bool is_baseline = true;
  f.items(runs, [&](auto item, auto& run) {
    describe_run(item, run, is_baseline);
    is_baseline = false;
  });
}

/// A reader makes the runs with it, before anything else of them is read.
void describe_versions(auto f, Of<decltype(f), std::vector<RunSummary>>& runs) {
  f.items(runs, [](auto item, auto& run) {
    auto& manifest = run.manifest;
    auto version = core::text_or_empty(core::environment_fact(manifest, "libtorch.version"));
    text_or_null(item, version);
    if constexpr (item.kReads) {
      if (!version.empty()) manifest.environment.push_back({"libtorch.version", version});
    }
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

/// Of the named tensors of one run; none where there is no such run. Borrowed from its report.
std::map<std::pair<NamedTensorKind, std::string_view>, std::optional<core::Digest>> named_digests(
    const Report& report, std::size_t run) {
  std::map<std::pair<NamedTensorKind, std::string_view>, std::optional<core::Digest>> digests;
  if (run >= report.runs.size()) return digests;
  for (const core::NamedTensor& tensor : report.runs[run].manifest.named_tensors) {
    digests.emplace(std::pair(tensor.kind, std::string_view(tensor.name)), tensor.digest);
  }
  return digests;
}

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
  auto baseline = named_digests(report, 0);
  auto candidate = named_digests(report, 1);
  for (const comparators::NamedTensorDifference& tensor : report.named_tensors) {
    const std::string& name = tensor.candidate_name.empty() ? tensor.name : tensor.candidate_name;
    DigestPair digests{baseline[{tensor.kind, tensor.name}], candidate[{tensor.kind, name}]};
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
    items.push_back({{"missing_in", kSides.at(op->baseline_index ? 0 : 1)},
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
  } else if (report.status == Status::kReproducible) {
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

void describe_alignment(auto f, Of<decltype(f), Report>& report) {
  auto& alignment = report.alignment;
  describe_word(f.at("mode"), alignment.by_position, kModes);
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
  if (f.has("resume", report.resume.has_value())) f("resume", report.resume);
  if (f.has("steps", !report.steps.empty())) f("steps", report.steps);
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

namespace {

core::Error refused(const std::string& origin, const std::string& why) {
  return {core::ErrorKind::kUsage,
          origin + " cannot be rendered: " + why,
          "give a JSON report as `--format json` or `--report json=FILE` wrote it"};
}

/// Takes out what is made of things that the JSON does not hold.
Json comparable(Json json) {
  for (const char* key : {"name", "version", "dump_format"}) json["tool"].erase(key);
  for (Json& run : json["runs"]) {
    for (const char* key : {"inputs_digest", "weights_digest", "platform_key"}) run.erase(key);
  }
  for (Json& pass : json["passes"]) pass.erase("headline");
  return json;
}

/// The first member in which two documents differ, in whatever order; empty where they do not.
std::string first_difference(const Json& read, const Json& made) {
  const Json changes = Json::diff(read, made);
  return changes.empty() ? std::string() : changes.front().at("path").get<std::string>();
}

/// No report of ours is as deep, and copying one that is much deeper takes the stack.
Json parse(std::string_view document, const std::string& origin) {
  constexpr int kDeepest = 64;
  bool is_too_deep = false;
  const auto look = [&](int depth, Json::parse_event_t, const Json&) {
    is_too_deep = is_too_deep || depth > kDeepest;
    return !is_too_deep;
  };
  Json json = Json::parse(document, look, false);
  if (json.is_discarded() && !is_too_deep) throw refused(origin, "it is no JSON, or not whole");
  if (is_too_deep) throw refused(origin, "it is nested too deeply for a report");
  return json;
}

void require_report(const Json& json, const std::string& origin) {
  if (!json.is_object() || !json.contains("format") || json.at("format") != "repro-check-report") {
    throw refused(origin, "it is no JSON report");
  }
  const Json version = json.value("version", Json());
  if (version == kReportVersion) return;
  throw refused(origin,
                "it is of version " + (version.is_string() ? version.get<std::string>() : "?") +
                    ", and this repro-check renders " + kReportVersion);
}

}  // namespace

ReadReports read_reports(std::string_view document, const std::string& origin) {
  const Json json = parse(document, origin);
  ReadReports read;
  const Json list = json.is_array() ? json : Json::array({json});
  if (list.empty()) throw refused(origin, "it holds no report");
  for (const Json& each : list) {
    require_report(each, origin);
    std::string difference;
    try {
      const bool is_first = read.reports.empty();
      Report& report = read.reports.emplace_back();
      std::string hdf5_version;
      GateOutcome gate;
      read_report(each, report, hdf5_version, gate);
      if (is_first) read.hdf5_version = hdf5_version;
      if (is_first && !each.at("gate").is_null()) read.gate = std::move(gate);
      RenderOptions options;
      options.hdf5_version = read.hdf5_version;
      options.gate = is_first && read.gate ? &*read.gate : nullptr;
      const Json again = Json::parse(render_json(report, options));
      difference = first_difference(comparable(each), comparable(again));
    } catch (const Json::exception& error) {
      throw refused(origin, std::string("a member is missing or of another type: ") + error.what());
    } catch (const std::logic_error& error) {
      throw refused(origin, error.what());
    }
    if (!difference.empty()) {
      throw refused(origin, difference + " does not agree with the rest of the report");
    }
  }
  return read;
}

}  // namespace repro_check::cmd
