// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <memory>
#include <stdexcept>
#include <utility>

#include "cmd/render/json/json_alignment.h"
#include "cmd/render/json/json_fields.h"
#include "cmd/render/json/json_op.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::OpDivergence;
using comparators::TensorComparison;
using comparators::TensorMetrics;

core::Dtype read_dtype(const Json& json) {
  return core::parse_dtype(read_text(json)).value_or(core::Dtype::kUnknown);
}

void read_digest(const Json& json, core::TensorRecord& into) {
  if (json.is_null()) {
    into.state = core::ContentState::kNone;
    return;
  }
  const auto digest = core::parse_digest(read_text(json));
  if (!digest) throw std::invalid_argument("a digest has 32 hexadecimal digits");
  into.state = core::ContentState::kHashed;
  into.digest = *digest;
}

TensorComparison read_tensor(const Json& json, core::TensorRole role) {
  TensorComparison tensor;
  tensor.role = role;
  core::TensorRecord& b = tensor.baseline;
  core::TensorRecord& c = tensor.candidate;
  b.role = c.role = role;
  b.slot = c.slot = read_text(json.at("slot"));
  b.dtype = c.dtype = read_dtype(json.at("dtype"));
  b.shape = c.shape = read_shape(json.at("shape"));
  if (const Json& own = json.at("candidate_dtype"); !own.is_null()) c.dtype = read_dtype(own);
  if (const Json& own = json.at("candidate_shape"); !own.is_null()) c.shape = read_shape(own);
  read_digest(json.at("digest").at("baseline"), b);
  read_digest(json.at("digest").at("candidate"), c);
  tensor.outcome =
      read_enum(json.at("outcome"), comparators::TensorOutcome::kSkipped, outcome_name);
  tensor.note = read_text(json.at("note"));
  tensor.policy = read_text(json.at("policy"));
  if (const auto rule = read_optional_whole(json.at("rule"))) tensor.rule = *rule;
  if (const Json& slice = json.at("slice"); !slice.is_null()) {
    tensor.slice = core::ContentSlice{
        read_whole(slice.at("elements")), read_whole(slice.at("stride")), core::Digest{}};
  }
  if (const Json& noise = json.at("noise"); !noise.is_null()) {
    tensor.noise = comparators::NoiseDistance{read_number(noise.at("l2_rel_floor")),
                                              read_number(noise.at("max_abs_floor")),
                                              read_number(noise.at("times"))};
  }
  if (const Json& fp64 = json.at("fp64"); !fp64.is_null()) {
    tensor.fp64 = comparators::Fp64Distance{read_number(fp64.at("baseline_rmse")),
                                            read_number(fp64.at("candidate_rmse")),
                                            read_number(fp64.at("allowed"))};
  }
  tensor.metrics = read_metrics(json.at("metrics"));
  tensor.samples = read_samples(json.at("samples"));
  return tensor;
}

std::vector<TensorComparison> read_tensors(const Json& json, core::TensorRole role) {
  std::vector<TensorComparison> tensors;
  for (const Json& each : json) tensors.push_back(read_tensor(each, role));
  return tensors;
}

comparators::Cause read_sentence(const Json& json) {
  comparators::Cause cause;
  cause.kind = read_enum(json.at("name"), comparators::kLastCause, comparators::cause_name);
  cause.evidence = read_text(json.at("evidence"));
  cause.advice = read_text(json.at("advice"));
  return cause;
}

comparators::Cause read_cause(const Json& json) {
  if (json.is_null()) return {};
  comparators::Cause cause = read_sentence(json);
  for (const Json& further : json.at("also")) cause.also.push_back(read_sentence(further));
  cause.not_recorded = read_texts(json.at("not_recorded"));
  return cause;
}

