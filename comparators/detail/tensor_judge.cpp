// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/tensor_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "comparators/policy.h"
#include "core/content_slice.h"
#include "core/error.h"
#include "core/tensor_view.h"

namespace repro_check::comparators::detail {
namespace {

using core::ContentState;
using core::TensorRecord;

constexpr std::size_t kRememberedPairs = 4096;

std::string_view state_text(ContentState state) noexcept {
  switch (state) {
    case ContentState::kHashed:
      return "values";
    case ContentState::kUninitialised:
      return "uninitialised memory";
    case ContentState::kNone:
      return "no content";
    case ContentState::kUndefined:
      return "an undefined tensor";
    case ContentState::kComposite:
      return "a composite";
    case ContentState::kExcluded:
      return "excluded from the recording";
  }
  return "unknown";
}

/// What must agree before any value is looked at; empty when it does.
std::string metadata_mismatch(const TensorRecord& b, const TensorRecord& c) {
  const bool one_undefined =
      (b.state == ContentState::kUndefined) != (c.state == ContentState::kUndefined);
  if (one_undefined) {
    return fmt::format("{} against {}",
                       b.state == ContentState::kUndefined ? "undefined" : "a tensor",
                       c.state == ContentState::kUndefined ? "undefined" : "a tensor");
  }
  if (b.state == ContentState::kUndefined) return {};
  if (b.dtype != c.dtype) {
    return fmt::format(
        "dtype differs: {} against {}", core::dtype_name(b.dtype), core::dtype_name(c.dtype));
  }
  if (b.shape != c.shape) {
    return fmt::format(
        "shape differs: [{}] against [{}]", fmt::join(b.shape, ", "), fmt::join(c.shape, ", "));
  }
  if (b.layout != c.layout) {
    return fmt::format("layout differs: {} against {}", b.layout, c.layout);
  }
  if (b.attributes != c.attributes) {
    return fmt::format("{} differs: {} against {}",
                       b.layout == "quantised" ? "quantiser" : "layout structure",
                       b.attributes,
                       c.attributes);
  }
  return {};
}

bool has_no_content(ContentState state) noexcept {
  return state == ContentState::kNone || state == ContentState::kExcluded;
}

/// Outcome of two records of which at least one is not hashed; the metadata agree.
void judge_states(TensorComparison& comparison) {
  const ContentState b = comparison.baseline.state;
  const ContentState c = comparison.candidate.state;
  if (b == c) {
    const bool whole = b == ContentState::kUndefined || b == ContentState::kComposite;
    comparison.outcome = whole ? TensorOutcome::kEqual : TensorOutcome::kSkipped;
    if (!whole) comparison.note = fmt::format("{} on both sides", state_text(b));
    return;
  }
  comparison.note = fmt::format("{} against {}", state_text(b), state_text(c));
  comparison.outcome = has_no_content(b) || has_no_content(c) ? TensorOutcome::kUncomparable
                                                              : TensorOutcome::kMismatch;
}

void append(std::string& text, bool holds, std::string_view words) {
  if (!holds) return;
  if (!text.empty()) text += "; ";
  text += words;
}

}  // namespace

std::string dtype_and_shape(core::Dtype dtype, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} [{}]", core::dtype_name(dtype), fmt::join(shape, ", "));
}

std::string describe_metrics(const TensorMetrics& metrics) {
  std::string text;
  if (metrics.n_diff != 0) {
    append(text, metrics.n_diff == metrics.zero_sign_only, "only zero signs differ");
    append(text, metrics.n_diff == metrics.nan_both_payload, "only NaN payload differs");
    append(text, metrics.n_diff == metrics.noncanonical_bool, "only non-canonical bool differs");
  }
  append(text, metrics.nan_baseline != 0, "NaN in baseline only");
  append(text, metrics.nan_candidate != 0, "NaN in candidate only");
  append(text, metrics.inf_sign != 0, "Inf signs differ");
  append(text, metrics.inf_baseline != 0, "Inf in baseline only");
  append(text, metrics.inf_candidate != 0, "Inf in candidate only");
  return text;
}

TensorJudge::TensorJudge(const core::DumpSource& baseline,
                         const core::DumpSource& candidate,
                         const CompareOptions& options)
    : baseline_(baseline),
      candidate_(candidate),
      options_(options),
      measurer_(options.spec.threads.value_or(0)),
      same_algorithm_(baseline.manifest().trace.digest_algorithm ==
                      candidate.manifest().trace.digest_algorithm) {}

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

std::optional<TensorJudge::Measured> TensorJudge::measure_whole(const core::ContentKey& baseline,
                                                                const core::ContentKey& candidate,
                                                                const std::string& where) {
  const auto left = open(baseline_, baseline, where);
  if (!left) return std::nullopt;
  const auto right = open(candidate_, candidate, where);
  if (!right) return std::nullopt;
  PairMeasurement found =
      measurer_.measure({baseline.dtype, baseline.shape, left.get(), right.get()},
                        element_policy(options_.spec, baseline.dtype),
                        options_.max_samples);
  const auto holds =
      [&](const core::DumpSource& source, const core::ContentParts& parts, std::size_t side) {
        return attempt(source, where, [&] {
          if (found.failures.at(side)) std::rethrow_exception(found.failures.at(side));
          const bool read = !found.failures[0] && !found.failures[1];
          if (read && !parts.verified()) parts.verify(found.chunks.at(side));
        });
      };
  const bool baseline_holds = holds(baseline_, *left, 0);
  const bool candidate_holds = holds(candidate_, *right, 1);
  if (!baseline_holds || !candidate_holds) return std::nullopt;
  return Measured{found.metrics, std::move(found.samples), std::nullopt};
}

