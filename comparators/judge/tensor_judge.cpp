// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/tensor_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "comparators/judge/op_tensors.h"
#include "comparators/measure/policy.h"
#include "comparators/measure/promotion.h"
#include "core/content/content_slice.h"
#include "core/error.h"
#include "core/tensor/tensor_view.h"

namespace repro_check::comparators::detail {
namespace {

using core::ContentState;
using core::TensorRecord;

/// Of memory that is written in part a record holds a digest of that part.
bool written_parts_differ(const TensorRecord& baseline, const TensorRecord& candidate) {
  const auto has_part = [](const TensorRecord& tensor) {
    return tensor.state == ContentState::kUninitialised && tensor.digest != core::Digest{};
  };
  return has_part(baseline) && has_part(candidate) && baseline.digest != candidate.digest;
}

}  // namespace

TensorJudge::TensorJudge(const core::DumpSource& baseline,
                         const core::DumpSource& candidate,
                         const CompareOptions& options)
    : baseline_(baseline),
      candidate_(candidate),
      options_(options),
      measurer_(options.spec.threads.value_or(0)),
      same_algorithm_(baseline.manifest().trace.digest_algorithm ==
                      candidate.manifest().trace.digest_algorithm),
      rules_(options.spec, options.noise.get()) {
  // Where both say where they ran, a tensor elsewhere is no matter of course.
  const bool same_device = baseline.manifest().device == candidate.manifest().device;
  attributes_.strict_strides = options.spec.strides == configs::AttributeRule::kStrict;
  attributes_.strict_device =
      options.spec.device ? *options.spec.device == configs::AttributeRule::kStrict : same_device;
}

void TensorJudge::note_damage(const std::string& sentence) {
  if (std::ranges::find(damage_, sentence) == damage_.end()) damage_.push_back(sentence);
}

std::optional<bool> TensorJudge::same_content(const core::ContentKey& baseline,
                                              const core::ContentKey& candidate,
                                              const std::string& where) {
  if (same_algorithm_) return baseline == candidate;
  if (baseline.dtype != candidate.dtype || baseline.shape != candidate.shape) return false;
  std::vector<std::byte> left;
  std::vector<std::byte> right;
  const auto read = [&](const core::DumpSource& source,
                        const core::ContentKey& key,
                        std::vector<std::byte>& into) {
    return source.has_content(key) &&
           attempt(source, where, [&] { source.read_content(key, into); });
  };
  if (!read(baseline_, baseline, left) || !read(candidate_, candidate, right)) return std::nullopt;
  return left == right;
}

void TensorJudge::judge_equal(const std::string& where,
                              const Choice& choice,
                              TensorComparison& comparison) {
  comparison.outcome = TensorOutcome::kEqual;
  const core::Dtype dtype = comparison.baseline.dtype;
  const bool may_be_nan = core::is_floating(dtype) || core::is_complex(dtype);
  if (choice.policy->equal_nan != configs::EqualNan::kNever || !may_be_nan) return;
  const std::optional<core::NonFinite> counts = comparison.baseline.non_finite();
  if (counts && counts->nans == 0) return;
  const core::ContentKey key = comparison.baseline.content_key();
  const auto measured = measure_pair(key, comparison.candidate.content_key(), where, choice);
  const auto nans = [](const TensorMetrics& m) { return m.nan_both_same + m.nan_both_payload; };
  // A slice without NaN says nothing of the rest.
  const bool unseen = !measured || (measured->slice && nans(measured->metrics) == 0);
  if (unseen && !counts) {
    comparison.outcome = TensorOutcome::kUncomparable;
    comparison.note = "whether there is NaN is not recorded, and equal_nan is \"never\"";
    return;
  }
  if (!unseen && nans(measured->metrics) == 0) return;
  comparison.outcome = TensorOutcome::kBeyond;
  if (measured) comparison.metrics = measured->metrics;
  comparison.note = "NaN on both sides, and equal_nan is \"never\"";
}

void TensorJudge::judge_unmeasured(Depth depth,
                                   const Choice& choice,
                                   TensorComparison& comparison) const {
  const bool other_dtype = comparison.baseline.dtype != comparison.candidate.dtype;
  if (depth != Depth::kValues || (digests_decide(*choice.policy) && !other_dtype)) {
    comparison.outcome = TensorOutcome::kBeyond;
    if (depth == Depth::kValues) comparison.note = "size unknown: no bytes to measure";
    return;
  }
  comparison.outcome = TensorOutcome::kUncomparable;
  comparison.note = other_dtype ? "dtypes differ, and there are no bytes to judge by"
                                : "digests differ, and there are no bytes to judge by";
}

void TensorJudge::judge_values(Depth depth,
                               const std::string& where,
                               const Choice& choice,
                               TensorComparison& comparison) {
  const core::ContentKey baseline = comparison.baseline.content_key();
  const core::ContentKey candidate = comparison.candidate.content_key();
  std::optional<Measured> measured;
  if (depth == Depth::kValues) {
    measured = measure_pair(baseline, candidate, where, choice);
  } else if (const Measured* known = remembered(baseline, candidate);
             known != nullptr && depth == Depth::kRemember) {
    measured = *known;
  }
  if (!measured) return judge_unmeasured(depth, choice, comparison);
  comparison.metrics = measured->metrics;
  comparison.samples = measured->samples;
  comparison.note = describe_metrics(*comparison.metrics);
  comparison.slice = measured->slice;
  if (baseline.dtype != candidate.dtype) {
    append_note(
        comparison.note,
        true,
        fmt::format(
            "{} against {}", core::dtype_name(baseline.dtype), core::dtype_name(candidate.dtype)));
  }
  append_note(comparison.note,
              choice.policy->flush_subnormals && comparison.metrics->n_diff == 0,
              "only subnormals differ, which count as zero");
  if (comparison.slice) return judge_slice(choice, comparison);
  if (comparison.baseline.role == core::TensorRole::kOutput &&
      !judge_by_yardstick(where, choice, *measured, comparison)) {
    comparison.outcome = TensorOutcome::kUncomparable;
    return;
  }
  const TensorVerdict& verdict = measured->verdict;
  append_note(comparison.note, !verdict.why.empty(), verdict.why);
  comparison.outcome = verdict.passes ? TensorOutcome::kWithin : TensorOutcome::kBeyond;
  const bool by_tolerance = choice.policy->kind == configs::PolicyKind::kTolerance &&
                            !choice.policy->flush_subnormals && baseline.dtype == candidate.dtype;
  if (verdict.passes || !by_tolerance || !comparison.note.empty()) return;
  comparison.note = first_beyond_text(
      comparison.samples, baseline.dtype, element_policy(*choice.policy, baseline.dtype));
}

/// What holds a pair against a third thing judges anew: another operator with the same pair may be
/// held against another one. Whoever reads what is remembered finds it judged as here.
bool TensorJudge::judge_by_yardstick(const std::string& where,
                                     const Choice& choice,
                                     Measured& measured,
                                     TensorComparison& comparison) {
  const core::ContentKey baseline = comparison.baseline.content_key();
  const core::ContentKey candidate = comparison.candidate.content_key();
  switch (choice.policy->kind) {
    case configs::PolicyKind::kNoise:
      if (choice.floor == nullptr) {
        append_note(comparison.note, true, "no noise floor for it");
        return false;
      }
      comparison.noise = noise_distance(measured.metrics, *choice.floor);
      measured.verdict = judge_noise(*choice.policy, measured.metrics, *choice.floor);
      break;
    case configs::PolicyKind::kFp64: {
      // Integers have no error to speak of, and a NaN on one side is no matter of size.
      const bool has_error = core::is_floating(baseline.dtype) || core::is_complex(baseline.dtype);
      if (!has_error || specials_fail(*choice.policy, measured.metrics)) return true;
      std::string why;
      comparison.fp64 = fp64_distance(baseline, candidate, where, choice, why);
      append_note(comparison.note, !why.empty(), why);
      if (!comparison.fp64) return false;
      measured.verdict = judge_fp64(*choice.policy, measured.metrics, *comparison.fp64);
      break;
    }
    default:
      return true;
  }
  measured_.insert_or_assign(PairKey(baseline, candidate, policy_id(choice)), measured);
  return true;
}

/// What a slice shows can fail a tensor and never pass it: the rest was not looked at.
void TensorJudge::judge_slice(const Choice& choice, TensorComparison& comparison) const {
  const auto total = static_cast<std::uint64_t>(core::element_count(comparison.baseline.shape));
  const std::string which = core::describe_slice(*comparison.slice, total);
  comparison.outcome = TensorOutcome::kBeyond;
  if (comparison.metrics->n_diff == 0) {
    comparison.metrics.reset();
    comparison.note = fmt::format("size unknown: {} are stored, and they are equal", which);
  } else if (elements_decide(*choice.policy) && comparison.metrics->n_beyond != 0) {
    return;
  }
  if (digests_decide(*choice.policy)) return;
  comparison.outcome = TensorOutcome::kUncomparable;
  comparison.note = fmt::format(
      "digests differ, and of what differs only {} are stored, which the policy lets pass", which);
}

TensorComparison TensorJudge::judge(const TensorPair& pair,
                                    Depth depth,
                                    const std::string& where,
                                    const Choice& choice) {
  const TensorRecord& baseline = pair.baseline;
  const TensorRecord& candidate = pair.candidate;
  TensorComparison comparison;
  comparison.role = baseline.role;
  comparison.baseline = baseline;
  comparison.candidate = candidate;
  const bool promoted =
      options_.spec.promote && baseline.dtype != candidate.dtype &&
      common_dtype(baseline.dtype, candidate.dtype, choice.policy->kind).has_value();
  // An input is judged where it was made, by its content; where it lies is the operator's matter.
  const AttributeRules rules =
      baseline.role == core::TensorRole::kOutput ? attributes_ : AttributeRules{};
  const auto quantisers = quantisers_of(baseline, candidate, choice.policy->kind);
  comparison.note = metadata_mismatch(
      baseline, candidate, rules, {.dtype = promoted, .quantiser = quantisers.has_value()});
  if (!comparison.note.empty()) {
    // A device that holds no values cannot contradict one that does.
    const bool contentless = has_no_content(baseline.state) != has_no_content(candidate.state);
    comparison.outcome = contentless ? TensorOutcome::kUncomparable : TensorOutcome::kMismatch;
    return comparison;
  }
  if (baseline.state != ContentState::kHashed || candidate.state != ContentState::kHashed) {
    judge_states(comparison);
    if (same_algorithm_ && written_parts_differ(baseline, candidate)) {
      judge_unmeasured(depth, choice, comparison);
      comparison.note = "what has been written of it differs";
    }
    return comparison;
  }
  if (promoted) {
    judge_values(depth, where, choice, comparison);
    return comparison;
  }
  const bool alike = baseline.attributes == candidate.attributes && same_algorithm_ &&
                     baseline.digest == candidate.digest && same_channels(pair);
  if (quantisers && !alike) {
    if (depth == Depth::kValues) {
      judge_dequantised(pair, where, choice, *quantisers, comparison);
    } else {
      judge_unmeasured(depth, choice, comparison);
    }
    return comparison;
  }
  const auto same = same_content(baseline.content_key(), candidate.content_key(), where);
  if (!same) {
    comparison.outcome = TensorOutcome::kUncomparable;
    comparison.note = "digests follow different rules, and there are no bytes to compare";
  } else if (*same) {
    judge_equal(where, choice, comparison);
  } else {
    judge_values(depth, where, choice, comparison);
  }
  return comparison;
}

}  // namespace repro_check::comparators::detail