void read_counts(const Json& json, TensorMetrics& m) {
  const auto count = [&](const char* name, std::uint64_t& into) {
    into = read_whole(json.at(name));
  };
  count("elements", m.elements);
  count("n_diff", m.n_diff);
  count("n_beyond", m.n_beyond);
  count("n_finite", m.n_finite);
  m.first_diff = read_optional_whole(json.at("first_diff"));
  m.first_beyond = read_optional_whole(json.at("first_beyond"));
  count("zero_sign_only", m.zero_sign_only);
  count("nan_both_same", m.nan_both_same);
  count("nan_both_payload", m.nan_both_payload);
  count("nan_baseline", m.nan_baseline);
  count("nan_candidate", m.nan_candidate);
  count("inf_sign", m.inf_sign);
  count("inf_baseline", m.inf_baseline);
  count("inf_candidate", m.inf_candidate);
  count("noncanonical_bool", m.noncanonical_bool);
  count("false_to_true", m.false_to_true);
  count("true_to_false", m.true_to_false);
  count("zeros_both", m.zeros_both);
  count("flips", m.flips);
  count("flushed", m.flushed);
  count("saturated", m.saturated);
  count("zero_baseline", m.zero_baseline);
}

void read_histograms(const Json& json, TensorMetrics& m) {
  if (const Json& ulps = json.at("ulp_hist"); !ulps.is_null()) {
    auto& histogram = m.ulp_hist.emplace();
    for (std::size_t i = 0; i < histogram.size(); ++i) {
      histogram.at(i) = read_whole(ulps.at(std::string(comparators::kUlpBuckets.at(i))));
    }
  }
  const Json& errors = json.at("rel_hist");
  if (errors.is_null()) return;
  comparators::RelHistogram& histogram = m.rel_hist.emplace();
  histogram.zero = read_whole(errors.at("zero"));
  histogram.infinite = read_whole(errors.at("infinite"));
  for (const auto& [exponent, pairs] : errors.at("exponents").items()) {
    const std::int64_t place = read_integer(Json(exponent)) - comparators::RelHistogram::kLeast;
    histogram.exponents.at(static_cast<std::size_t>(place)) = read_whole(pairs);
  }
}

/// An integer is the exact distance of integers, which goes before the one in doubles.
void read_max_abs(const Json& json, TensorMetrics& m) {
  const bool is_long =
      json.is_string() && read_text(json).find_first_not_of("0123456789") == std::string::npos;
  if (json.is_number_unsigned() || is_long) {
    m.max_abs_exact = read_whole(json);
    m.max_abs = static_cast<double>(*m.max_abs_exact);
  } else {
    m.max_abs = read_metric(json);
  }
}

/// Of a side that was there: what names the operator, and its phase.
core::OpRecord read_side(const Json& json, std::uint64_t index) {
  const Json& key = json.at("key");
  core::OpRecord record;
  record.index = index;
  record.phase = read_enum(key.at("phase"), core::Phase::kOptimizer, core::phase_name);
  read_names(key.at("operator"), key.at("module"), json.at("source"), record);
  const std::string type = read_text(json.at("module_type"));
  if (record.site && !type.empty()) {
    auto site = std::make_shared<core::CallSite>(*record.site);
    site->module_type = type;
    record.site = std::move(site);
  }
  return record;
}

std::uint64_t read_position(const Json& json) {
  constexpr int kHexadecimal = 16;
  const std::string text = read_text(json);
  std::uint64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value, kHexadecimal);
  if (end.ec != std::errc{}) throw std::invalid_argument("a position is hexadecimal");
  return value;
}

std::optional<core::GeneratorUse> read_generator(const Json& json) {
  if (json.is_null()) return std::nullopt;
  const Json& drawn = json.at("drawn");
  return core::GeneratorUse{read_text(json.at("device")),
                            read_whole(json.at("seed")),
                            read_position(json.at("before")),
                            read_position(json.at("after")),
                            drawn.is_null() ? -1 : read_integer(drawn)};
}

}  // namespace

std::optional<TensorMetrics> read_metrics(const Json& json) {
  if (json.is_null()) return std::nullopt;
  TensorMetrics m;
  read_counts(json, m);
  read_histograms(json, m);
  const auto metric = [&](const char* name) { return read_metric(json.at(name)); };
  read_max_abs(json.at("max_abs"), m);
  m.max_abs_index = read_optional_whole(json.at("max_abs_index"));
  m.mean_abs = metric("mean_abs");
  m.max_rel = metric("max_rel");
  m.max_rel_index = read_optional_whole(json.at("max_rel_index"));
  m.max_rel_finite = metric("max_rel_finite");
  m.mean_rel = metric("mean_rel");
  m.ulp_max = read_optional_whole(json.at("ulp_max"));
  m.ulp_mean = metric("ulp_mean");
  m.rmse = metric("rmse");
  m.nmse = metric("nmse");
  m.l2_rel = metric("l2_rel");
  m.cosine = metric("cosine");
  m.norm_ratio = metric("norm_ratio");
  m.within_1e3 = metric("within_1e-3");
  m.within_5e3 = metric("within_5e-3");
  m.rtol_needed = metric("rtol_needed");
  m.atol_needed = metric("atol_needed");
  m.rtol_given_atol = metric("rtol_given_atol");
  m.atol_given_rtol = metric("atol_given_rtol");
  return m;
}

