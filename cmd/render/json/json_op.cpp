// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_op.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "cmd/render/json/json_alignment.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::OpDivergence;
using comparators::Sample;
using comparators::TensorComparison;
using comparators::TensorOutcome;

Json digest_of(const core::TensorRecord& record) {
  const bool has_one = record.state == core::ContentState::kHashed;
  return has_one ? Json(core::to_hex(record.digest)) : Json(nullptr);
}

Json json_shape(const std::vector<std::int64_t>& shape) {
  Json out = Json::array();
  for (const std::int64_t size : shape) {
    out.push_back(json_integer(size));
  }
  return out;
}

Json json_tensor(const TensorComparison& tensor) {
  const core::TensorRecord& b = tensor.baseline;
  const core::TensorRecord& c = tensor.candidate;
  Json out;
  out["slot"] = json_text(b.slot.empty() ? c.slot : b.slot);
  out["dtype"] = core::dtype_name(b.dtype);
  out["shape"] = json_shape(b.shape);
  // The candidate's own, where they are not the baseline's.
  out["candidate_dtype"] = c.dtype == b.dtype ? Json(nullptr) : Json(core::dtype_name(c.dtype));
  out["candidate_shape"] = c.shape == b.shape ? Json(nullptr) : json_shape(c.shape);
  out["digest"] = Json{{"baseline", digest_of(b)}, {"candidate", digest_of(c)}};
  out["outcome"] = outcome_name(tensor.outcome);
  out["note"] = json_text_or_null(tensor.note);
  out["policy"] = json_text_or_null(tensor.policy);
  out["rule"] = tensor.rule ? Json(*tensor.rule) : Json(nullptr);
  out["slice"] = tensor.slice ? Json{{"elements", json_integer(tensor.slice->elements)},
                                     {"stride", json_integer(tensor.slice->stride)}}
                              : Json(nullptr);
  out["noise"] = tensor.noise ? Json{{"l2_rel_floor", json_number(tensor.noise->l2_rel_floor)},
                                     {"max_abs_floor", json_number(tensor.noise->max_abs_floor)},
                                     {"times", json_number(tensor.noise->times)}}
                              : Json(nullptr);
  out["fp64"] = tensor.fp64 ? Json{{"baseline_rmse", json_number(tensor.fp64->baseline_rmse)},
                                   {"candidate_rmse", json_number(tensor.fp64->candidate_rmse)},
                                   {"allowed", json_number(tensor.fp64->allowed)}}
                            : Json(nullptr);
  out["metrics"] = json_metrics(tensor.metrics);
  out["samples"] = json_samples(tensor.samples);
  return out;
}

Json texts(const std::vector<std::string>& lines) {
  Json out = Json::array();
  for (const std::string& line : lines) {
    out.push_back(json_text(line));
  }
  return out;
}

Json json_sentence(const comparators::Cause& cause) {
  return {{"name", cause.name()},
          {"evidence", json_text(cause.evidence)},
          {"advice", json_text(cause.advice)}};
}

Json json_cause(const comparators::Cause& cause) {
  if (cause.kind == comparators::CauseKind::kNone && cause.evidence.empty() &&
      cause.advice.empty()) {
    return nullptr;
  }
  Json out = json_sentence(cause);
  out["also"] = Json::array();
  for (const comparators::Cause& further : cause.also) {
    out["also"].push_back(json_sentence(further));
  }
  out["not_recorded"] = texts(cause.not_recorded);
  return out;
}

// The bits say exactly which number it is; the text says it to a person.
Json json_side(const std::string& text, const std::string& bits) {
  return {{"value", json_text(text)}, {"bits", json_text(bits)}};
}

Json json_generator(const std::optional<core::GeneratorUse>& use) {
  if (!use) {
    return nullptr;
  }
  return {{"device", json_text(use->device)},
          {"seed", json_integer(use->seed)},
          {"before", fmt::format("{:016x}", use->position_before)},
          {"after", fmt::format("{:016x}", use->position_after)},
          {"drawn", use->drawn < 0 ? Json(nullptr) : json_integer(use->drawn)}};
}

