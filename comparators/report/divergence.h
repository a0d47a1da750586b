// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparators/report/alignment.h"
#include "comparators/report/finding.h"
#include "comparators/report/measures.h"
#include "configs/spec/compare_spec.h"
#include "core/tensor/content.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// Why an operator is not fine: the sections of docs/CAUSES.md.
enum class CauseKind : std::uint8_t {
  kNone,
  kMode,
  kInputData,
  kWeights,
  kConstant,
  kArgument,
  kRngStream,
  kGeneratorAlgorithm,
  kUninitialised,
  kRace,
  kFlushToZero,
  kOverflow,
  kTies,
  kLayout,
  kSettings,
  kEnvironment,
  kThreads,
  kNondeterministicKernel,
  kUnexplained,
  kPropagated,
  kAmplified,
  kReceived,
  kUnobservedWrite,
  kOutsideOperators,
  kOtherValue,
  kOtherStructure,
  kDtypePromotion,
  kMismatch,
  kOperatorDiffers,
  kReordered,
  kDecomposed,
  kLoop,
  kControlFlow,
  kMissing,
  kExtra,
};
inline constexpr CauseKind kLastCause = CauseKind::kExtra;

/// `rng-stream`: stable, for scripts and expectations; empty for kNone.
std::string_view cause_id(CauseKind kind) noexcept;
/// Null where none is called so. @param id  not empty
std::optional<CauseKind> cause_of_id(std::string_view id) noexcept;

/// Why an origin is an origin, or what made an input differ.
struct Cause {
  CauseKind kind = CauseKind::kNone;
  Phrases evidence;
  std::optional<Phrase> advice;  ///< what to change; null = what helps with every cause of its kind
  /// Further causes that hold as well, the likeliest first. Theirs are empty.
  std::vector<Cause> also = {};
  /// What could not be asked because its evidence is not in the dumps: `generator positions`.
  std::vector<std::string> not_recorded = {};

  Cause() = default;
  Cause(CauseKind of, Phrases shown) : kind(of), evidence(std::move(shown)) {}
  Cause(CauseKind of, Phrases shown, Phrase mend)
      : kind(of), evidence(std::move(shown)), advice(std::move(mend)) {}
};

/// What the first divergence is about; kNone for a pass.
enum class DivergenceKind {
  kNone,
  kOrigin,         ///< an operator whose inputs were bit-equal gave another output
  kInputs,         ///< the forward arguments differed
  kWeights,        ///< parameters or buffers differed
  kControlFlow,    ///< the op streams part
  kMissing,        ///< an operator is on one side only
  kMismatch,       ///< dtype, shape, layout or number of results
  kUninitialised,  ///< an operator read memory nobody had written
  kRng,            ///< a generator stood at another place
  kGrowth,         ///< every operator is within its policy, and the error grows beyond max_growth
  kUnrepeated,     ///< two pairs of runs of one configuration did not diverge alike, or two runs
                   ///< without recording did not return the same
  kExpectation,    ///< a divergence that is expected did not keep to what was said of it
  kRestore,        ///< a resumed run went on from another state than the run that it resumes
};

enum class Relation { kOrigin, kPropagated, kMismatch, kMissing };

enum class TensorOutcome {
  kEqual,         ///< bit-identical
  kWithin,        ///< differs, policy passes
  kBeyond,        ///< differs, policy fails
  kMismatch,      ///< dtype, shape, layout, state or number differ: no values compared
  kUncomparable,  ///< no content on a side where the policy needs it
  kSkipped,       ///< uninitialised on both sides, or excluded
};

/// One tensor of a matched operator, where it is not equal.
struct TensorComparison {
  core::TensorRole role = core::TensorRole::kOutput;
  core::TensorRecord baseline;
  core::TensorRecord candidate;
  TensorOutcome outcome = TensorOutcome::kEqual;
  Phrases note;  ///< `dtype differs: float32 against float16`, `only zero signs differ`
  std::optional<TensorMetrics> metrics;
  std::vector<Sample> samples;  ///< first differing elements, at most 10
  /// All that was looked at where digests differ: metrics and samples are about these elements,
  /// with indices of the whole tensor.
  std::optional<core::ContentSlice> slice;
  std::optional<NoiseDistance> noise;  ///< under the policy noise, where there is a floor
  std::optional<Fp64Distance> fp64;    ///< under the policy fp64, where it could be measured
  std::string policy;                  ///< that judged it, in words; empty where none did
  std::optional<configs::PolicyKind> policy_kind;
  std::optional<std::size_t> rule;  ///< index in Report::rules; empty where none of them matched
};

/// Whose fault it is that an operator is not fine.
struct Attribution {
  Relation relation = Relation::kOrigin;
  DivergenceKind kind = DivergenceKind::kOrigin;
  std::vector<std::uint64_t> producers = {};  ///< divergent baseline ops that made differing inputs
  Cause cause = {};
};

