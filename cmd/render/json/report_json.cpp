// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/report_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "cmd/words/catalogue.h"
#include "cmd/words/causes.h"
#include "cmd/words/fields.h"
#include "cmd/words/finding_words.h"
#include "cmd/words/report_words.h"
#include "comparators/compare.h"
#include "core/error.h"
#include "core/text/text.h"
#include "core/trace/given_seed.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {

using comparators::OpState;
using comparators::RelHistogram;
using comparators::TensorComparison;
using comparators::TensorMetrics;
using core::NamedTensorKind;

namespace {

// By what is asked of them: whether it is the baseline, whether pairs are found by position.
constexpr std::string_view kSides = "candidate|baseline";
constexpr std::string_view kModes = "keyed|strict";

/// A record's place as something that can be changed.
core::CallSite& own_site(core::OpRecord& record) {
  auto site = std::make_shared<core::CallSite>(record.site ? *record.site : core::CallSite{});
  core::CallSite& own = *site;
  record.site = std::move(site);
  return own;
}

std::shared_ptr<const core::OperatorInfo> operator_called(const std::string& full) {
  const std::size_t dot = full.rfind('.');
  const bool has_overload = dot != std::string::npos && dot + 1 < full.size();
  return std::make_shared<core::OperatorInfo>(
      has_overload ? core::OperatorInfo{full.substr(0, dot), full.substr(dot + 1), false}
                   : core::OperatorInfo{full, "", false});
}

/// `operator` and `module` of a record.
void describe_names(auto f, Of<decltype(f), core::OpRecord>& record) {
  std::string name = record.op ? record.op->full_name() : "";
  std::string module(module_of(record));
  f("operator", name)("module", module);
  if constexpr (f.kReads) {
    if (!name.empty()) record.op = operator_called(name);
    if (!module.empty()) own_site(record).module_path = module;
  }
}

/// {file, line, column}; null when not known.
void describe_source(JsonWriter f, const core::OpRecord& record) {
  const core::SourceFrame* frame = record.site ? core::display_frame(*record.site) : nullptr;
  if (frame == nullptr) return;
  f("file", frame->file)("line", frame->line == 0 ? std::nullopt : std::optional(frame->line));
  f("column", std::optional<std::uint32_t>());
}

void describe_source(JsonReader f, core::OpRecord& record) {
  if (f.json().is_null()) return;
  core::SourceFrame frame;
  std::optional<std::uint32_t> line;
  f("file", frame.file)("line", line);
  frame.line = line.value_or(0);
  own_site(record).frames.push_back(std::move(frame));
}

// An integer is the exact distance of integers, which goes before the one in doubles.
void describe_max_abs(JsonWriter f, const TensorMetrics& m) {
  f.json() = m.max_abs_exact ? json_integer(*m.max_abs_exact) : json_of(m.max_abs);
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

void describe_position(auto f, Of<decltype(f), std::uint64_t>& position) {
  constexpr int kHexadecimal = 16;
  std::string text = fmt::format("{:016x}", position);
  describe(f, text);
  if constexpr (f.kReads) {
    const char* end = text.data() + text.size();
    if (std::from_chars(text.data(), end, position, kHexadecimal).ec == std::errc{}) return;
    f.refuse("a position is hexadecimal");
  }
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

void describe_key(auto f,
                  Of<decltype(f), core::OpRecord>& record,
                  Of<decltype(f), std::uint64_t>& occurrence) {
  f.at("phase").word(record.phase, core::kLastPhase, core::name_of<core::Phase>);
  describe_names(f, record);
  f("occurrence", occurrence);
  // Of a model, which most reports are about, it is that of a call; 0 is left out.
  f.unless_empty("step", record.step);
}

void describe_call(auto f,
                   Of<decltype(f), OpDivergence>& op,
                   Of<decltype(f), core::OpRecord>& shown) {
  describe_key(f.at("key"), shown, op.occurrence);
  f("op_index", Sides{op.baseline_index, op.candidate_index});
  describe_source(f.at("source"), shown);
  std::string type = shown.site ? shown.site->module_type : "";
  f("module_type", OrNull{type});
  if constexpr (f.kReads) {
    if (!type.empty()) own_site(shown).module_type = type;
  }
}

}  // namespace

// Looked up by what they describe, and so in no anonymous namespace.

void describe(auto f, Of<decltype(f), core::Dtype>& dtype) {
  if constexpr (f.kReads) {
    dtype = core::parse_dtype(f.json().template get<std::string>()).value_or(core::Dtype::kUnknown);
  } else {
    f.json() = core::dtype_name(dtype);
  }
}

void describe(auto f, Of<decltype(f), configs::PolicyKind>& kind) {
  f.word(kind, configs::PolicyKind::kIgnore, core::name_of<configs::PolicyKind>);
}

void describe(auto f, Of<decltype(f), comparators::UlpHistogram>& histogram) {
  for (std::size_t i = 0; i < histogram.size(); ++i) {
    f(word_at(comparators::kUlpBuckets, i), histogram.at(i));
  }
}

void describe(auto f, Of<decltype(f), RelHistogram>& it) {
  f MEMBER(zero) MEMBER(infinite);
  describe_exponents(f.at("exponents"), it);
}

void describe(auto f, Of<decltype(f), TensorMetrics>& it) {
  f MEMBER(elements) MEMBER(n_diff) MEMBER(n_beyond) MEMBER(n_finite) MEMBER(first_diff)
      MEMBER(first_beyond) MEMBER(zero_sign_only) MEMBER(nan_both_same) MEMBER(nan_both_payload);
  f MEMBER(nan_baseline) MEMBER(nan_candidate) MEMBER(inf_sign) MEMBER(inf_baseline)
      MEMBER(inf_candidate) MEMBER(noncanonical_bool) MEMBER(false_to_true) MEMBER(true_to_false);
  f MEMBER(zeros_both) MEMBER(flips) MEMBER(flushed) MEMBER(saturated);
  describe_max_abs(f.at("max_abs"), it);
  f MEMBER(max_abs_index) MEMBER(mean_abs) MEMBER(max_rel) MEMBER(max_rel_index)
      MEMBER(max_rel_finite) MEMBER(zero_baseline) MEMBER(mean_rel) MEMBER(ulp_max)
          MEMBER(ulp_mean);
  f MEMBER(ulp_hist) MEMBER(rel_hist);
  f.derived("rel_percentiles", [&] { return json_percentiles(it.rel_hist); });
  f MEMBER(rmse) MEMBER(nmse) MEMBER(l2_rel) MEMBER(cosine) MEMBER(norm_ratio)
      NAMED("within_1e-3", within_1e3) NAMED("within_5e-3", within_5e3) MEMBER(rtol_needed)
          MEMBER(atol_needed);
  f MEMBER(rtol_given_atol) MEMBER(atol_given_rtol);
}

void describe(auto f, Of<decltype(f), comparators::Sample>& it) {
  f MEMBER(flat_index) MEMBER(index);
  describe_side(f.at("baseline"), it.baseline, it.baseline_bits);
  describe_side(f.at("candidate"), it.candidate, it.candidate_bits);
  f MEMBER(ulp);
}

DESCRIBE(core::ContentSlice, MEMBER(elements) MEMBER(stride))

DESCRIBE(comparators::NoiseDistance, MEMBER(l2_rel_floor) MEMBER(max_abs_floor) MEMBER(times))

DESCRIBE(comparators::Fp64Distance, MEMBER(baseline_rmse) MEMBER(candidate_rmse) MEMBER(allowed))

void describe(auto f, Of<decltype(f), TensorComparison>& it) {
  auto& b = it.baseline;
  auto& c = it.candidate;
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
  f MEMBER(outcome) SENTENCE(note) TEXT(policy) SOMETIMES(policy_kind) MEMBER(rule) MEMBER(slice)
      MEMBER(noise) MEMBER(fp64) MEMBER(metrics) MEMBER(samples);
}

void describe(auto f, Of<decltype(f), comparators::Cause>& it) {
  if constexpr (f.kReads) {
    if (f.json().is_null()) return;
  } else {
    const bool has_none = it.kind == comparators::CauseKind::kNone;
    if (has_none && it.evidence.empty() && !it.advice) return;
  }
  describe_words(f, it);
  f.at("also").items(it.also, [](auto item, auto& further) { describe_words(item, further); });
  f MEMBER(not_recorded);
}

void describe(auto f, Of<decltype(f), core::GeneratorUse>& it) {
  f MEMBER(device) MEMBER(seed);
  describe_position(f.at("before"), it.position_before);
  describe_position(f.at("after"), it.position_after);
  if (auto drawn = f.part("drawn", it.drawn >= 0)) describe(*drawn, it.drawn);
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

void describe(auto f, Of<decltype(f), OpDivergence>& it) {
  describe_call(f, it);
  f MEMBER(matched_by) MEMBER(relation) MEMBER(kind);
  f.derived("rule", [&] {
    const auto* leading = leading_output(it);
    return leading == nullptr ? Json() : json_of(leading->rule);
  });
  describe_tensors(f.at("outputs"), core::TensorRole::kOutput, it.outputs);
  f MEMBER(producers);
  describe_tensors(f.at("inputs"), core::TensorRole::kInput, it.inputs);
  f MEMBER(notes) SOMETIMES(replaced) MEMBER(cause) MEMBER(severity) SOMETIMES(code);
}

void describe_fine(JsonWriter f, const OpDivergence& op, OpState state) {
  f.json()["key"] = json_key(op);
  f("op_index", Sides{op.baseline_index, op.candidate_index});
  f("matched_by", op.matched_by);
  f("relation", state);
  if (state != OpState::kEqual) f("outputs", op.outputs);
}

void describe_generators(auto f, Of<decltype(f), OpDivergence>& it) {
  f NAMED("baseline", baseline.generator) NAMED("candidate", candidate.generator);
}

template void describe(JsonWriter, const TensorMetrics&);
template void describe(JsonWriter, const core::GeneratorUse&);

namespace {

// Which side is nearer to the float64 result, which is all that is said of the ratio.
void describe_nearer(auto f, Of<decltype(f), std::optional<double>>& ratio) {
  std::string side = !ratio ? "" : *ratio == 1 ? "neither" : *ratio > 1 ? "candidate" : "baseline";
  describe(f, OrNull{side});
  if constexpr (f.kReads) {
    if (!side.empty()) ratio = side == "neither" ? 1.0 : side == "candidate" ? 2.0 : 0.5;
  }
}

void describe_found(auto f, Of<decltype(f), OpDivergence>& op) {
  describe_call(f, op);
  if constexpr (f.kReads) {
    std::string differs;
    f("differs", OrNull{differs});
    if (!differs.empty()) op.notes = {differs};
  } else if (const auto differs = f.part("differs", !op.outputs.empty() || !notes_of(op).empty())) {
    describe(*differs, op_amount(op));
  }
}

}  // namespace

void describe(auto f, Of<decltype(f), comparators::Coverage>& it) {
  f MEMBER(baseline_ops) MEMBER(candidate_ops) MEMBER(compared) MEMBER(equal) MEMBER(within_policy)
      MEMBER(diverged) MEMBER(origins) MEMBER(propagated) MEMBER(mismatched);
  f MEMBER(missing_in_baseline) MEMBER(missing_in_candidate) MEMBER(skipped) MEMBER(not_judged)
      MEMBER(tensors) MEMBER(outputs) MEMBER(metadata_only) MEMBER(ignored);
  f MEMBER(not_judged_tensors) MEMBER(elements) MEMBER(bytes) MEMBER(sliced)
      SOMETIMES(without_content) SOMETIMES(fused_baseline) SOMETIMES(fused_candidate)
          SOMETIMES(replaced_baseline) SOMETIMES(replaced_candidate);
}

DESCRIBE(comparators::OperatorCount, MEMBER(name) MEMBER(calls))

DESCRIBE(comparators::StepSeries,
         NAMED("number", kind) MEMBER(ordinal) MEMBER(stride) MEMBER(first_apart) MEMBER(steps)
             MEMBER(baseline) MEMBER(candidate))

void describe(auto f, Of<decltype(f), comparators::DataComparison>& it) {
  f TEXT(loader).at("verdict").word(
      it.verdict, comparators::kLastDataVerdict, comparators::data_verdict_name);
  f MEMBER(batches) MEMBER(step) MEMBER(epoch) MEMBER(batch);
  f.derived("what", [&] { return json_text(words_of(it.finding).evidence); });
  f.derived("mend", [&] {
    const std::string fix = words_of(it.finding).fix;
    return json_of(OrNull{fix});
  });
  f MEMBER(finding);
}

DESCRIBE(comparators::ReturnedValues,
         MEMBER(baseline) MEMBER(candidate) MEMBER(compared) MEMBER(equal) MEMBER(within_policy)
             MEMBER(diverged) MEMBER(skipped) MEMBER(not_judged) MEMBER(missing) MEMBER(tensors)
                 MEMBER(others) MEMBER(opaque) MEMBER(first))

void describe(auto f, Of<decltype(f), comparators::ChangedOperators>& it) {
  f MEMBER(baseline) MEMBER(candidate).derived("total", [&] { return json_integer(it.total()); });
  f MEMBER(differing) MEMBER(baseline_only) MEMBER(candidate_only) MEMBER(kinds_baseline)
      MEMBER(kinds_candidate);
  const auto first = f.part("first", it.first_index.has_value());
  if (!first) return;
  describe_word(first->at("in"), it.first_in_baseline, kSides);
  (*first) NAMED("op_index", first_index);
  describe_names(*first, it.first);
  describe_source(first->at("source"), it.first);
  if constexpr (f.kReads) it.first.index = *it.first_index;
}

DESCRIBE(comparators::NumbersSummary,
         MEMBER(by_name) MEMBER(judged) MEMBER(not_recorded) MEMBER(steps) MEMBER(results)
             MEMBER(operators))

DESCRIBE(comparators::RuleUse, MEMBER(match) MEMBER(policy) MEMBER(tensors))

DESCRIBE(comparators::Screened, MEMBER(tensors) MEMBER(elements) MEMBER(beyond))

DESCRIBE(comparators::Difference,
         MEMBER(pointer) MEMBER(baseline) MEMBER(candidate) MEMBER(affects_numbers))

void describe(auto f, Of<decltype(f), comparators::NamedTensorDifference>& it) {
  std::string pointer = fmt::format("{}.{}", core::name_of(it.kind), it.name);
  f("pointer", pointer) MEMBER(baseline) MEMBER(candidate);
  f.derived("affects_numbers", [] { return Json(true); });
  f SENTENCE(note) MEMBER(metrics) MEMBER(samples);
  if constexpr (f.kReads) {
    const std::size_t dot = pointer.find('.');
    JsonReader(Json(pointer.substr(0, dot)))
        .word(it.kind, NamedTensorKind::kBuffer, core::name_of<NamedTensorKind>);
    it.name = pointer.substr(dot + 1);
  }
}

void describe(auto f, Of<decltype(f), core::BlockRow>& it) {
  f MEMBER(step) MEMBER(path) MEMBER(call);
  f.at("phase").word(it.phase, core::kLastPhase, core::name_of<core::Phase>);
  f MEMBER(training) MEMBER(in) MEMBER(out) MEMBER(unopened);
}

DESCRIBE(comparators::BlockDivergence,
         MEMBER(kind) MEMBER(input) MEMBER(of_baseline) MEMBER(position) MEMBER(counterpart)
             MEMBER(border) MEMBER(other_in) MEMBER(other_out) MEMBER(agreed))

DESCRIBE(comparators::ParameterDivergence,
         MEMBER(step) MEMBER(name) MEMBER(baseline) MEMBER(candidate) MEMBER(read_equal))

DESCRIBE(comparators::BlockComparison,
         MEMBER(blocks) MEMBER(steps) MEMBER(every) MEMBER(compared) MEMBER(differing)
             MEMBER(missing) MEMBER(unread) TEXT(first_unread) MEMBER(parameters) MEMBER(losses)
                 SOMETIMES(updates) SOMETIMES(exchanges) MEMBER(parameters_differing)
                     MEMBER(parameters_unread) MEMBER(unopened) MEMBER(not_seen) MEMBER(first)
                         MEMBER(first_parameter) SOMETIMES(settled) SOMETIMES(of_threads)
                             SOMETIMES(borders_aside))

DESCRIBE(comparators::RandomDraws,
         MEMBER(operators) MEMBER(devices) MEMBER(seeds) MEMBER(parting) SOMETIMES(of_host))

void describe(auto f, Of<decltype(f), comparators::RestoredState>& it) {
  f.at("kind").word(it.kind, comparators::kLastState, comparators::state_name);
  f.at("outcome").word(it.outcome, comparators::kLastRestored, comparators::restored_name);
  // A finding has the phrases: the sentence alone would not bring them back.
  f MEMBER(items) MEMBER(differing) TEXT(name)("phrases", it.detail) TEXT(place) MEMBER(moved);
  f.derived("detail", [&] { return json_of(Sentence{it.detail}); });
}

DESCRIBE(comparators::ResumeSummary,
         MEMBER(step) TEXT(saved) SOMETIMES(before_update) TEXT(loaded) MEMBER(files)
             SIDES("op_index", baseline_op, candidate_op) MEMBER(first_calls) MEMBER(states))

DESCRIBE(comparators::GrowthStep,
         NAMED("op_index", op) NAMED("operator", operator_name) NAMED("module", module_path)
             MEMBER(in) MEMBER(out) MEMBER(factor))

void describe(auto f, Of<decltype(f), comparators::Origin>& it) {
  f SIDES("op_index", baseline_index, candidate_index);
  describe_names(f, it.record);
  describe_source(f.at("source"), it.record);
  f MEMBER(relation);
  const auto title = [](comparators::CauseKind kind) -> std::string_view {
    return row_of(kind).title;
  };
  f.at("cause").word(it.cause, comparators::kLastCause, title);
  f MEMBER(beyond_policy) MEMBER(l2_rel) MEMBER(tainted);
  f.at("final_values") NAMED("total", outputs_total) NAMED("ops", outputs);
  f.at("path") NAMED("steps", path_steps) NAMED("items", path);
}

DESCRIBE(comparators::Growth,
         MEMBER(first) MEMBER(last) MEMBER(ratio) MEMBER(steepest) MEMBER(amplified) MEMBER(damped)
             MEMBER(carried) MEMBER(absorbed) MEMBER(steep) MEMBER(exceeded))

DESCRIBE(comparators::Interval, MEMBER(low) MEMBER(high))

void describe(auto f, Of<decltype(f), comparators::FlakyOp>& it) {
  f NAMED("op_index", index);
  describe_names(f, it.record);
  f.derived("runs", [&] { return json_integer(it.runs()); });
  f MEMBER(counts) MEMBER(disagreement) MEMBER(differs) MEMBER(l2_rel) MEMBER(ulp_max);
}

void describe(auto f, Of<decltype(f), comparators::OpRepeatability>& it) {
  f MEMBER(runs) MEMBER(assessed) MEMBER(flaky);
  f.derived("stable", [&] { return json_integer(it.assessed - it.flaky); });
  f MEMBER(not_assessed);
  f.derived("shown", [&] { return Json(it.ops.size()); });
  f NAMED("items", ops) MEMBER(notes);
}

DESCRIBE(comparators::RepeatedRun,
         MEMBER(name) NAMED_TEXT("dump", location) TEXT(status) MEMBER(first_divergence))

void describe(auto f, Of<decltype(f), comparators::Decision>& it) {
  f SIDES("op_index", baseline_index, candidate_index);
  describe_names(f, it.op);
  f SIDES("value", baseline, candidate);
  describe_source(f.at("source"), it.op);
}

void describe(auto f, Of<decltype(f), comparators::ControlFlow>& it) {
  f SIDES("last_common", last_common_baseline, last_common_candidate);
  f.at("next")("baseline", OrNull{it.baseline_next})("candidate", OrNull{it.candidate_next});
  f SIDES("unmatched", unmatched_baseline, unmatched_candidate) MEMBER(rejoined) MEMBER(decision);
  if (const auto after = f.part("after", it.last_common_baseline.has_value())) {
    describe_names(*after, it.last_common);
    describe_source(after->at("source"), it.last_common);
  }
}

DESCRIBE(comparators::NameMapUse::Entry,
         MEMBER(line) MEMBER(kind) MEMBER(pattern) MEMBER(replacement) MEMBER(operators)
             MEMBER(tensors))

DESCRIBE(comparators::NameMapUse, MEMBER(file) MEMBER(entries))

DESCRIBE(baselines::Change, MEMBER(name) MEMBER(accepted) MEMBER(now))

/// Of a trace what was left out of it.
DESCRIBE(core::TraceSummary, MEMBER(include) MEMBER(exclude) SOMETIMES(only) SOMETIMES(optimizer))

void describe(auto f, Of<decltype(f), comparators::RankDivergence>& it) {
  describe_word(f.at("in"), it.in_baseline, kSides);
  f MEMBER(op_index);
  describe_names(f, it.op);
}

void describe(auto f, Of<decltype(f), comparators::ReplayEvidence::Setting>& it) {
  describe_word(f.at("run"), it.of_baseline, kSides);
  f TEXT(isa) MEMBER(cpu_capability) MEMBER(threads) MEMBER(calls) MEMBER(results)
      MEMBER(as_recorded);
}

void describe(auto f, Of<decltype(f), comparators::ReplayEvidence>& it) {
  f SIDES("op_index", baseline_op, candidate_op) TEXT(problem) MEMBER(same_inputs) MEMBER(settings);
  const auto reference = f.at("float64") MEMBER(baseline_rmse) MEMBER(candidate_rmse);
  describe_nearer(reference.at("nearer"), it.reference_ratio);
  describe_texts(f.at("sentences"), it.sentences);
}

DESCRIBE(comparators::ObserverFinding,
         MEMBER(run) MEMBER(outcome) MEMBER(outputs) TEXT(level) TEXT(output) TEXT(detail))

void describe(auto f, Of<decltype(f), comparators::ExpectedOutcome>& it) {
  f MEMBER(match) MEMBER(reason) TEXT(issue) MEMBER(owner) MEMBER(expires) NAMED("outcome", what)
      MEMBER(operators) SENTENCE(detail);
  f.at("found").items(it.found, [](auto item, auto& op) { describe_found(item, op); });
}

namespace {

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
  return core::to_hex(core::digest_bytes(text));
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

void describe_threads(auto f, Of<decltype(f), core::RunManifest>& m) {
  auto count = core::parse_number<std::uint64_t>(
      core::text_or_empty(core::used_setting(m, "threads.intra_op")));
  describe(f, count);
  if constexpr (f.kReads) {
    if (!count || m.created.empty()) return;
    m.settings.push_back({"threads.intra_op", std::to_string(*count), std::to_string(*count)});
  }
}

// The dump that holds contents of a run's, and whether it was there to be read.
void describe_reference(auto f, Of<decltype(f), RunSummary>& run) {
  auto& reference = run.manifest.trace.reference;
  const auto there = f.part("reference", reference.has_value());
  if (!there) return;
  if constexpr (f.kReads) reference.emplace();
  bool given = run.missing_reference.empty();
  auto& it = *reference;
  (*there) NAMED("run", run_name) MEMBER(index_digest) MEMBER(contents)
      MEMBER(bytes)("given", given);
  if constexpr (f.kReads) run.missing_reference = given ? "" : "it was not given";
}

void describe_run(auto f, Of<decltype(f), RunSummary>& it, bool is_baseline) {
  auto& m = it.manifest;
  const bool known = is_known(m);
  const auto put = [&](std::string_view key, auto& value) {
    if (const auto member = f.part(key, known)) describe(*member, value);
  };
  f MEMBER(name).derived("role", [&] { return Json(word_at(kSides, is_baseline ? 1 : 0)); });
  f NAMED_TEXT("dump", location) MEMBER(status) TEXT(signal) MEMBER(last_op);
  put("device", m.device);
  if constexpr (f.kReads) m.created = f.json().at("device").is_null() ? "" : "unknown";
  describe_threads(f.at("threads"), m);
  std::optional<std::uint64_t> seed = known ? core::given_seed(m) : std::nullopt;
  f("seed", seed);
  if constexpr (f.kReads) m.seed = seed.value_or(0);
  put("determinism", m.determinism);
  put("model_digest", m.model_digest);
  f.derived("inputs_digest", [&] { return digest_of_named(m, true); });
  f.derived("weights_digest", [&] { return digest_of_named(m, false); });
  f.derived("platform_key", [&] {
    const auto platform = baselines::platform_of(m);
    return platform ? json_text(core::to_hex(platform->key())) : Json();
  });
  put("seconds", m.seconds);
  f TEXT(message);
  put("level", m.trace.level);
  describe_ranges(f, "keep_ops", m.trace.keep_ops);
  describe_reference(f, it);
  f NAMED_TEXT("model", manifest.model_path);
  describe(f, m.trace);
  // Of programs alone, and so left out of most.
  if (f.has("method", m.is_of_program())) f("method", m.model_method);
  if constexpr (f.kReads) {
    if (!seed || !m.is_of_program()) return;
    m.settings.push_back({std::string(core::kSeededGenerator), "", std::to_string(*seed)});
  }
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
    describe(item, OrNull{version});
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
  f("hdf5", OrNull{hdf5_version});
}

void describe_verdict(auto f, Of<decltype(f), Report>& it) {
  f MEMBER(status) MEMBER(kind);
  f.derived("exit_code", [&] { return Json(static_cast<int>(exit_code_of(it))); });
  f.derived("headline", [&] { return json_text(verdict_line(it).raw()); });
  describe_texts(f.at("reasons"), it.reasons);
  f MEMBER(also);
  if constexpr (f.kReads) {
    std::string mend;
    f("mend", OrNull{mend});
    if (!mend.empty()) it.mend = as_said(std::move(mend));
  } else {
    const std::string mend = mend_of(it);
    f("mend", OrNull{mend});
  }
  f TEXT(policy) SOMETIMES(policy_kind) MEMBER(from_accepted);
}

void describe_differences(JsonWriter f, const Report& report) {
  describe(f, report.differences);
  for (const comparators::NamedTensorDifference& tensor : report.named_tensors) {
    describe(JsonWriter(f.json().emplace_back()), tensor);
  }
}

void describe_differences(JsonReader f, Report& report) {
  for (const Json& each : f.json()) {
    const bool is_of_tensor = each.contains("samples");
    is_of_tensor ? describe(JsonReader(each), report.named_tensors.emplace_back())
                 : describe(JsonReader(each), report.differences.emplace_back());
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
    items.push_back({{"missing_in", word_at(kSides, op->baseline_index ? 0 : 1)},
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
      item[std::string(word_of(relation))] = json_integer(counts[relation]);
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
    item("op_index", Sides{op->baseline_index, op->candidate_index});
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
    item("op_index", Sides{indices.first, indices.second});
    const auto found = by_index.find(indices);
    if (found != by_index.end()) describe_generators(item, *found->second);
  }
}

// What a round of recordings said by itself, under level auto.
void describe_pass(auto f, Of<decltype(f), Report>& it) {
  f MEMBER(status) MEMBER(kind);
  f.derived("headline", [&] { return json_text(verdict_line(it).raw()); });
  f MEMBER(coverage) MEMBER(first_divergence) SOMETIMES(blocks);
  f.at("runs").items(it.runs, [](auto item, auto& run) {
    auto& manifest = run.manifest;
    item("name", run.name)("dump", OrNull{run.location});
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

void describe_repeat(auto f, Of<decltype(f), comparators::RepeatSummary>& it) {
  f MEMBER(runs) MEMBER(judged) MEMBER(differing);
  f.derived("chance", [&] { return json_of(it.chance()); });
  f.derived("undetected", [&] { return json_undetected(it); });
  f.derived("first_is_odd", [&] { return Json(it.first_is_odd()); });
  f MEMBER(alike);
  if (const auto ops = f.part("operators", it.ops.runs != 0)) describe(*ops, it.ops);
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

void describe_alignment(auto f, Of<decltype(f), Report>& report) {
  auto& it = report.alignment;
  describe_word(f.at("mode"), it.by_position, kModes);
  f.at("matched") MEMBER(position) MEMBER(lcs) MEMBER(anchor) MEMBER(partial) MEMBER(map)
      MEMBER(order);
  f MEMBER(reordered) SIDES("left_out", left_out_baseline, left_out_candidate);
  auto& map = report.name_map;
  if (const auto part = f.part("name_map", !map.entries.empty())) describe(*part, map);
  f MEMBER(gave_up) MEMBER(work) MEMBER(work_limit);
}

void describe_gate(auto f, Of<decltype(f), GateOutcome>& it) {
  f NAMED("name", gate) MEMBER(runs) MEMBER(runs_agree) NAMED_TEXT("platform_key", key);
  f.at("baseline") NAMED("state", baseline) TEXT(file) MEMBER(changes) TEXT(summary) TEXT(nearest)
      MEMBER(nearest_changes);
  f TEXT(pending) TEXT(refusal) MEMBER(orphans) MEMBER(notes) TEXT(attempt) TEXT(config)
      SOMETIMES(flags);
}

Json note_json(const comparators::Phrase& note) {
  return {{"id", note.key},
          {"weight", "note"},
          {"where", Json::object()},
          {"fields", fields_json(note.fields)},
          {"title", ""},
          {"text", json_text(words_of(note))},
          {"fix", json_text(fix_of(note))}};
}

/// The lead first. Causes are read where they stand, with their operators; so are restored states
/// and loaders. A reason `decides`.
void describe_findings(JsonWriter f, const Report& it) {
  f.json() = Json::array();
  if (it.resume) {
    for (const comparators::RestoredState& state : it.resume->states) {
      if (const auto finding = finding_of(state)) f.json().push_back(json_of(*finding));
    }
  }
  for (Json& cause : cause_findings(it)) f.json().push_back(std::move(cause));
  for (const comparators::DataComparison& loader : it.data) {
    f.json().push_back(json_of(loader.finding));
  }
  for (const comparators::Finding& finding : it.findings) f.json().push_back(json_of(finding));
  for (const comparators::Phrase& reason : it.reasons) {
    f.json().push_back(note_json(reason));
    f.json().back()["decides"] = true;
  }
  for (const comparators::Phrase& warning : it.warnings) f.json().push_back(note_json(warning));
}
void describe_findings(JsonReader f, Report& it) {
  const auto decides = [](const Json& finding) { return finding.contains("decides"); };
  if (std::ranges::any_of(f.json(), decides)) it.reasons.clear();
  for (const Json& finding : f.json()) {
    const JsonReader each(finding, "findings");
    std::string id;
    each("id", id);
    if (comparators::cause_of_id(id)) continue;
    if (!phrase_text(id).empty()) {
      (decides(finding) ? it.reasons : it.warnings)
          .push_back(comparators::Phrase(id, fields_in(finding.at("fields"))));
      continue;
    }
    comparators::Finding read;
    describe(each, read);
    const std::string& table = row_of(read.id).table;
    if (table != "resume" && table != "loaders") it.findings.push_back(std::move(read));
  }
}

/// @param gate  null without one, and for a reader never
void describe_report(auto f,
                     Of<decltype(f), Report>& it,
                     Of<decltype(f), std::string>& hdf5_version,
                     Of<decltype(f), GateOutcome>* gate) {
  f.derived("format", [] { return Json("repro-check-report"); });
  f.derived("version", [] { return Json(kReportVersion); });
  describe_tool(f.at("tool"), it.runs, hdf5_version);
  describe_verdict(f.at("verdict"), it);
  f MEMBER(returned) MEMBER(coverage) SOMETIMES(without_content) MEMBER(rules) MEMBER(screened);
  describe_runs(f.at("runs"), it.runs);
  describe_differences(f.at("differences"), it);
  f MEMBER(first_divergence) MEMBER(first_bit_difference);
  describe_divergences(f.at("divergences"), it);
  f MEMBER(origins);
  describe(f.at("growth") NAMED("origins", origins_total) MEMBER(final_values), it.growth);
  f.at("passes").items(it.passes, [](auto item, auto& pass) { describe_pass(item, pass); });
  describe_repeat_of(f.at("repeat"), it);
  f MEMBER(control_flow);
  describe_alignment(f.at("alignment"), it);
  describe_ranks(f.at("ranks"), it);
  f.derived("missing", [&] { return json_missing(it); });
  f.derived("modules", [&] { return json_modules(it); });
  describe_all_generators(f.at("rng"), it);
  if (f.has("random", it.draws.operators != 0 || !it.draws.of_host.empty())) {
    f NAMED("random", draws);
  }
  f SOMETIMES(numbers) SOMETIMES(blocks) SOMETIMES(resume) SOMETIMES(steps) SOMETIMES(data)
      MEMBER(replay) MEMBER(observer);
  if (gate == nullptr) {
    f.derived("expected", [] { return Json::array(); });
    f.derived("gate", [] { return Json(); });
  } else {
    f("expected", gate->expected);
    if (const auto part = f.part("gate", true)) describe_gate(*part, *gate);
  }
  describe_findings(f.at("findings"), it);
  f.derived("warnings", [&] { return json_of(texts_of(it.warnings)); });
  if constexpr (!f.kReads) f.unless_empty("non_finite", non_finite_of(it));
  f.at("timing") NAMED("compare_seconds", seconds);
}

std::string line(const Json& json) { return to_document(json, false); }

}  // namespace

Json json_report(const Report& report, const RenderOptions& options) {
  Json out;
  describe_report(JsonWriter(out), report, options.hdf5_version, options.gate);
  return out;
}

Json json_summary(const Report& it, const GateOutcome* gate) {
  Json out;
  const JsonWriter f = JsonWriter(out) MEMBER(coverage) MEMBER(rules) MEMBER(growth)
      MEMBER(name_map) MEMBER(resume) MEMBER(observer) MEMBER(control_flow);
  if (it.repeat) describe_repeat(f.at("repeat"), *it.repeat);
  if (gate != nullptr) f("expected", gate->expected);
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
  f("policy", OrNull{report.policy});
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
  for (const std::string& warning : warnings_of(report)) {
    text += line(Json{{"type", "warning"}, {"text", json_text(warning)}});
  }
  Json out{{"type", "verdict"}};
  const JsonWriter f(out);
  describe_verdict(f, report);
  f("coverage", report.coverage)("shown", shown)(
      "total", std::max(shown, report.divergences_total))("compare_seconds", report.seconds);
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
  if (json.is_discarded() && !is_too_deep) throw refused(origin, "it is not JSON, or not complete");
  if (is_too_deep) throw refused(origin, "it is nested too deeply for a report");
  return json;
}

void require_report(const Json& json, const std::string& origin) {
  if (!json.is_object() || !json.contains("format") || json.at("format") != "repro-check-report") {
    throw refused(origin, "it is not a JSON report");
  }
  const Json version = json.value("version", Json());
  if (version == kReportVersion) return;
  throw refused(origin,
                "it is of version " + (version.is_string() ? version.get<std::string>() : "?") +
                    ", and this repro-check renders " + kReportVersion +
                    ": compare the dumps again");
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