void put_counts(Json& out, const comparators::TensorMetrics& m) {
  out["elements"] = json_integer(m.elements);
  out["n_diff"] = json_integer(m.n_diff);
  out["n_beyond"] = json_integer(m.n_beyond);
  out["n_finite"] = json_integer(m.n_finite);
  out["first_diff"] = json_integer(m.first_diff);
  out["first_beyond"] = json_integer(m.first_beyond);
  out["zero_sign_only"] = json_integer(m.zero_sign_only);
  out["nan_both_same"] = json_integer(m.nan_both_same);
  out["nan_both_payload"] = json_integer(m.nan_both_payload);
  out["nan_baseline"] = json_integer(m.nan_baseline);
  out["nan_candidate"] = json_integer(m.nan_candidate);
  out["inf_sign"] = json_integer(m.inf_sign);
  out["inf_baseline"] = json_integer(m.inf_baseline);
  out["inf_candidate"] = json_integer(m.inf_candidate);
  out["noncanonical_bool"] = json_integer(m.noncanonical_bool);
  out["false_to_true"] = json_integer(m.false_to_true);
  out["true_to_false"] = json_integer(m.true_to_false);
  out["zeros_both"] = json_integer(m.zeros_both);
  out["flips"] = json_integer(m.flips);
  out["flushed"] = json_integer(m.flushed);
  out["saturated"] = json_integer(m.saturated);
}

Json json_ulps(const std::optional<comparators::UlpHistogram>& histogram) {
  if (!histogram) {
    return nullptr;
  }
  Json out;
  for (std::size_t i = 0; i < histogram->size(); ++i) {
    out[std::string(comparators::kUlpBuckets.at(i))] = json_integer(histogram->at(i));
  }
  return out;
}

// Most exponents have no pair at all, and are left out.
Json json_exponents(const std::optional<comparators::RelHistogram>& histogram) {
  if (!histogram) {
    return nullptr;
  }
  Json exponents = Json::object();
  for (std::size_t i = 0; i < histogram->exponents.size(); ++i) {
    if (histogram->exponents.at(i) != 0) {
      exponents[std::to_string(comparators::RelHistogram::kLeast + static_cast<int>(i))] =
          json_integer(histogram->exponents.at(i));
    }
  }
  return {{"zero", json_integer(histogram->zero)},
          {"infinite", json_integer(histogram->infinite)},
          {"exponents", std::move(exponents)}};
}

Json json_percentiles(const std::optional<comparators::RelHistogram>& histogram) {
  if (!histogram || !comparators::rel_percentile(*histogram, 1)) {
    return nullptr;
  }
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

}  // namespace

std::string_view outcome_name(TensorOutcome outcome) noexcept {
  switch (outcome) {
    case TensorOutcome::kEqual:
      return "equal";
    case TensorOutcome::kWithin:
      return "within_policy";
    case TensorOutcome::kBeyond:
      return "beyond_policy";
    case TensorOutcome::kMismatch:
      return "mismatch";
    case TensorOutcome::kUncomparable:
      return "not_comparable";
    case TensorOutcome::kSkipped:
      break;
  }
  return "skipped";
}

Json json_tensors(const std::vector<TensorComparison>& tensors) {
  Json out = Json::array();
  for (const auto& tensor : tensors) {
    out.push_back(json_tensor(tensor));
  }
  return out;
}

