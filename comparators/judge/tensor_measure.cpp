// SPDX-License-Identifier: Apache-2.0
// What TensorJudge reads, and measures.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "comparators/judge/tensor_judge.h"
#include "comparators/measure/policy.h"
#include "comparators/measure/promotion.h"
#include "core/content/content_size.h"
#include "core/content/content_slice.h"
#include "core/error.h"
#include "core/tensor/tensor_view.h"

namespace repro_check::comparators::detail {
namespace {

constexpr std::size_t kRememberedPairs = 4096;
/// Bytes of a content whose verification is remembered.
constexpr std::uint64_t kWorthRemembering = std::uint64_t{64} << 10U;

}  // namespace

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
  if (parts->size() == core::content_size(key)) return parts;
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

std::optional<PairMeasurement> TensorJudge::verified(OpenPair& pair,
                                                     const Side& left,
                                                     const Side& right,
                                                     const std::string& where) {
  PairMeasurement& found = pair.found;
  const auto holds = [&](const Side& side, const core::ContentParts& parts, std::size_t at) {
    const bool read = !found.failures[0] && !found.failures[1];
    const bool right_bytes = attempt(side.source, where, [&] {
      if (found.failures.at(at)) std::rethrow_exception(found.failures.at(at));
      if (read && !parts.verified()) parts.verify(found.chunks.at(at));
    });
    const bool worth = read && parts.size() >= kWorthRemembering;
    if (worth || !right_bytes) side.checked.insert(side.key);
    return right_bytes;
  };
  const bool left_holds = holds(left, *pair.baseline, 0);
  const bool right_holds = holds(right, *pair.candidate, 1);
  if (!left_holds || !right_holds) return std::nullopt;
  return std::move(found);
}

std::optional<PairMeasurement> TensorJudge::measure_sides(const Side& left,
                                                          const Side& right,
                                                          const Measure& how,
                                                          const std::string& where) {
  OpenPair pair;
  pair.baseline = open_as(how.dtype, left.source, how.flush, left.key, where);
  if (!pair.baseline) return std::nullopt;
  pair.candidate = open_as(how.dtype, right.source, how.flush, right.key, where);
  if (!pair.candidate) return std::nullopt;
  pair.found =
      measurer_.measure({{how.dtype, left.key.shape, pair.baseline.get(), pair.candidate.get()},
                         how.policy,
                         how.samples});
  return verified(pair, left, right, where);
}

TensorJudge::Measure TensorJudge::way_to_measure(core::Dtype baseline,
                                                 core::Dtype candidate,
                                                 const configs::PolicySpec& policy) const {
  Measure how;
  how.dtype = baseline;
  if (candidate != baseline) how.dtype = common_dtype(baseline, candidate, policy.kind).value();
  how.flush = policy.flush_subnormals;
  how.policy = element_policy(policy, baseline, candidate);
  how.samples = options_.max_samples;
  return how;
}

void TensorJudge::measure_ahead(const std::vector<Upcoming>& pairs) {
  ahead_.clear();
  std::vector<MeasureRequest> requests;
  std::vector<OpenPair*> opened;
  for (const Upcoming& next : pairs) {
    const PairKey key(next.baseline, next.candidate, policy_id(next.choice));
    if (measured_.contains(key) || ahead_.contains(key)) continue;
    if (!baseline_.has_content(next.baseline) || !candidate_.has_content(next.candidate)) continue;
    OpenPair pair;
    try {
      pair.baseline = baseline_.open_content(next.baseline);
      pair.candidate = candidate_.open_content(next.candidate);
    } catch (const core::Error&) {
      continue;  // whoever judges it says so
    }
    const Measure how =
        way_to_measure(next.baseline.dtype, next.candidate.dtype, *next.choice.policy);
    const std::uint64_t bytes = core::content_size(next.baseline);
    if (pair.baseline->size() != bytes || pair.candidate->size() != bytes) continue;
    OpenPair& kept = ahead_.emplace(key, std::move(pair)).first->second;
    requests.push_back({{how.dtype, next.baseline.shape, kept.baseline.get(), kept.candidate.get()},
                        how.policy,
                        how.samples});
    opened.push_back(&kept);
  }
  std::vector<PairMeasurement> found = measurer_.measure_each(requests);
  for (std::size_t i = 0; i < found.size(); ++i) opened[i]->found = std::move(found[i]);
}

/// Two numbers of other dtypes are a great many ULPs of the wider one apart, which says nothing.
void TensorJudge::count_narrow_ulps(const Side& left,
                                    const Side& right,
                                    const std::string& where,
                                    const Choice& choice,
                                    PairMeasurement& found) {
  Measure how = way_to_measure(left.key.dtype, right.key.dtype, *choice.policy);
  const auto narrow = common_dtype(left.key.dtype, right.key.dtype, configs::PolicyKind::kUlp);
  const bool has_ulps = narrow && (core::is_floating(*narrow) || core::is_complex(*narrow));
  if (!has_ulps || *narrow == how.dtype) return;
  how.dtype = *narrow;
  const auto again = measure_sides(left, right, how, where);
  if (!again) return;
  found.metrics.ulp_max = again->metrics.ulp_max;
  found.metrics.ulp_mean = again->metrics.ulp_mean;
  found.metrics.ulp_hist = again->metrics.ulp_hist;
  for (Sample& sample : found.samples) {
    const auto same = std::ranges::find(again->samples, sample.flat_index, &Sample::flat_index);
    sample.ulp = same == again->samples.end() ? std::nullopt : same->ulp;
  }
}

std::optional<TensorJudge::Measured> TensorJudge::measure_whole(const core::ContentKey& baseline,
                                                                const core::ContentKey& candidate,
                                                                const std::string& where,
                                                                const Choice& choice) {
  const Side left{baseline_, baseline, checked_[kBaseline]};
  const Side right{candidate_, candidate, checked_[kCandidate]};
  std::optional<PairMeasurement> found;
  if (auto ready = ahead_.extract(PairKey(baseline, candidate, policy_id(choice)))) {
    found = verified(ready.mapped(), left, right, where);
  } else {
    const Measure how = way_to_measure(baseline.dtype, candidate.dtype, *choice.policy);
    found = measure_sides(left, right, how, where);
  }
  if (!found) return std::nullopt;
  if (baseline.dtype != candidate.dtype) count_narrow_ulps(left, right, where, choice, *found);
  const TensorVerdict verdict = judge_metrics(*choice.policy, found->metrics);
  return Measured{found->metrics, std::move(found->samples), std::nullopt, verdict};
}

std::optional<Fp64Distance> TensorJudge::fp64_distance(const core::ContentKey& baseline,
                                                       const core::ContentKey& candidate,
                                                       const std::string& where,
                                                       const Choice& choice,
                                                       std::string& why) {
  if (choice.fp64 == nullptr) {
    why = "the float64 run has no such output";
    return std::nullopt;
  }
  const core::TensorRecord& reference = *choice.fp64;
  const core::Dtype wide =
      core::is_complex(baseline.dtype) ? core::Dtype::kComplex128 : core::Dtype::kFloat64;
  if (reference.state != core::ContentState::kHashed || reference.dtype != wide ||
      reference.shape != baseline.shape) {
    why = fmt::format("in the float64 run it is {}, not {}",
                      dtype_and_shape(reference.dtype, reference.shape),
                      dtype_and_shape(wide, baseline.shape));
    return std::nullopt;
  }
  Measure how;
  how.dtype = wide;
  how.flush = choice.policy->flush_subnormals;
  const core::ContentKey exact = reference.content_key();
  const Side from{*options_.fp64, exact, checked_[kFp64]};
  const auto rmse = [&](const Side& side) -> std::optional<double> {
    const auto found = measure_sides(from, side, how, where);
    if (!found) {
      why = "the values of a side, or of the float64 run, are not there";
      return std::nullopt;
    }
    if (found->metrics.nan_baseline + found->metrics.inf_baseline != 0) {
      why = "the result in float64 is not finite where this one is";
      return std::nullopt;
    }
    return found->metrics.rmse.value_or(0);
  };
  const auto left = rmse({baseline_, baseline, checked_[kBaseline]});
  if (!left) return std::nullopt;
  const auto right = rmse({candidate_, candidate, checked_[kCandidate]});
  if (!right) return std::nullopt;
  const auto elements = static_cast<std::uint64_t>(core::element_count(baseline.shape));
  const double factor = fp64_factor(*choice.policy, baseline.dtype, elements);
  return Fp64Distance{*left, *right, factor * *left + choice.policy->slack};
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
  std::optional<Measured> measured = measure_whole(baseline, candidate, where, choice);
  if (!measured) measured = measure_slices(baseline, candidate, where, choice);
  if (!measured) return std::nullopt;
  if (measured_.size() >= kRememberedPairs) measured_.clear();
  measured_.emplace(key, *measured);
  return measured;
}

std::optional<TensorJudge::Measured> TensorJudge::measure_slices(const core::ContentKey& baseline,
                                                                 const core::ContentKey& candidate,
                                                                 const std::string& where,
                                                                 const Choice& choice) {
  const auto left = baseline_.find_slice(baseline);
  const auto right = candidate_.find_slice(candidate);
  // The elements at other positions say nothing of each other.
  if (!left || !right || left->elements != right->elements || left->stride != right->stride) {
    return std::nullopt;
  }
  const core::ContentKey from = core::slice_key(baseline, *left);
  const core::ContentKey to = core::slice_key(candidate, *right);
  std::optional<Measured> measured = measure_whole(from, to, where, choice);
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

}  // namespace repro_check::comparators::detail
