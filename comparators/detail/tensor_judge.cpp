// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/tensor_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "comparators/detail/promotion.h"
#include "comparators/policy.h"
#include "core/content_slice.h"
#include "core/error.h"
#include "core/tensor_view.h"

namespace repro_check::comparators::detail {
namespace {

using core::ContentState;
using core::TensorRecord;

constexpr std::size_t kRememberedPairs = 4096;
/// Bytes of a content whose verification is remembered.
constexpr std::uint64_t kWorthRemembering = std::uint64_t{64} << 10U;

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

bool TensorJudge::attempt(const core::DumpSource& source,
                          const std::string& where,
                          const std::function<void()>& action) {
  try {
    action();
    return true;
  } catch (const core::Error& error) {
    if (error.kind() == core::ErrorKind::kNotComparable) return false;
    if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
    note_damage(fmt::format("{}, {}: {}", source.location(), where, error.what()));
  }
  return false;
}

std::unique_ptr<core::ContentParts> TensorJudge::open(const core::DumpSource& source,
                                                      const core::ContentKey& key,
                                                      const std::string& where) {
  if (!source.has_content(key)) return nullptr;
  std::unique_ptr<core::ContentParts> parts;
  if (!attempt(source, where, [&] { parts = source.open_content(key); })) return nullptr;
  const auto count = static_cast<std::uint64_t>(core::element_count(key.shape));
  if (parts->size() == count * core::element_size(key.dtype)) return parts;
  note_damage(fmt::format("{}, {}: stored bytes are not as many as {} takes",
                          source.location(),
                          where,
                          dtype_and_shape(key.dtype, key.shape)));
  return nullptr;
}

std::unique_ptr<core::ContentParts> TensorJudge::open_as(core::Dtype dtype,
                                                         const core::DumpSource& source,
                                                         bool flush,
                                                         const core::ContentKey& key,
                                                         const std::string& where) {
  if (key.dtype == dtype && !flush) return open(source, key, where);
  if (!source.has_content(key)) return nullptr;
  std::vector<std::byte> bytes;
  if (!attempt(source, where, [&] { source.read_content(key, bytes); })) return nullptr;
  if (flush) flush_subnormals(key.dtype, bytes);
  return std::make_unique<core::MemoryParts>(converted({key.dtype, key.shape, bytes}, dtype));
}

std::optional<TensorJudge::Measured> TensorJudge::measure_whole(const core::ContentKey& baseline,
                                                                const core::ContentKey& candidate,
                                                                const std::string& where,
                                                                const configs::PolicySpec& policy) {
  core::Dtype dtype = baseline.dtype;
  if (candidate.dtype != dtype) {
    dtype = common_dtype(baseline.dtype, candidate.dtype, policy.kind).value();
  }
  const bool flush = policy.flush_subnormals;
  const auto left = open_as(dtype, baseline_, flush, baseline, where);
  if (!left) return std::nullopt;
  const auto right = open_as(dtype, candidate_, flush, candidate, where);
  if (!right) return std::nullopt;
  PairMeasurement found = measurer_.measure({dtype, baseline.shape, left.get(), right.get()},
                                            element_policy(policy, baseline.dtype, candidate.dtype),
                                            options_.max_samples);
  const auto holds = [&](const core::DumpSource& source,
                         const core::ContentKey& key,
                         const core::ContentParts& parts,
                         std::size_t side) {
    const bool read = !found.failures[0] && !found.failures[1];
    const bool right_bytes = attempt(source, where, [&] {
      if (found.failures.at(side)) std::rethrow_exception(found.failures.at(side));
      if (read && !parts.verified()) parts.verify(found.chunks.at(side));
    });
    const bool worth = read && parts.size() >= kWorthRemembering;
    if (worth || !right_bytes) checked_.at(side).insert(key);
    return right_bytes;
  };
  const bool baseline_holds = holds(baseline_, baseline, *left, 0);
  const bool candidate_holds = holds(candidate_, candidate, *right, 1);
  if (!baseline_holds || !candidate_holds) return std::nullopt;
  const TensorVerdict verdict = judge_metrics(policy, found.metrics);
  return Measured{found.metrics, std::move(found.samples), std::nullopt, verdict};
}

const TensorJudge::Measured* TensorJudge::remembered(const core::ContentKey& baseline,
                                                     const core::ContentKey& candidate) const {
  const auto found = measured_.lower_bound(PairKey(baseline, candidate, kAnyPolicy));
  if (found == measured_.end()) return nullptr;
  const auto& [from, to, policy] = found->first;
  return from == baseline && to == candidate ? &found->second : nullptr;
}

std::optional<TensorJudge::Measured> TensorJudge::measure_pair(const core::ContentKey& baseline,
                                                               const core::ContentKey& candidate,
                                                               const std::string& where,
                                                               const Choice& choice) {
  const PairKey key(baseline, candidate, policy_id(choice));
  if (const auto known = measured_.find(key); known != measured_.end()) return known->second;
  std::optional<Measured> measured = measure_whole(baseline, candidate, where, *choice.policy);
  if (!measured) measured = measure_slices(baseline, candidate, where, *choice.policy);
  if (!measured) return std::nullopt;
  if (measured_.size() >= kRememberedPairs) measured_.clear();
  measured_.emplace(key, *measured);
  return measured;
}

std::optional<TensorJudge::Measured> TensorJudge::measure_slices(
    const core::ContentKey& baseline,
    const core::ContentKey& candidate,
    const std::string& where,
    const configs::PolicySpec& policy) {
  const auto left = baseline_.find_slice(baseline);
  const auto right = candidate_.find_slice(candidate);
  // The elements at other positions say nothing of each other.
  if (!left || !right || left->elements != right->elements || left->stride != right->stride) {
    return std::nullopt;
  }
  const core::ContentKey from = core::slice_key(baseline, *left);
  const core::ContentKey to = core::slice_key(candidate, *right);
  std::optional<Measured> measured = measure_whole(from, to, where, policy);
  if (!measured) return std::nullopt;
  measured->slice = left;
  TensorMetrics& m = measured->metrics;
  for (auto* index : {&m.first_diff,
                      &m.first_beyond,
                      &m.max_abs_index,
                      &m.max_rel_index,
                      &m.max_rel_finite_index}) {
    if (*index) **index *= left->stride;
  }
  for (Sample& sample : measured->samples) {
    sample.flat_index *= left->stride;
    sample.index = core::unravel(sample.flat_index, baseline.shape);
  }
  return measured;
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
  if (const auto& stats = comparison.baseline.stats; stats && stats->nans == 0) return;
  const core::ContentKey key = comparison.baseline.content_key();
  const auto measured = measure_pair(key, comparison.candidate.content_key(), where, choice);
  const auto nans = [](const TensorMetrics& m) { return m.nan_both_same + m.nan_both_payload; };
  // A slice without NaN says nothing of the rest.
  if (!measured || (measured->slice && nans(measured->metrics) == 0)) {
    comparison.outcome = TensorOutcome::kUncomparable;
    comparison.note = "whether there is NaN is not recorded, and equal_nan is \"never\"";
    return;
  }
  if (nans(measured->metrics) == 0) return;
  comparison.outcome = TensorOutcome::kBeyond;
  comparison.metrics = measured->metrics;
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
  const bool by_noise = choice.policy->kind == configs::PolicyKind::kNoise &&
                        comparison.baseline.role == core::TensorRole::kOutput;
  if (by_noise && choice.floor == nullptr) {
    append_note(comparison.note, true, "no noise floor for it");
    comparison.outcome = TensorOutcome::kUncomparable;
    return;
  }
  if (by_noise) {
    comparison.noise = noise_distance(*comparison.metrics, *choice.floor);
    measured->verdict = judge_noise(*choice.policy, *comparison.metrics, *choice.floor);
    // Whoever reads it finds it judged as here.
    measured_.insert_or_assign(PairKey(baseline, candidate, policy_id(choice)), *measured);
  }
  const TensorVerdict& verdict = measured->verdict;
  append_note(comparison.note, !verdict.why.empty(), verdict.why);
  comparison.outcome = verdict.passes ? TensorOutcome::kWithin : TensorOutcome::kBeyond;
}

void TensorJudge::judge_dequantised(Depth depth,
                                    const std::string& where,
                                    const Choice& choice,
                                    const QuantiserPair& quantisers,
                                    TensorComparison& comparison) {
  const auto read = [&](const core::DumpSource& source,
                        const core::ContentKey& key,
                        const Quantiser& quantiser) -> std::unique_ptr<core::ContentParts> {
    std::vector<std::byte> bytes;
    const bool stored = depth == Depth::kValues && source.has_content(key) &&
                        attempt(source, where, [&] { source.read_content(key, bytes); });
    if (!stored) return nullptr;
    return std::make_unique<core::MemoryParts>(
        dequantised({key.dtype, key.shape, bytes}, quantiser));
  };
  const auto left = read(baseline_, comparison.baseline.content_key(), quantisers.baseline);
  const auto right = read(candidate_, comparison.candidate.content_key(), quantisers.candidate);
  if (!left || !right) return judge_unmeasured(depth, choice, comparison);
  // The defaults of torch.testing.assert_close for quantised tensors are those of float32.
  PairMeasurement found =
      measurer_.measure({core::Dtype::kFloat64, comparison.baseline.shape, left.get(), right.get()},
                        element_policy(*choice.policy, core::Dtype::kFloat32),
                        options_.max_samples);
  TensorMetrics& m = found.metrics;
  m.ulp_max.reset();  // of integers there are none
  m.ulp_mean.reset();
  m.ulp_hist.reset();
  const TensorVerdict verdict = judge_metrics(*choice.policy, m);
  comparison.note = "by the values that the integers stand for";
  append_note(comparison.note, !verdict.why.empty(), verdict.why);
  comparison.outcome = verdict.passes ? TensorOutcome::kWithin : TensorOutcome::kBeyond;
  comparison.metrics = m;
  comparison.samples = std::move(found.samples);
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

TensorComparison TensorJudge::judge(const TensorRecord& baseline,
                                    const TensorRecord& candidate,
                                    Depth depth,
                                    const std::string& where,
                                    const Choice& choice) {
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
    return comparison;
  }
  if (promoted) {
    judge_values(depth, where, choice, comparison);
    return comparison;
  }
  const bool alike = baseline.attributes == candidate.attributes && same_algorithm_ &&
                     baseline.digest == candidate.digest;
  if (quantisers && !alike) {
    judge_dequantised(depth, where, choice, *quantisers, comparison);
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
