// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "configs/spec/name_pattern.h"

namespace repro_check::configs {

enum class PolicyKind {
  kBitwise,
  kTolerance,
  kUlp,
  kCosine,
  kNoise,    ///< measured against the floor of repeated runs of the baseline
  kFp64,     ///< errors of both sides against a run in float64
  kMsprobe,  ///< the thresholds of msprobe's documents, to compare verdicts with it
  kIgnore,   ///< counts as skipped, never as compared
};
constexpr std::string_view words_of(PolicyKind /*type*/) {
  return "bitwise tolerance ulp cosine noise fp64 msprobe ignore";
}
enum class EqualNan { kBits, kAny, kNever };
constexpr std::string_view words_of(EqualNan /*type*/) { return "bits any never"; }

/// What one tensor has to keep to.
struct PolicySpec {
  PolicyKind kind = PolicyKind::kBitwise;
  /// Tolerance: given together or not at all: then the dtype's defaults.
  std::optional<double> rtol = {};
  std::optional<double> atol = {};
  std::uint64_t ulp = 0;  ///< ulp: greatest distance in the tensor's own dtype
  double share = 0;       ///< ulp: of the elements so many may be farther apart, 0 to 1
  double cosine = 0.999;  ///< cosine: least similarity, -1 to 1
  double drift = 0.01;    ///< cosine: greatest |norm ratio - 1|
  /// noise, fp64: so many times the floor, or the baseline's error, pass; 0 or more. Default: 2;
  /// under fp64 3 for dtypes of 16 bits and fewer, and for fewer than 1,000 elements.
  std::optional<double> factor = {};
  double slack = 0;  ///< fp64: root mean square error that passes on top; 0 or more
  std::optional<EqualNan> equal_nan = {};         ///< default: bits under bitwise, any otherwise
  std::optional<bool> signed_zero_distinct = {};  ///< default: true under bitwise, false otherwise
  bool flush_subnormals = false;  ///< what is below the least normal number counts as zero
  bool operator==(const PolicySpec&) const = default;
};

/// What a rule is about; a pattern that is absent takes everything.
struct MatchSpec {
  std::optional<NamePattern> op;      ///< name with or without its overload
  std::optional<NamePattern> module;  ///< module path; the root's is empty
  std::optional<NamePattern> phase;   ///< forward, backward, optimizer
  std::optional<NamePattern> tensor;  ///< `output 0`, or the slot alone: `0`
  std::optional<NamePattern> dtype;   ///< the baseline's
  std::optional<NamePattern> device;  ///< the baseline's
  bool operator==(const MatchSpec&) const = default;
};

struct Rule {
  MatchSpec match;
  PolicySpec policy;
  bool operator==(const Rule&) const = default;
};

/// What becomes of a tensor that no rule matches.
enum class Unmatched {
  kError,   ///< it is not judged
  kPolicy,  ///< CompareSpec::policy judges it
  kIgnore,
};
constexpr std::string_view words_of(Unmatched /*type*/) { return "error policy ignore"; }

/// What becomes of a difference in something that is not content.
enum class AttributeRule { kNote, kStrict, kIgnore };
constexpr std::string_view words_of(AttributeRule /*type*/) { return "note strict ignore"; }

/// What may pair two records.
enum class AlignMode {
  kKeyed,   ///< rank, lane, step, phase, depth, module and operator, in order
  kStrict,  ///< the place alone; another operator there is a mismatch
};
constexpr std::string_view words_of(AlignMode /*type*/) { return "keyed strict"; }

/// Whether calls may come in another order.
enum class OperatorOrder {
  kStrict,
  kRelaxed,  ///< where all their inputs and outputs are bit-equal
};
constexpr std::string_view words_of(OperatorOrder /*type*/) { return "strict relaxed"; }

/// What a training leaves at every step, and a program at its end.
enum class NumberKind {
  kLosses,
  kParameters,
  kGradients,
  kState,    ///< of optimizers
  kResults,  ///< what a program returned, saved or turned into numbers of Python
};
constexpr std::string_view words_of(NumberKind /*type*/) {
  return "losses parameters gradients state results";
}
/// The word for all of them that are recorded.
inline constexpr std::string_view kRecordedNumbers = "recorded";

struct CompareSpec {
  PolicySpec policy;
  /// Judges these, whatever operators made them; an empty list takes those that are recorded.
  /// Without it every operator is judged.
  std::optional<std::vector<NumberKind>> numbers;
  /// In order: the first that matches a tensor is its policy. Empty = `policy` judges all.
  std::vector<Rule> rules;
  Unmatched unmatched = Unmatched::kError;
  bool strict_rules = false;  ///< a rule that judged nothing is an error
  /// Floors of the policy noise; absolute once parsed. Read by whoever compares.
  std::optional<std::filesystem::path> noise;
  /// Dump of the same run in float64 for the policy fp64; as `noise`.
  std::optional<std::filesystem::path> fp64;
  bool promote = false;  ///< dtypes of one class may differ: compared in the wider one
  AttributeRule strides = AttributeRule::kNote;
  AttributeRule alias = AttributeRule::kNote;  ///< which tensors of a call share their memory
  std::optional<AttributeRule>
      device;  ///< default: strict where both runs claim the same, else note
  AlignMode align = AlignMode::kKeyed;
  OperatorOrder order = OperatorOrder::kStrict;
  /// The candidate resumed from a checkpoint of the baseline, and is held against what that did
  /// from there on. No key of the section: /program/resume says so.
  bool resume = false;
  NameMap map;  ///< the candidate's names that are the baseline's in other words
  /// Fail when the relative L2 error grows more than so many times from the first operator that
  /// differs to the end; above 0.
  std::optional<double> max_growth;
  /// Threads that compare; default: as many as there are processors. No result depends on it.
  std::optional<unsigned> threads;
};

/// Whether the policy of the section or of a rule measures against CompareSpec::noise.
bool uses_noise(const CompareSpec& spec) noexcept;
/// The same of fp64 and CompareSpec::fp64.
bool uses_fp64(const CompareSpec& spec) noexcept;

/// What `lenient` is short for: dtypes are promoted, devices and strides noted. Shapes, layouts,
/// quantisers and numbers of results are never relaxed.
void relax(CompareSpec& spec) noexcept;

}  // namespace repro_check::configs