/// One operator that is not fine.
struct OpDivergence : Attribution {
  std::optional<std::uint64_t> baseline_index;
  std::optional<std::uint64_t> candidate_index;
  core::OpRecord baseline;  ///< the side that has none is default-constructed
  core::OpRecord candidate;
  MatchedBy matched_by = MatchedBy::kNone;  ///< what paired the two records, where there are two
  std::uint64_t occurrence = 0;             ///< how many earlier baseline records share its key
  std::vector<TensorComparison> outputs;    ///< those that are not equal
  std::vector<TensorComparison> inputs;     ///< those that are not equal
  std::vector<std::string> notes;           ///< differing scalar arguments and results, by name
  Phrases replaced;                         ///< what another operator in its place differs in
  std::string code;                         ///< the line of source at its place; empty = not known
  double severity = 0;  ///< orders propagated ones: l2_rel, inf for NaN, Inf and mismatches
};

/// What one operator did to the relative L2 error (TensorMetrics::l2_rel, the greatest of its
/// floating tensors). Null where it is not known.
struct GrowthStep {
  std::uint64_t op = 0;  ///< baseline op index
  std::string operator_name;
  std::string module_path;
  Metric in;      ///< of its differing inputs
  Metric out;     ///< of its outputs
  Metric factor;  ///< out / in
};

/// An operator whose outputs differ in some bit although nothing that the trace made before was
/// different, or a place where the streams part; whether or not the policy lets it pass.
struct Origin {
  std::optional<std::uint64_t> baseline_index;
  std::optional<std::uint64_t> candidate_index;
  core::OpRecord record;  ///< what names it; no tensors
  Relation relation = Relation::kOrigin;
  CauseKind cause = CauseKind::kNone;  ///< kNone where the policy lets it pass
  bool beyond_policy = false;
  Metric l2_rel;
  /// Later operators whose outputs differ because of it, perhaps among others.
  std::optional<std::uint64_t> tainted;
  /// Of those the ones whose values no operator reads any more: at most 16 of outputs_total.
  std::vector<std::uint64_t> outputs;
  std::uint64_t outputs_total = 0;
  /// From it to the worst of its outputs, by way of the input with the greatest error each time: at
  /// most 64 of path_steps, those that change the error most. Empty where another origin weighs
  /// more.
  std::vector<GrowthStep> path;
  std::uint64_t path_steps = 0;
};

/// An operator that makes the error more than so many times as great is worth a warning; the factor
/// of msprobe's own row warning.
inline constexpr double kSteepGrowth = 10;

/// How the error went through the trace. An operator amplifies above a factor of 2, damps below
/// 0.5, and absorbs when differing inputs give bit-equal outputs.
struct Growth {
  std::optional<GrowthStep> first;  ///< the first operator whose error is known
  std::optional<GrowthStep> last;   ///< the worst final value, or the last operator that differs
  Metric ratio;                     ///< error of the last over that of the first
  std::optional<GrowthStep> steepest;
  std::uint64_t amplified = 0;
  std::uint64_t damped = 0;
  std::uint64_t carried = 0;
  std::uint64_t absorbed = 0;
  std::uint64_t steep = 0;  ///< of the amplified ones those above kSteepGrowth
  bool exceeded = false;    ///< ratio is above max_growth
};

/// A number or truth that an operator returned to the program, before the streams parted.
struct Decision {
  std::uint64_t baseline_index = 0;
  std::uint64_t candidate_index = 0;
  core::OpRecord op;  ///< head of the baseline's
  std::string baseline;
  std::string candidate;

  [[nodiscard]] bool differs() const noexcept { return baseline != candidate; }
};

/// Where the two streams part.
struct ControlFlow {
  /// The last answer before it that was not the same on both sides, else the last that a branch
  /// can have been taken by.
  std::optional<Decision> decision;
  std::optional<std::uint64_t> last_common_baseline;
  std::optional<std::uint64_t> last_common_candidate;
  core::OpRecord last_common;  ///< head of the baseline's, where there is one
  std::string baseline_next;   ///< operator, empty at the end of the stream
  std::string candidate_next;
  std::uint64_t unmatched_baseline = 0;
  std::uint64_t unmatched_candidate = 0;
  bool rejoined = false;
};

/// The record that stands for a call: the baseline's where it has one.
const core::OpRecord& shown_record(const OpDivergence& op) noexcept;
std::uint64_t shown_index(const OpDivergence& op) noexcept;

/// Path of the module that called it, empty where that is not known. Borrowed.
std::string_view module_of(const core::OpRecord& record) noexcept;

/// Whether `word` is one of those in `words`, between which one space stands.
bool is_word_of(std::string_view words, std::string_view word) noexcept;

/// `aten::add.Tensor`; `unknown operator` for a record without one.
std::string operator_text(const core::OpRecord& record);

/// `op 41 aten::addmm (encoder.layers.3.linear1)`
std::string step_text(const GrowthStep& step);

/// `op 41 aten::addmm (encoder.layers.3.linear1, train.py:31)`
std::string op_text(const core::OpRecord& record);

/// What names an operator, without its tensors, arguments and results.
core::OpRecord head_of(const core::OpRecord& record);

}  // namespace repro_check::comparators
