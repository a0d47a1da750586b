// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/tensor_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "comparators/judge/op_tensors.h"
#include "comparators/measure/policy.h"
#include "comparators/measure/promotion.h"
#include "core/content/content.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "core/system/aligned_buffer.h"
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

constexpr std::size_t kRememberedPairs = 4096;
/// Bytes of a content whose verification is remembered.
constexpr std::uint64_t kWorthRemembering = std::uint64_t{64} << 10U;

/// @throws core::Error{kDumpDamaged, kIo}
void verify_whole(const core::ContentParts& parts) {
  if (parts.verified()) return;
  core::AlignedBuffer buffer;
  std::vector<core::Digest> chunks;
  std::uint64_t begin = 0;
  do {
    const std::uint64_t size = std::min<std::uint64_t>(core::kDigestChunk, parts.size() - begin);
    chunks.push_back(core::digest_leaf(parts.read(begin, buffer.room(size))));
    begin += size;
  } while (begin < parts.size());
  parts.verify(chunks);
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

void TensorJudge::note_damage(const core::DumpSource* source, const std::string& sentence) {
  if (std::ranges::find(damage_, sentence, &Damage::sentence) != damage_.end()) return;
  damage_.push_back({sentence, source});
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
  const auto measured = measure_pair({key, comparison.candidate.content_key(), where, choice});
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
  const Contents pair{baseline, candidate, where, choice};
  std::optional<Measured> measured;
  if (depth == Depth::kValues) {
    measured = measure_pair(pair);
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
      !judge_by_yardstick(pair, *measured, comparison)) {
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
bool TensorJudge::judge_by_yardstick(const Contents& pair,
                                     Measured& measured,
                                     TensorComparison& comparison) {
  switch (pair.choice.policy->kind) {
    case configs::PolicyKind::kNoise:
      if (pair.choice.floor == nullptr) {
        append_note(comparison.note, true, "no noise floor for it");
        return false;
      }
      comparison.noise = noise_distance(measured.metrics, *pair.choice.floor);
      measured.verdict = judge_noise(*pair.choice.policy, measured.metrics, *pair.choice.floor);
      break;
    case configs::PolicyKind::kFp64: {
      // Integers have no error to speak of, and a NaN on one side is no matter of size.
      const bool has_error =
          core::is_floating(pair.baseline.dtype) || core::is_complex(pair.baseline.dtype);
      if (!has_error || specials_fail(*pair.choice.policy, measured.metrics)) return true;
      std::string why;
      comparison.fp64 = fp64_distance(pair, why);
      append_note(comparison.note, !why.empty(), why);
      if (!comparison.fp64) return false;
      measured.verdict = judge_fp64(*pair.choice.policy, measured.metrics, *comparison.fp64);
      break;
    }
    default:
      return true;
  }
  measured_.insert_or_assign(PairKey(pair.baseline, pair.candidate, policy_id(pair.choice)),
                             measured);
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

TensorComparison TensorJudge::judge(const RecordedPair& pair,
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

bool TensorJudge::attempt(const core::DumpSource& source,
                          const std::string& where,
                          const std::function<void()>& action) {
  try {
    action();
    return true;
  } catch (const core::Error& error) {
    if (error.kind() == core::ErrorKind::kNotComparable) return false;
    if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
    note_damage(&source, fmt::format("{}, {}: {}", source.location(), where, error.what()));
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
  note_damage(&source,
              fmt::format("{}, {}: stored bytes are not as many as {} takes",
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
void TensorJudge::count_narrow_ulps(const Contents& pair, PairMeasurement& found) {
  Measure how = way_to_measure(pair.baseline.dtype, pair.candidate.dtype, *pair.choice.policy);
  const auto narrow =
      common_dtype(pair.baseline.dtype, pair.candidate.dtype, configs::PolicyKind::kUlp);
  const bool has_ulps = narrow && (core::is_floating(*narrow) || core::is_complex(*narrow));
  if (!has_ulps || *narrow == how.dtype) return;
  how.dtype = *narrow;
  const auto again = measure_sides(
      side(pair.baseline, kBaseline), side(pair.candidate, kCandidate), how, pair.where);
  if (!again) return;
  found.metrics.ulp_max = again->metrics.ulp_max;
  found.metrics.ulp_mean = again->metrics.ulp_mean;
  found.metrics.ulp_hist = again->metrics.ulp_hist;
  for (Sample& sample : found.samples) {
    const auto same = std::ranges::find(again->samples, sample.flat_index, &Sample::flat_index);
    sample.ulp = same == again->samples.end() ? std::nullopt : same->ulp;
  }
}

std::optional<TensorJudge::Measured> TensorJudge::measure_whole(const Contents& pair) {
  const Side left = side(pair.baseline, kBaseline);
  const Side right = side(pair.candidate, kCandidate);
  std::optional<PairMeasurement> found;
  if (auto ready = ahead_.extract(PairKey(pair.baseline, pair.candidate, policy_id(pair.choice)))) {
    found = verified(ready.mapped(), left, right, pair.where);
  } else {
    const Measure how =
        way_to_measure(pair.baseline.dtype, pair.candidate.dtype, *pair.choice.policy);
    found = measure_sides(left, right, how, pair.where);
  }
  if (!found) return std::nullopt;
  if (pair.baseline.dtype != pair.candidate.dtype) count_narrow_ulps(pair, *found);
  const TensorVerdict verdict = judge_metrics(*pair.choice.policy, found->metrics);
  return Measured{found->metrics, std::move(found->samples), std::nullopt, verdict};
}

std::optional<Fp64Distance> TensorJudge::fp64_distance(const Contents& pair, std::string& why) {
  if (pair.choice.fp64 == nullptr) {
    why = "the float64 run has no such output";
    return std::nullopt;
  }
  const core::TensorRecord& reference = *pair.choice.fp64;
  const core::Dtype wide =
      core::is_complex(pair.baseline.dtype) ? core::Dtype::kComplex128 : core::Dtype::kFloat64;
  if (reference.state != core::ContentState::kHashed || reference.dtype != wide ||
      reference.shape != pair.baseline.shape) {
    why = fmt::format("in the float64 run it is {}, not {}",
                      dtype_and_shape(reference.dtype, reference.shape),
                      dtype_and_shape(wide, pair.baseline.shape));
    return std::nullopt;
  }
  Measure how;
  how.dtype = wide;
  how.flush = pair.choice.policy->flush_subnormals;
  const core::ContentKey exact = reference.content_key();
  const Side from = side(exact, kFp64);
  const auto rmse = [&](const Side& other) -> std::optional<double> {
    const auto found = measure_sides(from, other, how, pair.where);
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
  const auto left = rmse(side(pair.baseline, kBaseline));
  if (!left) return std::nullopt;
  const auto right = rmse(side(pair.candidate, kCandidate));
  if (!right) return std::nullopt;
  const auto elements = static_cast<std::uint64_t>(core::element_count(pair.baseline.shape));
  const double factor = fp64_factor(*pair.choice.policy, pair.baseline.dtype, elements);
  return Fp64Distance{*left, *right, factor * *left + pair.choice.policy->slack};
}

const TensorJudge::Measured* TensorJudge::remembered(const core::ContentKey& baseline,
                                                     const core::ContentKey& candidate) const {
  const auto found = measured_.lower_bound(PairKey(baseline, candidate, kAnyPolicy));
  if (found == measured_.end()) return nullptr;
  const auto& [from, to, policy] = found->first;
  return from == baseline && to == candidate ? &found->second : nullptr;
}

std::optional<TensorJudge::Measured> TensorJudge::measure_pair(const Contents& pair) {
  const PairKey key(pair.baseline, pair.candidate, policy_id(pair.choice));
  if (const auto known = measured_.find(key); known != measured_.end()) return known->second;
  std::optional<Measured> measured = measure_whole(pair);
  if (!measured) measured = measure_slices(pair);
  if (!measured) return std::nullopt;
  if (measured_.size() >= kRememberedPairs) measured_.clear();
  measured_.emplace(key, *measured);
  return measured;
}

std::optional<TensorJudge::Measured> TensorJudge::measure_slices(const Contents& pair) {
  const auto left = baseline_.find_slice(pair.baseline);
  const auto right = candidate_.find_slice(pair.candidate);
  // The elements at other positions say nothing of each other.
  if (!left || !right || left->elements != right->elements || left->stride != right->stride) {
    return std::nullopt;
  }
  const core::ContentKey from = core::slice_key(pair.baseline, *left);
  const core::ContentKey to = core::slice_key(pair.candidate, *right);
  std::optional<Measured> measured = measure_whole({from, to, pair.where, pair.choice});
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
    sample.index = core::unravel(sample.flat_index, pair.baseline.shape);
  }
  return measured;
}

std::vector<double> TensorJudge::read_channels(const QuantisedSide& side,
                                               std::size_t axis,
                                               std::string_view ending,
                                               const std::string& where) {
  const TensorRecord* part = find_part(side.op, side.tensor, ending);
  const std::int64_t channels = side.tensor.shape[axis];
  if (part == nullptr || part->state != core::ContentState::kHashed || channels > kMostChannels ||
      part->shape != std::vector<std::int64_t>{channels}) {
    return {};
  }
  const core::ContentKey key = part->content_key();
  std::vector<std::byte> bytes;
  const bool stored = side.source.has_content(key) &&
                      attempt(side.source, where, [&] { side.source.read_content(key, bytes); });
  if (!stored) return {};
  std::vector<double> numbers = channel_numbers({key.dtype, key.shape, bytes});
  if (numbers.size() != static_cast<std::size_t>(channels)) return {};
  return numbers;
}

std::unique_ptr<core::ContentParts> TensorJudge::open_dequantised(const QuantisedSide& side,
                                                                  Quantiser quantiser,
                                                                  const std::string& where) {
  if (quantiser.axis) {
    quantiser.scales = read_channels(side, *quantiser.axis, "scales", where);
    quantiser.zero_points = read_channels(side, *quantiser.axis, "zero_points", where);
  }
  if (quantiser.scales.empty() || quantiser.zero_points.empty()) return nullptr;
  auto integers = open(side.source, side.tensor.content_key(), where);
  const bool whole =
      integers != nullptr && attempt(side.source, where, [&] { verify_whole(*integers); });
  if (!whole) return nullptr;
  return std::make_unique<DequantisedParts>(
      std::move(integers), side.tensor.dtype, side.tensor.shape, std::move(quantiser));
}

void TensorJudge::judge_dequantised(const RecordedPair& tensors,
                                    const std::string& where,
                                    const Choice& choice,
                                    const QuantiserPair& quantisers,
                                    TensorComparison& comparison) {
  const core::ContentKey from = tensors.baseline.content_key();
  const core::ContentKey to = tensors.candidate.content_key();
  OpenPair pair;
  pair.baseline = open_dequantised(
      {baseline_, tensors.baseline_op, tensors.baseline}, quantisers.baseline, where);
  pair.candidate = open_dequantised(
      {candidate_, tensors.candidate_op, tensors.candidate}, quantisers.candidate, where);
  if (!pair.baseline || !pair.candidate) {
    return judge_unmeasured(Depth::kValues, choice, comparison);
  }
  // The defaults of torch.testing.assert_close for quantised tensors are those of float32.
  pair.found = measurer_.measure(
      {{core::Dtype::kFloat64, from.shape, pair.baseline.get(), pair.candidate.get()},
       element_policy(*choice.policy, core::Dtype::kFloat32),
       options_.max_samples});
  auto found = verified(pair, side(from, kBaseline), side(to, kCandidate), where);
  if (!found) return judge_unmeasured(Depth::kValues, choice, comparison);
  TensorMetrics& m = found->metrics;
  m.ulp_max.reset();  // of integers there are none
  m.ulp_mean.reset();
  m.ulp_hist.reset();
  const TensorVerdict verdict = judge_metrics(*choice.policy, m);
  comparison.note = "by the values that the integers stand for";
  append_note(comparison.note, !verdict.why.empty(), verdict.why);
  comparison.outcome = verdict.passes ? TensorOutcome::kWithin : TensorOutcome::kBeyond;
  comparison.metrics = m;
  comparison.samples = std::move(found->samples);
}

}  // namespace repro_check::comparators::detail
