// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "configs/spec/run_config.h"

namespace repro_check::configs::detail {

/// Of a run, and of a comparison.
inline constexpr std::int64_t kMostThreads = 4096;
inline constexpr std::int64_t kMostSeconds = 31'536'000;  ///< a year

// Every key the parser takes, object by object. A test holds the JSON Schema against these.

/// What the top level, an entry of `runs` and a resolved run have in common.
#define REPRO_CHECK_RUN_KEYS                                                                     \
  "model", "inputs", "calls", "seed", "determinism", "disable_dropout", "rng", "grad", "device", \
      "dtype", "threads", "interop_threads", "optimize_executor", "env", "settings", "recorder", \
      "extensions"
inline constexpr auto kConfigKeys = std::to_array<std::string_view>({REPRO_CHECK_RUN_KEYS,
                                                                     "timeout",
                                                                     "$schema",
                                                                     "preset",
                                                                     "runs",
                                                                     "repeat",
                                                                     "dump",
                                                                     "compare",
                                                                     "report",
                                                                     "baselines",
                                                                     "expected",
                                                                     "min_judged"});
inline constexpr auto kRunKeys =
    std::to_array<std::string_view>({"name", REPRO_CHECK_RUN_KEYS, "timeout"});
inline constexpr auto kResolvedRunKeys =
    std::to_array<std::string_view>({"name", REPRO_CHECK_RUN_KEYS, "dump"});
#undef REPRO_CHECK_RUN_KEYS

inline constexpr auto kModelKeys =
    std::to_array<std::string_view>({"path", "method", "mode", "weights_from", "weights"});
inline constexpr auto kCallKeys = std::to_array<std::string_view>({"inputs"});
inline constexpr auto kDumpKeys = std::to_array<std::string_view>({"directory",
                                                                   "level",
                                                                   "window",
                                                                   "depth",
                                                                   "browse",
                                                                   "verify_inputs",
                                                                   "include",
                                                                   "exclude",
                                                                   "memory",
                                                                   "max_bytes",
                                                                   "slice",
                                                                   "reference"});
inline constexpr auto kResolvedDumpKeys = std::to_array<std::string_view>({"directory",
                                                                           "level",
                                                                           "depth",
                                                                           "browse",
                                                                           "verify_inputs",
                                                                           "include",
                                                                           "exclude",
                                                                           "memory",
                                                                           "max_bytes",
                                                                           "slice",
                                                                           "reference",
                                                                           "keep_ops"});
inline constexpr auto kSliceKeys = std::to_array<std::string_view>({"elements", "stride", "above"});
/// Of a policy, be it in the section itself or an object of its own.
#define REPRO_CHECK_POLICY_KEYS                                                      \
  "rtol", "atol", "ulp", "share", "cosine", "drift", "factor", "slack", "equal_nan", \
      "signed_zero", "subnormals"
inline constexpr auto kCompareKeys = std::to_array<std::string_view>({"policy",
                                                                      REPRO_CHECK_POLICY_KEYS,
                                                                      "rules",
                                                                      "unmatched",
                                                                      "strict_rules",
                                                                      "noise",
                                                                      "fp64",
                                                                      "lenient",
                                                                      "dtype",
                                                                      "strides",
                                                                      "device",
                                                                      "alias",
                                                                      "align",
                                                                      "order",
                                                                      "map",
                                                                      "max_growth",
                                                                      "threads"});
inline constexpr auto kPolicyKeys =
    std::to_array<std::string_view>({"kind", REPRO_CHECK_POLICY_KEYS});
#undef REPRO_CHECK_POLICY_KEYS
inline constexpr auto kRuleKeys = std::to_array<std::string_view>({"match", "policy"});
inline constexpr auto kMatchKeys =
    std::to_array<std::string_view>({"operator", "module", "phase", "tensor", "dtype", "device"});
inline constexpr auto kRulesFileKeys =
    std::to_array<std::string_view>({"rules", "unmatched", "strict_rules", "noise", "fp64"});
inline constexpr auto kBaselinesKeys =
    std::to_array<std::string_view>({"directory", "name", "any_of", "store"});
inline constexpr auto kExpectedKeys = std::to_array<std::string_view>({"operator",
                                                                       "module",
                                                                       "phase",
                                                                       "platform",
                                                                       "limit",
                                                                       "happens",
                                                                       "reason",
                                                                       "issue",
                                                                       "owner",
                                                                       "expires"});
inline constexpr auto kLimitKeys = std::to_array<std::string_view>({"ulp", "atol", "rtol"});
/// The index is Happens.
inline constexpr auto kHappensNames = std::to_array<std::string_view>({"always", "sometimes"});
inline constexpr auto kReportKeys = std::to_array<std::string_view>({"format", "files"});

/// The key that says what an input is; exactly one stands in it.
inline constexpr auto kSourceKeys = std::to_array<std::string_view>(
    {"generate", "npy", "torch", "hdf5", "value", "list", "tuple", "dict"});
/// What may stand beside `generate`, over all distributions.
inline constexpr auto kGenerateKeys =
    std::to_array<std::string_view>({"shape", "dtype", "seed", "low", "high", "mean", "std"});

inline constexpr std::array kModelModes{ModelMode::kEval, ModelMode::kTrain, ModelMode::kAsSaved};
inline constexpr std::array kDeterminismModes{
    DeterminismMode::kOff, DeterminismMode::kWarn, DeterminismMode::kError};
inline constexpr std::array kRngModes{RngMode::kDevice, RngMode::kHost};
inline constexpr std::array kGradModes{
    GradMode::kDisabled, GradMode::kEnabled, GradMode::kInference};
inline constexpr std::array kDumpLevels{DumpLevel::kDigest, DumpLevel::kStats, DumpLevel::kTensor};
/// What a configuration may ask for: the index is kDumpLevels', or past its end `auto`.
inline constexpr auto kLevelNames =
    std::to_array<std::string_view>({"digest", "stats", "tensor", "auto"});
inline constexpr std::array kDumpDepths{DumpDepth::kTop, DumpDepth::kLeaf, DumpDepth::kAll};
inline constexpr std::array kBrowseModes{
    BrowseMode::kAuto, BrowseMode::kAlways, BrowseMode::kNever};
inline constexpr std::array kPolicyKinds{PolicyKind::kBitwise,
                                         PolicyKind::kTolerance,
                                         PolicyKind::kUlp,
                                         PolicyKind::kCosine,
                                         PolicyKind::kNoise,
                                         PolicyKind::kFp64,
                                         PolicyKind::kMsprobe,
                                         PolicyKind::kIgnore};
inline constexpr std::array kUnmatchedRules{
    Unmatched::kError, Unmatched::kPolicy, Unmatched::kIgnore};
inline constexpr std::array kAttributeRules{
    AttributeRule::kNote, AttributeRule::kStrict, AttributeRule::kIgnore};
/// The index is CompareSpec::promote.
inline constexpr auto kDtypeRuleNames = std::to_array<std::string_view>({"strict", "promote"});
inline constexpr std::array kAlignModes{AlignMode::kKeyed, AlignMode::kStrict};
inline constexpr std::array kOperatorOrders{OperatorOrder::kStrict, OperatorOrder::kRelaxed};
inline constexpr std::array kEqualNans{EqualNan::kBits, EqualNan::kAny, EqualNan::kNever};
inline constexpr std::array kDistributions{Distribution::kZeros,
                                           Distribution::kOnes,
                                           Distribution::kArange,
                                           Distribution::kNormal,
                                           Distribution::kUniform,
                                           Distribution::kRandint};
/// The index is PolicySpec::signed_zero_distinct.
inline constexpr auto kSignedZeroNames = std::to_array<std::string_view>({"same", "distinct"});
/// The index is PolicySpec::flush_subnormals.
inline constexpr auto kSubnormalNames = std::to_array<std::string_view>({"exact", "flush"});
inline constexpr auto kReportFormats = std::to_array<std::string_view>({"text", "json"});
inline constexpr auto kReportFileFormats = std::to_array<std::string_view>(
    {"text", "json", "jsonl", "markdown", "junit", "sarif", "html", "github", "codequality"});

}  // namespace repro_check::configs::detail
