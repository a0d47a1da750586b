// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// `rng stream`, as reports and docs/CAUSES.md call it; empty for kNone.
std::string_view cause_name(CauseKind kind) noexcept;

/// Why an origin is an origin, or what made an input differ.
struct Cause {
  CauseKind kind = CauseKind::kNone;
  std::string evidence;  ///< one sentence in plain words
  std::string advice;    ///< what to change
  /// Further causes that hold as well, the likeliest first. Theirs are empty.
  std::vector<Cause> also = {};
  /// What could not be asked because its evidence is not in the dumps: `generator positions`.
  std::vector<std::string> not_recorded = {};
  std::string known = {};  ///< `evidence` but for how likely it is, where it says that

  Cause() = default;
  /// With the advice that every cause of its kind gets.
  Cause(CauseKind kind_, std::string evidence_);
  /// With one of its own.
  Cause(CauseKind kind_, std::string evidence_, std::string advice_)
      : kind(kind_), evidence(std::move(evidence_)), advice(std::move(advice_)) {}

  [[nodiscard]] std::string_view name() const noexcept { return cause_name(kind); }
};

}  // namespace repro_check::comparators