std::vector<comparators::Sample> read_samples(const Json& json) {
  std::vector<comparators::Sample> samples;
  for (const Json& each : json) {
    comparators::Sample sample;
    sample.flat_index = read_whole(each.at("flat_index"));
    sample.index = read_shape(each.at("index"));
    sample.baseline = read_text(each.at("baseline").at("value"));
    sample.baseline_bits = read_text(each.at("baseline").at("bits"));
    sample.candidate = read_text(each.at("candidate").at("value"));
    sample.candidate_bits = read_text(each.at("candidate").at("bits"));
    sample.ulp = read_optional_whole(each.at("ulp"));
    samples.push_back(std::move(sample));
  }
  return samples;
}

namespace {

/// What names it.
OpDivergence read_call(const Json& json) {
  OpDivergence op;
  op.baseline_index = read_optional_whole(json.at("op_index").at("baseline"));
  op.candidate_index = read_optional_whole(json.at("op_index").at("candidate"));
  if (op.baseline_index) op.baseline = read_side(json, *op.baseline_index);
  if (op.candidate_index) op.candidate = read_side(json, *op.candidate_index);
  op.occurrence = read_whole(json.at("key").at("occurrence"));
  return op;
}

}  // namespace

OpDivergence read_found_op(const Json& json) {
  OpDivergence op = read_call(json);
  if (const Json& differs = json.at("differs"); !differs.is_null()) {
    op.notes = {read_text(differs)};
  }
  return op;
}

OpDivergence read_op(const Json& json) {
  OpDivergence op = read_call(json);
  op.matched_by = read_enum(
      json.at("matched_by"), comparators::MatchedBy::kOrder, [](comparators::MatchedBy how) {
        return read_text(json_matched_by(how));
      });
  op.relation = read_enum(json.at("relation"), comparators::Relation::kMissing, relation_name);
  op.kind = read_enum(json.at("kind"), comparators::DivergenceKind::kExpectation, kind_name);
  op.outputs = read_tensors(json.at("outputs"), core::TensorRole::kOutput);
  op.inputs = read_tensors(json.at("inputs"), core::TensorRole::kInput);
  for (const Json& producer : json.at("producers")) op.producers.push_back(read_whole(producer));
  op.notes = read_texts(json.at("notes"));
  op.cause = read_cause(json.at("cause"));
  op.severity = read_number(json.at("severity"));
  return op;
}

void read_generators(const Json& json, OpDivergence& into) {
  into.baseline.generator = read_generator(json.at("baseline"));
  into.candidate.generator = read_generator(json.at("candidate"));
}

comparators::Coverage read_coverage(const Json& json) {
  comparators::Coverage c;
  const auto count = [&](const char* name) { return read_whole(json.at(name)); };
  c.baseline_ops = count("baseline_ops");
  c.candidate_ops = count("candidate_ops");
  c.compared = count("compared");
  c.equal = count("equal");
  c.within_policy = count("within_policy");
  c.diverged = count("diverged");
  c.origins = count("origins");
  c.propagated = count("propagated");
  c.mismatched = count("mismatched");
  c.missing_in_baseline = count("missing_in_baseline");
  c.missing_in_candidate = count("missing_in_candidate");
  c.skipped = count("skipped");
  c.not_judged = count("not_judged");
  c.tensors = count("tensors");
  c.outputs = count("outputs");
  c.metadata_only = count("metadata_only");
  c.ignored = count("ignored");
  c.not_judged_tensors = count("not_judged_tensors");
  c.elements = count("elements");
  c.bytes = count("bytes");
  c.sliced = count("sliced");
  return c;
}

}  // namespace repro_check::cmd
