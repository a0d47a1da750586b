// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/tensor_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "comparators/measure/conversion.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "core/system/memory.h"
#include "core/tensor/content.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"

namespace repro_check::comparators {
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

/// What need not agree, since values are compared in a common form.
struct Relaxed {
  bool dtype = false;
  bool quantiser = false;
};

/// `values`, `uninitialised memory`.
Phrases state_phrase(ContentState state) {
  return {
      Phrase(core::word_at("has-values|has-unwritten-memory|has-no-content|is-undefined|"
                           "is-composite|is-excluded",
                           static_cast<std::size_t>(state)))};
}

/// What differs: a dtype, shape or the like.
Phrases differs(std::string_view key, FieldValue baseline, FieldValue candidate) {
  return {Phrase(key, {{"baseline", std::move(baseline)}, {"candidate", std::move(candidate)}})};
}

std::string list_text(const std::vector<std::int64_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

/// As the recording calls it, where it is none of those that have a number: `quint4x2`.
std::string dtype_text(const TensorRecord& tensor) {
  constexpr std::string_view kKey = "dtype=";
  const std::string_view text = tensor.attributes;
  if (tensor.dtype != core::Dtype::kUnknown || !text.starts_with(kKey)) {
    return std::string(core::dtype_name(tensor.dtype));
  }
  return std::string(text.substr(kKey.size(), text.find(' ') - kKey.size()));
}

/// What must agree before any value is looked at, and does not; empty when all does.
Phrases metadata_mismatch(const TensorRecord& b,
                          const TensorRecord& c,
                          const AttributeRules& rules,
                          Relaxed relaxed) {
  const bool is_undefined = b.state == ContentState::kUndefined;
  if (is_undefined != (c.state == ContentState::kUndefined)) {
    return {Phrase(is_undefined ? "undefined-in-baseline" : "undefined-in-candidate")};
  }
  if (is_undefined) return {};
  const bool same_dtype = b.dtype == c.dtype && dtype_text(b) == dtype_text(c);
  // Of two dtypes that have no number there is no wider one.
  if (!same_dtype && (!relaxed.dtype || b.dtype == c.dtype)) {
    return differs("dtype-differs", dtype_text(b), dtype_text(c));
  }
  if (b.shape != c.shape) return differs("shape-differs", list_text(b.shape), list_text(c.shape));
  if (b.layout != c.layout) return differs("layouts-differ", b.layout, c.layout);
  if (!same_attributes(b, c) && !relaxed.quantiser) {
    return differs(b.layout == "quantised" ? "quantiser-differs" : "structure-differs",
                   b.attributes,
                   c.attributes);
  }
  if (rules.strict_strides && b.strides != c.strides) {
    return differs("strides-differ", list_text(b.strides), list_text(c.strides));
  }
  if (rules.strict_device && b.device != c.device) {
    return differs("device-differs", b.device, c.device);
  }
  return {};
}

/// Whether nobody can say what is in the tensor.
bool has_no_content(ContentState state) noexcept {
  return state == ContentState::kNone || state == ContentState::kExcluded;
}

/// Sets the outcome of two records of which at least one has no digest; the metadata agree.
void judge_states(TensorComparison& comparison) {
  const ContentState b = comparison.baseline.state;
  const ContentState c = comparison.candidate.state;
  if (b == c) {
    const bool whole = b == ContentState::kUndefined || b == ContentState::kComposite;
    comparison.outcome = whole ? TensorOutcome::kEqual : TensorOutcome::kSkipped;
    if (!whole) comparison.note = {Phrase("on-both-sides", {{"state", state_phrase(b)}})};
    return;
  }
  comparison.note = differs("against", state_phrase(b), state_phrase(c));
  comparison.outcome = has_no_content(b) || has_no_content(c) ? TensorOutcome::kUncomparable
                                                              : TensorOutcome::kMismatch;
}

/// `first beyond: 2.29e-05 > 2.28e-05`: the absolute error of the first of `samples` that is beyond
/// the tolerance, and what |baseline| allows there, with as many digits as tell them apart. Empty
/// where none of them is, or the dtype is not a real floating one.
/// @param samples  of tensors that are both of `dtype`
Phrases first_beyond(const std::vector<Sample>& samples,
                     core::Dtype dtype,
                     const ElementPolicy& policy) {
  if (!core::is_floating(dtype) || dtype == core::Dtype::kFloat4E2M1FNX2) return {};
  const auto value = [&](const std::string& hex) {
    return core::decode_float(dtype, std::stoull(hex, nullptr, 16));
  };
  for (const Sample& sample : samples) {
    const double baseline = value(sample.baseline_bits);
    const double error = std::abs(value(sample.candidate_bits) - baseline);
    const double allowed = policy.atol + policy.rtol * std::abs(baseline);
    if (!std::isfinite(error) || error <= allowed) continue;
    constexpr int kExact = 17;
    for (int digits = 3;; ++digits) {
      const std::string left = fmt::format("{:.{}g}", error, digits);
      const std::string right = fmt::format("{:.{}g}", allowed, digits);
      if (left == right && digits != kExact) continue;
      return {Phrase("first-beyond", {{"error", left}, {"allowed", right}})};
    }
  }
  return {};
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
      rules_(options.spec, options.noise.get()) {
  // Where both say where they ran, a tensor elsewhere is no matter of course.
  attributes_.strict_strides = options.spec.strides == configs::AttributeRule::kStrict;
  attributes_.strict_device =
      options.spec.device ? *options.spec.device == configs::AttributeRule::kStrict : same_device_;
}

void TensorJudge::note_damage(const core::DumpSource* source, const std::string& sentence) {
  if (std::ranges::find(damage_, sentence, &Damage::sentence) != damage_.end()) return;
  damage_.push_back({sentence, source});
}

/// What it does in one place, with its state.
class TensorJudge::Work {
 public:
  /// All are borrowed.
  Work(TensorJudge& of, const std::string& where, const Choice& choice)
      : of_(of), where_(where), choice_(choice) {}

  TensorComparison judge(const RecordedPair& pair, Depth depth) {
    const TensorRecord& baseline = pair.baseline;
    const TensorRecord& candidate = pair.candidate;
    TensorComparison comparison;
    comparison.role = baseline.role;
    comparison.baseline = baseline;
    comparison.candidate = candidate;
    const bool promoted =
        of_.options_.spec.promote && baseline.dtype != candidate.dtype &&
        common_dtype(baseline.dtype, candidate.dtype, choice_.policy->kind).has_value();
    // An input is judged where it was made, by its content; where it lies is the operator's matter.
    const AttributeRules rules = core::is_output(baseline) ? of_.attributes_ : AttributeRules{};
    const auto quantisers = quantisers_of(baseline, candidate, choice_.policy->kind);
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
      if (of_.same_algorithm_ && written_parts_differ(baseline, candidate)) {
        judge_unmeasured(depth, comparison);
        comparison.note = {Phrase("written-part-differs")};
      }
      return comparison;
    }
    if (promoted) {
      judge_values(depth, comparison);
      return comparison;
    }
    const bool alike = baseline.attributes == candidate.attributes && of_.same_algorithm_ &&
                       baseline.digest == candidate.digest && same_channels(pair);
    if (quantisers && !alike) {
      if (depth == Depth::kValues) {
        judge_dequantised(pair, *quantisers, comparison);
      } else {
        judge_unmeasured(depth, comparison);
      }
      return comparison;
    }
    const auto same = same_content(baseline.content_key(), candidate.content_key());
    if (!same) {
      comparison.outcome = TensorOutcome::kUncomparable;
      comparison.note = {Phrase("other-digest-rules")};
    } else if (*same) {
      judge_equal(comparison);
    } else {
      judge_values(depth, comparison);
    }
    return comparison;
  }

  std::optional<Measured> measure_pair(const ContentKeys& pair) {
    const PairKey key = key_of(pair);
    if (const auto known = of_.measured_.find(key); known != of_.measured_.end())
      return known->second;
    std::optional<Measured> measured = measure_whole(pair);
    if (!measured) measured = measure_slices(pair);
    if (!measured) return std::nullopt;
    if (of_.measured_.size() >= kRememberedPairs) of_.measured_.clear();
    of_.measured_.emplace(key, *measured);
    return measured;
  }

  std::optional<bool> same_content(const core::ContentKey& baseline,
                                   const core::ContentKey& candidate) {
    if (of_.same_algorithm_) return baseline == candidate;
    if (baseline.dtype != candidate.dtype || baseline.shape != candidate.shape) return false;
    std::vector<std::byte> left;
    std::vector<std::byte> right;
    const auto read = [&](const core::DumpSource& source,
                          const core::ContentKey& key,
                          std::vector<std::byte>& into) {
      return source.has_content(key) && attempt(source, [&] { source.read_content(key, into); });
    };
    if (!read(of_.baseline_, baseline, left) || !read(of_.candidate_, candidate, right))
      return std::nullopt;
    return left == right;
  }

  [[nodiscard]] PairKey key_of(const ContentKeys& pair) const {
    constexpr std::int64_t kExactly = std::numeric_limits<std::int64_t>::max();
    const auto rule = choice_.rule ? static_cast<std::int64_t>(*choice_.rule) : -1;
    return {pair.baseline, pair.candidate, choice_.exact ? kExactly : rule};
  }

  /// How to measure a pair, without its contents: both sides become the dtype first.
  [[nodiscard]] MeasureRequest request_of(const ContentKeys& pair) const {
    const configs::PolicySpec& policy = *choice_.policy;
    const core::Dtype from = pair.baseline.dtype;
    const core::Dtype to = pair.candidate.dtype;
    return {.dtype = from == to ? from : common_dtype(from, to, policy.kind).value(),
            .shape = pair.baseline.shape,
            .policy = element_policy(policy, from, to),
            .max_samples = of_.options_.max_samples};
  }

 private:
  /// One content, and what remembers which of its dump were verified.
  struct Side {
    const core::DumpSource& source;
    const core::ContentKey& key;
    std::set<core::ContentKey>& checked;
  };
  [[nodiscard]] Side side(const core::ContentKey& key, std::size_t which) {
    const core::DumpSource& source = which == kBaseline    ? of_.baseline_
                                     : which == kCandidate ? of_.candidate_
                                                           : *of_.options_.fp64;
    return {source, key, of_.checked_.at(which)};
  }
  /// A content for reading; null where its bytes are not there, or damaged.
  std::unique_ptr<core::ContentParts> open(const core::DumpSource& source,
                                           const core::ContentKey& key) {
    if (!source.has_content(key)) return nullptr;
    std::unique_ptr<core::ContentParts> parts;
    if (!attempt(source, [&] { parts = source.open_content(key); })) return nullptr;
    if (parts->size() == core::content_size(key)) return parts;
    of_.note_damage(&source,
                    fmt::format("{}, {}: stored bytes are not as many as {} takes",
                                source.location(),
                                where_,
                                dtype_and_shape(key.dtype, key.shape)));
    return nullptr;
  }

  /// The same of one that may have to become another dtype first, or lose its subnormals.
  std::unique_ptr<core::ContentParts> open(const Side& side, core::Dtype dtype) {
    const core::ContentKey& key = side.key;
    const bool flushes = choice_.policy->flush_subnormals;
    if (key.dtype == dtype && !flushes) return open(side.source, key);
    std::vector<std::byte> bytes;
    if (!side.source.has_content(key) ||
        !attempt(side.source, [&] { side.source.read_content(key, bytes); })) {
      return nullptr;
    }
    if (flushes) flush_subnormals(key.dtype, bytes);
    return std::make_unique<core::MemoryParts>(converted({key.dtype, key.shape, bytes}, dtype));
  }

  /// Whether `action` finds the content whole; what is damaged is noted.
  template <typename Action>
  bool attempt(const core::DumpSource& source, const Action& action) {
    try {
      const auto damage = damage_in(action);
      if (!damage) return true;
      of_.note_damage(&source, fmt::format("{}, {}: {}", source.location(), where_, *damage));
    } catch (const core::Error& error) {
      if (error.kind() != core::ErrorKind::kNotComparable) throw;
    }
    return false;
  }

  /// Empty where the bytes of a side are not what their digests say.
  std::optional<PairMeasurement> verified(OpenPair& pair, const Side& left, const Side& right) {
    PairMeasurement& found = pair.found;
    const auto holds = [&](const Side& side, const core::ContentParts& parts, std::size_t at) {
      const bool read = !found.failures[0] && !found.failures[1];
      const bool right_bytes = attempt(side.source, [&] {
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

  /// Empty where the bytes of a side are not there, or damaged.
  std::optional<PairMeasurement> measure_sides(const Side& left,
                                               const Side& right,
                                               const MeasureRequest& how) {
    OpenPair pair;
    pair.baseline = open(left, how.dtype);
    if (!pair.baseline) return std::nullopt;
    pair.candidate = open(right, how.dtype);
    if (!pair.candidate) return std::nullopt;
    pair.found = of_.measurer_.measure(pair.request(how));
    return verified(pair, left, right);
  }

  /// Of two dtypes, ULPs are those of the narrower, under every policy.
  void count_narrow_ulps(const ContentKeys& pair, PairMeasurement& found) {
    MeasureRequest how = request_of(pair);
    const auto narrow =
        common_dtype(pair.baseline.dtype, pair.candidate.dtype, configs::PolicyKind::kUlp);
    const bool has_ulps = narrow && (core::is_floating(*narrow) || core::is_complex(*narrow));
    if (!has_ulps || *narrow == how.dtype) return;
    how.dtype = *narrow;
    const auto again =
        measure_sides(side(pair.baseline, kBaseline), side(pair.candidate, kCandidate), how);
    if (!again) return;
    found.metrics.ulp_max = again->metrics.ulp_max;
    found.metrics.ulp_mean = again->metrics.ulp_mean;
    found.metrics.ulp_hist = again->metrics.ulp_hist;
    for (Sample& sample : found.samples) {
      const auto same = std::ranges::find(again->samples, sample.flat_index, &Sample::flat_index);
      sample.ulp = same == again->samples.end() ? std::nullopt : same->ulp;
    }
  }

  std::optional<Measured> measure_whole(const ContentKeys& pair) {
    const Side left = side(pair.baseline, kBaseline);
    const Side right = side(pair.candidate, kCandidate);
    std::optional<PairMeasurement> found;
    if (auto ready = of_.ahead_.extract(key_of(pair))) {
      found = verified(ready.mapped(), left, right);
    } else {
      found = measure_sides(left, right, request_of(pair));
    }
    if (!found) return std::nullopt;
    if (pair.baseline.dtype != pair.candidate.dtype) count_narrow_ulps(pair, *found);
    const TensorVerdict verdict = judge_metrics(*choice_.policy, found->metrics);
    return Measured{found->metrics, std::move(found->samples), std::nullopt, verdict};
  }

  std::optional<Measured> measure_slices(const ContentKeys& pair) {
    const auto left = of_.baseline_.find_slice(pair.baseline);
    const auto right = of_.candidate_.find_slice(pair.candidate);
    // The elements at other positions say nothing of each other.
    if (!left || !right || left->elements != right->elements || left->stride != right->stride) {
      return std::nullopt;
    }
    const core::ContentKey from = core::slice_key(pair.baseline, *left);
    const core::ContentKey to = core::slice_key(pair.candidate, *right);
    std::optional<Measured> measured = measure_whole({from, to});
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

  /// @param why  set where it cannot be measured
  std::optional<Fp64Distance> fp64_distance(const ContentKeys& pair, Phrases& why) {
    if (choice_.fp64 == nullptr) {
      why.emplace_back("no-float64-output");
      return std::nullopt;
    }
    const core::TensorRecord& reference = *choice_.fp64;
    const core::Dtype wide =
        core::is_complex(pair.baseline.dtype) ? core::Dtype::kComplex128 : core::Dtype::kFloat64;
    if (reference.state != core::ContentState::kHashed || reference.dtype != wide ||
        reference.shape != pair.baseline.shape) {
      why.push_back(Phrase("other-float64-output",
                           {{"is", dtype_and_shape(reference.dtype, reference.shape)},
                            {"wanted", dtype_and_shape(wide, pair.baseline.shape)}}));
      return std::nullopt;
    }
    const MeasureRequest how{.dtype = wide, .shape = reference.shape};
    const core::ContentKey exact = reference.content_key();
    const Side from = side(exact, kFp64);
    const auto rmse = [&](const Side& other) -> std::optional<double> {
      const auto found = measure_sides(from, other, how);
      if (!found) {
        why.emplace_back("float64-values-missing");
        return std::nullopt;
      }
      if (found->metrics.nan_baseline + found->metrics.inf_baseline != 0) {
        why.emplace_back("float64-not-finite");
        return std::nullopt;
      }
      return found->metrics.rmse.value_or(0);
    };
    const auto left = rmse(side(pair.baseline, kBaseline));
    if (!left) return std::nullopt;
    const auto right = rmse(side(pair.candidate, kCandidate));
    if (!right) return std::nullopt;
    const auto elements = static_cast<std::uint64_t>(core::element_count(pair.baseline.shape));
    const double factor = fp64_factor(*choice_.policy, pair.baseline.dtype, elements);
    return Fp64Distance{*left, *right, factor * *left + choice_.policy->slack};
  }

  /// False where the policy asks for a floor or a result in float64 that there is not.
  bool judge_by_yardstick(const ContentKeys& pair,
                          Measured& measured,
                          TensorComparison& comparison) {
    switch (choice_.policy->kind) {
      case configs::PolicyKind::kNoise:
        if (choice_.floor == nullptr) {
          comparison.note.emplace_back("no-noise-floor");
          return false;
        }
        comparison.noise = noise_distance(measured.metrics, *choice_.floor);
        measured.verdict = judge_noise(*choice_.policy, measured.metrics, *choice_.floor);
        break;
      case configs::PolicyKind::kFp64: {
        // Integers have no error to speak of, and a NaN on one side is no matter of size.
        const bool has_error =
            core::is_floating(pair.baseline.dtype) || core::is_complex(pair.baseline.dtype);
        if (!has_error || specials_fail(*choice_.policy, measured.metrics)) return true;
        comparison.fp64 = fp64_distance(pair, comparison.note);
        if (!comparison.fp64) return false;
        measured.verdict = judge_fp64(*choice_.policy, measured.metrics, *comparison.fp64);
        break;
      }
      default:
        return true;
    }
    of_.measured_.insert_or_assign(key_of(pair), measured);
    return true;
  }

  /// What a slice shows can fail a tensor and never pass it: the rest was not looked at.
  void judge_slice(TensorComparison& comparison) const {
    const auto total = static_cast<std::uint64_t>(core::element_count(comparison.baseline.shape));
    const std::string which = core::describe_slice(*comparison.slice, total);
    comparison.outcome = TensorOutcome::kBeyond;
    if (comparison.metrics->n_diff == 0) {
      comparison.metrics.reset();
      comparison.note = {Phrase("stored-part-equal", {{"part", which}})};
    } else if (elements_decide(*choice_.policy) && comparison.metrics->n_beyond != 0) {
      return;
    }
    if (digests_decide(*choice_.policy)) return;
    comparison.outcome = TensorOutcome::kUncomparable;
    comparison.note = {Phrase("stored-part-passes", {{"part", which}})};
  }

  [[nodiscard]] std::optional<Measured> remembered(const ContentKeys& pair) const {
    const auto found =
        of_.measured_.lower_bound(PairKey(pair.baseline, pair.candidate, kAnyPolicy));
    if (found == of_.measured_.end()) return std::nullopt;
    const auto& [from, to, policy] = found->first;
    if (from != pair.baseline || to != pair.candidate) return std::nullopt;
    return found->second;
  }

  void judge_values(Depth depth, TensorComparison& comparison) {
    const core::ContentKey baseline = comparison.baseline.content_key();
    const core::ContentKey candidate = comparison.candidate.content_key();
    const ContentKeys pair{baseline, candidate};
    std::optional<Measured> measured =
        depth == Depth::kValues ? measure_pair(pair) : remembered(pair);
    if (!measured) return judge_unmeasured(depth, comparison);
    comparison.metrics = measured->metrics;
    comparison.samples = measured->samples;
    comparison.note = describe_metrics(*comparison.metrics);
    comparison.slice = measured->slice;
    if (baseline.dtype != candidate.dtype) {
      append(differs("against",
                     std::string(core::dtype_name(baseline.dtype)),
                     std::string(core::dtype_name(candidate.dtype))),
             comparison.note);
    }
    if (choice_.policy->flush_subnormals && comparison.metrics->n_diff == 0) {
      comparison.note.emplace_back("only-subnormals");
    }
    if (comparison.slice) return judge_slice(comparison);
    if (core::is_output(comparison.baseline) && !judge_by_yardstick(pair, *measured, comparison)) {
      comparison.outcome = TensorOutcome::kUncomparable;
      return;
    }
    const TensorVerdict& verdict = measured->verdict;
    append(verdict.why, comparison.note);
    comparison.outcome = verdict.passes ? TensorOutcome::kWithin : TensorOutcome::kBeyond;
    const bool by_tolerance = choice_.policy->kind == configs::PolicyKind::kTolerance &&
                              !choice_.policy->flush_subnormals &&
                              baseline.dtype == candidate.dtype;
    if (verdict.passes || !by_tolerance || !comparison.note.empty()) return;
    comparison.note = first_beyond(
        comparison.samples, baseline.dtype, element_policy(*choice_.policy, baseline.dtype));
  }

  /// By the values that the integers stand for.
  void judge_dequantised(const RecordedPair& tensors,
                         const QuantiserPair& quantisers,
                         TensorComparison& comparison) {
    const core::ContentKey from = tensors.baseline.content_key();
    const core::ContentKey to = tensors.candidate.content_key();
    OpenPair pair;
    pair.baseline = open_dequantised({of_.baseline_, tensors.baseline_op, tensors.baseline},
                                     quantisers.baseline);
    pair.candidate = open_dequantised({of_.candidate_, tensors.candidate_op, tensors.candidate},
                                      quantisers.candidate);
    if (!pair.baseline || !pair.candidate) {
      return judge_unmeasured(Depth::kValues, comparison);
    }
    // The defaults of torch.testing.assert_close for quantised tensors are those of float32.
    pair.found = of_.measurer_.measure(
        pair.request({.dtype = core::Dtype::kFloat64,
                      .shape = from.shape,
                      .policy = element_policy(*choice_.policy, core::Dtype::kFloat32),
                      .max_samples = of_.options_.max_samples}));
    auto found = verified(pair, side(from, kBaseline), side(to, kCandidate));
    if (!found) return judge_unmeasured(Depth::kValues, comparison);
    TensorMetrics& m = found->metrics;
    m.ulp_max.reset();  // of integers there are none
    m.ulp_mean.reset();
    m.ulp_hist.reset();
    const TensorVerdict verdict = judge_metrics(*choice_.policy, m);
    comparison.note = {Phrase("by-dequantised")};
    append(verdict.why, comparison.note);
    comparison.outcome = verdict.passes ? TensorOutcome::kWithin : TensorOutcome::kBeyond;
    comparison.metrics = m;
    comparison.samples = std::move(found->samples);
  }

  struct QuantisedSide {
    const core::DumpSource& source;
    const core::OpRecord& op;
    const core::TensorRecord& tensor;
  };
  /// Null where some of the bytes it takes are not there, or damaged.
  std::unique_ptr<core::ContentParts> open_dequantised(const QuantisedSide& side,
                                                       Quantiser quantiser) {
    if (quantiser.axis) {
      quantiser.scales = read_channels(side, *quantiser.axis, "scales");
      quantiser.zero_points = read_channels(side, *quantiser.axis, "zero_points");
    }
    if (quantiser.scales.empty() || quantiser.zero_points.empty()) return nullptr;
    auto integers = open(side.source, side.tensor.content_key());
    const bool whole =
        integers != nullptr && attempt(side.source, [&] { verify_whole(*integers); });
    if (!whole) return nullptr;
    return std::make_unique<DequantisedParts>(
        std::move(integers), side.tensor.dtype, side.tensor.shape, std::move(quantiser));
  }

  /// The scales or zero points of a tensor quantised by channel; empty where they are not there.
  std::vector<double> read_channels(const QuantisedSide& side,
                                    std::size_t axis,
                                    std::string_view ending) {
    const TensorRecord* part = find_part(side.op, side.tensor, ending);
    const std::int64_t channels = side.tensor.shape[axis];
    if (part == nullptr || part->state != core::ContentState::kHashed || channels > kMostChannels ||
        part->shape != std::vector<std::int64_t>{channels}) {
      return {};
    }
    const core::ContentKey key = part->content_key();
    std::vector<std::byte> bytes;
    const bool stored = side.source.has_content(key) &&
                        attempt(side.source, [&] { side.source.read_content(key, bytes); });
    if (!stored) return {};
    std::vector<double> numbers = channel_numbers({key.dtype, key.shape, bytes});
    if (numbers.size() != static_cast<std::size_t>(channels)) return {};
    return numbers;
  }

  void judge_unmeasured(Depth depth, TensorComparison& comparison) const {
    const bool other_dtype = comparison.baseline.dtype != comparison.candidate.dtype;
    if (depth != Depth::kValues || (digests_decide(*choice_.policy) && !other_dtype)) {
      comparison.outcome = TensorOutcome::kBeyond;
      if (depth == Depth::kValues) comparison.note = {Phrase(kValuesDiffer)};
      return;
    }
    comparison.outcome = TensorOutcome::kUncomparable;
    comparison.note = {Phrase(other_dtype ? "no-bytes-across-dtypes" : "no-bytes")};
  }

  /// equal_nan "never": NaN fails even where the bits are equal.
  void judge_equal(TensorComparison& comparison) {
    comparison.outcome = TensorOutcome::kEqual;
    const core::Dtype dtype = comparison.baseline.dtype;
    const bool may_be_nan = core::is_floating(dtype) || core::is_complex(dtype);
    if (choice_.policy->equal_nan != configs::EqualNan::kNever || !may_be_nan) return;
    const std::optional<core::NonFinite> counts = comparison.baseline.non_finite();
    if (counts && counts->nans == 0) return;
    const core::ContentKey key = comparison.baseline.content_key();
    const auto measured = measure_pair({key, comparison.candidate.content_key()});
    const auto nans = [](const TensorMetrics& m) { return m.nan_both_same + m.nan_both_payload; };
    // A slice without NaN says nothing of the rest.
    const bool unseen = !measured || (measured->slice && nans(measured->metrics) == 0);
    if (unseen && !counts) {
      comparison.outcome = TensorOutcome::kUncomparable;
      comparison.note = {Phrase("nan-not-recorded")};
      return;
    }
    if (!unseen && nans(measured->metrics) == 0) return;
    comparison.outcome = TensorOutcome::kBeyond;
    if (measured) comparison.metrics = measured->metrics;
    comparison.note = {Phrase("nan-on-both-sides")};
  }

  TensorJudge& of_;
  const std::string& where_;
  const Choice& choice_;
};

TensorComparison TensorJudge::judge(const RecordedPair& pair,
                                    Depth depth,
                                    const std::string& where,
                                    const Choice& choice) {
  return Work(*this, where, choice).judge(pair, depth);
}

std::optional<TensorJudge::Measured> TensorJudge::measure_pair(const ContentKeys& pair,
                                                               const std::string& where,
                                                               const Choice& choice) {
  return Work(*this, where, choice).measure_pair(pair);
}

void TensorJudge::measure_ahead(const std::vector<Upcoming>& pairs) {
  ahead_.clear();
  std::vector<MeasureRequest> requests;
  std::vector<OpenPair*> opened;
  const std::string nowhere;
  for (const Upcoming& next : pairs) {
    const ContentKeys keys{next.baseline, next.candidate};
    const Work work(*this, nowhere, next.choice);
    const PairKey key = work.key_of(keys);
    if (measured_.contains(key) || ahead_.contains(key)) continue;
    if (!baseline_.has_content(next.baseline) || !candidate_.has_content(next.candidate)) continue;
    OpenPair pair;
    try {
      pair.baseline = baseline_.open_content(next.baseline);
      pair.candidate = candidate_.open_content(next.candidate);
    } catch (const core::Error&) {
      continue;  // whoever judges it says so
    }
    const std::uint64_t bytes = core::content_size(next.baseline);
    if (pair.baseline->size() != bytes || pair.candidate->size() != bytes) continue;
    requests.push_back(pair.request(work.request_of(keys)));
    opened.push_back(&ahead_.emplace(key, std::move(pair)).first->second);
  }
  std::vector<PairMeasurement> found = measurer_.measure_each(requests);
  for (std::size_t i = 0; i < found.size(); ++i) opened[i]->found = std::move(found[i]);
}

std::optional<bool> TensorJudge::same_content(const core::ContentKey& baseline,
                                              const core::ContentKey& candidate,
                                              const std::string& where) {
  return Work(*this, where, {}).same_content(baseline, candidate);
}

}  // namespace repro_check::comparators
