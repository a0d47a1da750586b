// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/op_json.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <memory>
#include <utility>

#include "cmd/render/words.h"

namespace repro_check::cmd {

using comparators::MatchedBy;
using comparators::OpDivergence;
using comparators::OpState;
using comparators::RelHistogram;
using comparators::TensorComparison;
using comparators::TensorMetrics;
using comparators::TensorOutcome;

namespace {

// By MatchedBy and by TensorOutcome; what is no pair has no word.
constexpr std::array<std::string_view, 7> kMatchedBy{
    "", "position", "lcs", "anchor", "partial", "map", "order"};
constexpr std::array<std::string_view, 6> kOutcomes{
    "equal", "within_policy", "beyond_policy", "mismatch", "not_comparable", "skipped"};

std::string_view matched_by_name(MatchedBy how) {
  return kMatchedBy.at(static_cast<std::size_t>(how));
}
std::string_view outcome_name(TensorOutcome what) {
  return kOutcomes.at(static_cast<std::size_t>(what));
}

std::string_view fine_state_name(OpState state) {
  switch (state) {
    case OpState::kEqual:
      return "equal";
    case OpState::kWithin:
      return "within_policy";
    case OpState::kSkipped:
      return "skipped";
    default:
      return "not_judged";
  }
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
  std::string path;
  describe(f, path);
  if (!path.empty()) own_site(record).module_path = path;
}

void describe_module_type(JsonWriter f, const core::OpRecord& record) {
  if (record.site) text_or_null(f, record.site->module_type);
}

void describe_module_type(JsonReader f, core::OpRecord& record) {
  std::string type;
  describe(f, type);
  if (!type.empty()) own_site(record).module_type = type;
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
  f.at("phase").word(record.phase, core::Phase::kOptimizer, core::phase_name);
  describe_names(f, record);
  f("occurrence", occurrence);
}

void describe_call(auto f,
                   Of<decltype(f), OpDivergence>& op,
                   Of<decltype(f), core::OpRecord>& shown) {
  describe_key(f.at("key"), shown, op.occurrence);
  describe_indices(f.at("op_index"), op.baseline_index, op.candidate_index);
  describe_source(f.at("source"), shown);
  describe_module_type(f.at("module_type"), shown);
}

void describe_matched_by(auto f, Of<decltype(f), MatchedBy>& how) {
  f.at("matched_by").word(how, MatchedBy::kOrder, matched_by_name);
}

}  // namespace

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

void describe_names(auto f, Of<decltype(f), core::OpRecord>& record) {
  describe_operator(f.at("operator"), record);
  describe_module(f.at("module"), record);
}

void describe(auto f, Of<decltype(f), comparators::Relation>& relation) {
  f.word(relation, comparators::Relation::kMissing, relation_name);
}

void describe(auto f, Of<decltype(f), comparators::DivergenceKind>& kind) {
  f.word(kind, comparators::DivergenceKind::kExpectation, kind_name);
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
  f.at("outcome").word(tensor.outcome, TensorOutcome::kSkipped, outcome_name);
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
  describe_matched_by(f, op.matched_by);
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
  describe_matched_by(f, op.matched_by);
  f("relation", std::string(fine_state_name(state)));
  if (state != OpState::kEqual) f("outputs", op.outputs);
}

void describe_generators(auto f, Of<decltype(f), OpDivergence>& op) {
  f("baseline", op.baseline.generator);
  f("candidate", op.candidate.generator);
}

// Everything above, for both forms.
template void describe_names(JsonWriter, const core::OpRecord&);
template void describe_names(JsonReader, core::OpRecord&);
template void describe(JsonWriter, const comparators::Relation&);
template void describe(JsonReader, comparators::Relation&);
template void describe(JsonWriter, const comparators::DivergenceKind&);
template void describe(JsonReader, comparators::DivergenceKind&);
template void describe(JsonWriter, const TensorMetrics&);
template void describe(JsonReader, TensorMetrics&);
template void describe(JsonWriter, const comparators::Sample&);
template void describe(JsonReader, comparators::Sample&);
template void describe(JsonWriter, const TensorComparison&);
template void describe(JsonReader, TensorComparison&);
template void describe(JsonWriter, const core::GeneratorUse&);
template void describe(JsonReader, core::GeneratorUse&);
template void describe_call(JsonWriter, const OpDivergence&);
template void describe_call(JsonReader, OpDivergence&);
template void describe(JsonWriter, const OpDivergence&);
template void describe(JsonReader, OpDivergence&);
template void describe_generators(JsonWriter, const OpDivergence&);
template void describe_generators(JsonReader, OpDivergence&);

}  // namespace repro_check::cmd