const TensorJudge::Measured* TensorJudge::remembered(const core::ContentKey& baseline,
                                                     const core::ContentKey& candidate) const {
  const auto found = measured_.find(PairKey(baseline, candidate));
  return found == measured_.end() ? nullptr : &found->second;
}

std::optional<TensorJudge::Measured> TensorJudge::measure_pair(const core::ContentKey& baseline,
                                                               const core::ContentKey& candidate,
                                                               const std::string& where) {
  if (const Measured* known = remembered(baseline, candidate)) return *known;
  std::optional<Measured> measured = measure_whole(baseline, candidate, where);
  if (!measured) measured = measure_slices(baseline, candidate, where);
  if (!measured) return std::nullopt;
  if (measured_.size() >= kRememberedPairs) measured_.clear();
  measured_.emplace(PairKey(baseline, candidate), *measured);
  return measured;
}

std::optional<TensorJudge::Measured> TensorJudge::measure_slices(const core::ContentKey& baseline,
                                                                 const core::ContentKey& candidate,
                                                                 const std::string& where) {
  const auto left = baseline_.find_slice(baseline);
  const auto right = candidate_.find_slice(candidate);
  // The elements at other positions say nothing of each other.
  if (!left || !right || left->elements != right->elements || left->stride != right->stride) {
    return std::nullopt;
  }
  const core::ContentKey from = core::slice_key(baseline, *left);
  const core::ContentKey to = core::slice_key(candidate, *right);
  std::optional<Measured> measured = measure_whole(from, to, where);
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

void TensorJudge::judge_equal(const std::string& where, TensorComparison& comparison) {
  comparison.outcome = TensorOutcome::kEqual;
  const core::Dtype dtype = comparison.baseline.dtype;
  const bool may_be_nan = core::is_floating(dtype) || core::is_complex(dtype);
  const auto policy = element_policy(options_.spec, dtype);
  if (policy.equal_nan != configs::EqualNan::kNever || !may_be_nan) return;
  if (const auto& stats = comparison.baseline.stats; stats && stats->nans == 0) return;
  const core::ContentKey key = comparison.baseline.content_key();
  const auto measured = measure_pair(key, comparison.candidate.content_key(), where);
  // A slice without NaN says nothing of the rest.
  if (!measured || (measured->slice && measured->metrics.n_beyond == 0)) {
    comparison.outcome = TensorOutcome::kUncomparable;
    comparison.note = "whether there is NaN is not recorded, and equal_nan is \"never\"";
    return;
  }
  if (measured->metrics.n_beyond == 0) return;
  comparison.outcome = TensorOutcome::kBeyond;
  comparison.metrics = measured->metrics;
  comparison.note = "NaN on both sides, and equal_nan is \"never\"";
}

void TensorJudge::judge_unmeasured(Depth depth, TensorComparison& comparison) const {
  if (depth != Depth::kValues || digests_decide(options_.spec)) {
    comparison.outcome = TensorOutcome::kBeyond;
    if (depth == Depth::kValues) comparison.note = "size unknown: no bytes to measure";
    return;
  }
  comparison.outcome = TensorOutcome::kUncomparable;
  comparison.note = "digests differ, and there are no bytes to judge by";
}

void TensorJudge::judge_values(Depth depth,
                               const std::string& where,
                               TensorComparison& comparison) {
  const core::ContentKey baseline = comparison.baseline.content_key();
  const core::ContentKey candidate = comparison.candidate.content_key();
  std::optional<Measured> measured;
  if (depth == Depth::kValues) {
    measured = measure_pair(baseline, candidate, where);
  } else if (const Measured* known = remembered(baseline, candidate);
             known != nullptr && depth == Depth::kRemember) {
    measured = *known;
  }
  if (!measured) return judge_unmeasured(depth, comparison);
  comparison.metrics = measured->metrics;
  comparison.samples = std::move(measured->samples);
  comparison.note = describe_metrics(*comparison.metrics);
  comparison.slice = measured->slice;
  if (comparison.slice) return judge_slice(comparison);
  const bool passes = comparison.metrics->n_beyond == 0;
  comparison.outcome = passes ? TensorOutcome::kWithin : TensorOutcome::kBeyond;
}

/// What a slice shows can fail a tensor and never pass it: the rest was not looked at.
void TensorJudge::judge_slice(TensorComparison& comparison) const {
  const auto total = static_cast<std::uint64_t>(core::element_count(comparison.baseline.shape));
  const std::string which = core::describe_slice(*comparison.slice, total);
  comparison.outcome = TensorOutcome::kBeyond;
  if (comparison.metrics->n_diff == 0) {
    comparison.metrics.reset();
    comparison.note = fmt::format("size unknown: {} are stored, and they are equal", which);
  } else if (comparison.metrics->n_beyond != 0) {
    return;
  }
  if (digests_decide(options_.spec)) return;
  comparison.outcome = TensorOutcome::kUncomparable;
  comparison.note = fmt::format(
      "digests differ, and of what differs only {} are stored, which the policy lets pass", which);
}

TensorComparison TensorJudge::judge(const TensorRecord& baseline,
                                    const TensorRecord& candidate,
                                    Depth depth,
                                    const std::string& where) {
  TensorComparison comparison;
  comparison.role = baseline.role;
  comparison.baseline = baseline;
  comparison.candidate = candidate;
  comparison.note = metadata_mismatch(baseline, candidate);
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
  const auto same = same_content(baseline.content_key(), candidate.content_key(), where);
  if (!same) {
    comparison.outcome = TensorOutcome::kUncomparable;
    comparison.note = "digests follow different rules, and there are no bytes to compare";
  } else if (*same) {
    judge_equal(where, comparison);
  } else {
    judge_values(depth, where, comparison);
  }
  return comparison;
}

}  // namespace repro_check::comparators::detail