Json json_metrics(const std::optional<comparators::TensorMetrics>& metrics) {
  if (!metrics) {
    return nullptr;
  }
  const comparators::TensorMetrics& m = *metrics;
  Json out;
  put_counts(out, m);
  out["max_abs"] = m.max_abs_exact ? json_integer(*m.max_abs_exact) : json_number(m.max_abs);
  out["max_abs_index"] = json_integer(m.max_abs_index);
  out["mean_abs"] = json_number(m.mean_abs);
  out["max_rel"] = json_number(m.max_rel);
  out["max_rel_index"] = json_integer(m.max_rel_index);
  out["max_rel_finite"] = json_number(m.max_rel_finite);
  out["zero_baseline"] = json_integer(m.zero_baseline);
  out["mean_rel"] = json_number(m.mean_rel);
  out["ulp_max"] = json_integer(m.ulp_max);
  out["ulp_mean"] = json_number(m.ulp_mean);
  out["ulp_hist"] = json_ulps(m.ulp_hist);
  out["rel_hist"] = json_exponents(m.rel_hist);
  out["rel_percentiles"] = json_percentiles(m.rel_hist);
  out["rmse"] = json_number(m.rmse);
  out["nmse"] = json_number(m.nmse);
  out["l2_rel"] = json_number(m.l2_rel);
  out["cosine"] = json_number(m.cosine);
  out["norm_ratio"] = json_number(m.norm_ratio);
  out["within_1e-3"] = json_number(m.within_1e3);
  out["within_5e-3"] = json_number(m.within_5e3);
  out["rtol_needed"] = json_number(m.rtol_needed);
  out["atol_needed"] = json_number(m.atol_needed);
  out["rtol_given_atol"] = json_number(m.rtol_given_atol);
  out["atol_given_rtol"] = json_number(m.atol_given_rtol);
  return out;
}

Json json_samples(const std::vector<Sample>& samples) {
  Json out = Json::array();
  for (const Sample& sample : samples) {
    Json item;
    item["flat_index"] = json_integer(sample.flat_index);
    item["index"] = json_shape(sample.index);
    item["baseline"] = json_side(sample.baseline, sample.baseline_bits);
    item["candidate"] = json_side(sample.candidate, sample.candidate_bits);
    item["ulp"] = json_integer(sample.ulp);
    out.push_back(std::move(item));
  }
  return out;
}

Json json_key(const OpDivergence& op) {
  const core::OpRecord& record = shown_record(op);
  return {{"phase", core::phase_name(record.phase)},
          {"operator", json_text(record.op == nullptr ? "" : record.op->full_name())},
          {"module", json_text(record.site == nullptr ? "" : record.site->module_path)},
          {"occurrence", json_integer(op.occurrence)}};
}

Json json_op_index(const OpDivergence& op) {
  return {{"baseline", json_integer(op.baseline_index)},
          {"candidate", json_integer(op.candidate_index)}};
}

Json json_source(const core::OpRecord& record) {
  const core::SourceFrame* frame =
      record.site == nullptr ? nullptr : core::display_frame(*record.site);
  if (frame == nullptr) {
    return nullptr;
  }
  return {{"file", json_text(frame->file)},
          {"line", frame->line == 0 ? Json(nullptr) : Json(frame->line)},
          {"column", nullptr}};
}

Json json_rng(const OpDivergence& op) {
  if (!op.baseline.generator && !op.candidate.generator) {
    return nullptr;
  }
  return {{"op_index", json_op_index(op)},
          {"operator", json_key(op)["operator"]},
          {"baseline", json_generator(op.baseline.generator)},
          {"candidate", json_generator(op.candidate.generator)}};
}

Json json_op(const OpDivergence& op) {
  Json out;
  out["key"] = json_key(op);
  out["op_index"] = json_op_index(op);
  const core::OpRecord& shown = shown_record(op);
  out["source"] = json_source(shown);
  out["module_type"] = shown.site ? json_text_or_null(shown.site->module_type) : Json(nullptr);
  out["matched_by"] = json_matched_by(op.matched_by);
  out["relation"] = relation_name(op.relation);
  out["kind"] = json_text_or_null(kind_name(op.kind));
  const auto* leading = leading_output(op);
  out["rule"] = leading != nullptr && leading->rule ? Json(*leading->rule) : Json(nullptr);
  out["outputs"] = json_tensors(op.outputs);
  out["producers"] = Json::array();
  for (const std::uint64_t producer : op.producers) {
    out["producers"].push_back(json_integer(producer));
  }
  out["inputs"] = json_tensors(op.inputs);
  out["notes"] = texts(op.notes);
  out["cause"] = json_cause(op.cause);
  out["severity"] = json_number(op.severity);
  return out;
}

}  // namespace repro_check::cmd
