// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace repro_check::comparators {

/// Ranks, sorted, each once.
using RankList = std::vector<std::uint32_t>;

/// `rank 1`, `ranks 0, 2, 4-7`; of many rows in a row the first.
std::string numbered(std::string_view noun, std::span<const std::uint32_t> numbers);

/// Every judgement that a comparison can make. What a person reads of each is a row of
/// cmd/words/catalogue.json, by its id; no comparator writes a sentence.
enum class FindingId : std::uint8_t {
  // State that replicas must have alike, by what parts first.
  kInitialWeightsDiffer,
  kWeightsWrittenBetweenSteps,
  kStatisticsDrift,
  kActivationsFromOtherData,
  kActivationsFromOtherDraws,
  kActivationsDiffer,
  kClippedInParts,
  kClippedToOtherNorms,
  kClippedOtherParameters,
  kClippedBeforeReduction,
  kClippedByOwnNorm,
  kScaledByOwnNorm,
  kLossScalesDiffer,
  kOverflowNotReduced,
  kReducedInParts,
  kClippedOnSomeRanks,
  kStepSkippedOnSomeRanks,
  kChangedBehindReduction,
  kChangedBehindBackward,
  kCalledPastWrapper,
  kPartialGradients,
  kGradientsOfSomeRanksDiffer,
  kUnusedParameters,
  kGradientsNotReduced,
  kGradientsMissing,
  kSomeGradientsNotReduced,
  kParameterGroupsDiffer,
  kLearningRatesDiffer,
  kOptimizerOptionsDiffer,
  kOptimizerStateDiffers,
  kWeightsWritten,
  kWeightsPart,
  // What ranks exchange.
  kExchangesPart,
  kCollectiveMismatch,
  kSplitMismatch,
  kContentMismatch,
  kResultMismatch,
  kRankMissing,
  kMessageMissing,
  // What ranks read.
  kSameData,
  kSameSamples,
  kSameOrder,
  kEveryWorkerReadsAll,
  kSamplesOverlap,
  kTrainedAndValidated,
  kSamplesPadded,
  // What ranks do.
  kNormLacksShard,
  kNormCountsReplicas,
  kNormOfMore,
  kStepsSkipped,
  kStepsUneven,
  kEndedByException,
  kJoinedToTheEnd,
  kLeftJoinUneven,
  kMasksAreCopies,
  kGeneratorOfAnotherRank,
  kNoDraws,
  kPartsAreCopies,
  kNanOnRank,
  kNoGradients,
  kWeightsNeverMoved,
  kInNoOptimizer,
  kWithoutGradient,
  kNotMoved,
  kAveragedAtTimes,
  // What loaders hand out in two runs.
  kSamplesEqual,
  kSampleContentsDiffer,
  kSamplesReordered,
  kOtherSamples,
  kBatchSizesDiffer,
  kEpochRepeated,
  kLoaderLengthsDiffer,
  // What a recording shows by itself.
  kReadUnwritten,
  kRecomputedOtherwise,
  kDrawsRepeat,
  kDrawnOnce,
  kKeyIsConstant,
  kKeyUsedTwice,
  kCopyDidNotCopy,
  kSameAtEverySync,
  kNotWhatTheStepLeft,
  kStepWithoutBackward,
  kRestoredThenOverwritten,
  kUntied,
  kDropoutInEval,
  kTrainsInEval,
  kOlderThanWeights,
  kWorkersDrawAlike,
  kTwiceInABatch,
  kDivisorZero,
  kWeightWithoutEffect,
  kLostInRounding,
  kFilledOnPartial,
  kEpochNeverArrives,
  kConstantLooksDrawn,
  // What a resumed run goes on from.
  kStateNotSaved,
  kStateNotLoaded,
  kStateUsedUp,
  kStateMisplaced,
  // Why ranks cannot be held against each other.
  kSeveralRuns,
  kSeveralAttempts,
  kSeveralParts,
  kPartAndMeet,
  // Where a result lost its digits.
  kErrorEnters,
  kErrorAmplified,
  kOverflows,
  // What has become of weights on their way to another program.
  kWeightsOfEarlierStep,
  kWeightsMisplaced,
  kAdapterNotMerged,
  kWeightsRounded,
  kWeightsOfOtherValues,
  kWeightsUnrelated,
  kWeightsUnread,
  // Where two computations of one quantity part.
  kModuleWithOtherWeights,
  kModuleBeyondFloor,
  kLogitsScaled,
  // Where a training parts from the same in one process.
  kTrainingStartsElsewhere,
  kTrainingReadsOther,
  kTrainingLossBeyond,
  kTrainingNormBeyond,
  kTrainingGradientScaled,
  kTrainingGradientPartial,
  kTrainingGradientBeyond,
  kTrainingStateBeyond,
  kTrainingStepBeyond,
  // Where compiled code parts from the same operators called one by one.
  kCompiledCaptureDiffers,
  kCompiledAutogradBeyond,
  kCompiledDecompositionBeyond,
  kCompiledKernelBeyond,
  kCompiledDrawsItsOwn,
  // What changes the result of a call that is executed again.
  kLeavesUnwritten,
  kVariesWithThreads,
  kVariesWithAlignment,
  kVariesWithEnvironment,
  kVariesWithBatch,
  kDecidesOnRounding,
  kFragile,
};
inline constexpr FindingId kLastFinding = FindingId::kFragile;
/// `gradients-not-reduced`: stable, in JSON and in expectations.
std::string_view finding_id(FindingId id) noexcept;

struct Phrase;
using Phrases = std::vector<Phrase>;

/// What a finding is about, by name: numbers, names, lists of both, and phrases; no sentences.
using FieldValue = std::
    variant<bool, std::int64_t, double, std::string, RankList, std::vector<std::string>, Phrases>;

struct Field {
  std::string name;
  FieldValue value;

  /// @param given  any whole number, text, or what FieldValue holds
  template <typename T>
  Field(std::string_view of, T&& given);
  bool operator==(const Field& other) const;
};

/// A part of what is said of a cause: the catalogue has a text for each key.
struct Phrase {
  std::string key;
  std::vector<Field> fields = {};

  Phrase() = default;
  explicit Phrase(std::string_view of, std::vector<Field> with = {})
      : key(of), fields(std::move(with)) {}

  template <typename T>
  Phrase& with(std::string_view name, T&& value) {
    fields.emplace_back(name, std::forward<T>(value));
    return *this;
  }
  bool operator==(const Phrase&) const = default;
};

template <typename T>
Field::Field(std::string_view of, T&& given) : name(of) {
  using Given = std::remove_cvref_t<T>;
  if constexpr (std::integral<Given> && !std::same_as<Given, bool>) {
    value = static_cast<std::int64_t>(given);
  } else if constexpr (std::convertible_to<T, std::string_view>) {
    value = std::string(std::forward<T>(given));
  } else if constexpr (std::ranges::range<Given> && !std::constructible_from<FieldValue, T>) {
    value = RankList(std::ranges::begin(given), std::ranges::end(given));
  } else {
    value = std::forward<T>(given);
  }
}
inline bool Field::operator==(const Field& other) const {
  return name == other.name && value == other.value;
}

inline FieldValue run_field(bool of_baseline) {
  return std::string(of_baseline ? "baseline" : "candidate");
}

inline void append(Phrases more, Phrases& phrases) {
  for (Phrase& phrase : more) phrases.push_back(std::move(phrase));
}

/// The key of the phrase that says that a cause is not proven, behind its evidence.
inline constexpr std::string_view kLikely = "likely";
/// Of what nobody has measured.
inline constexpr std::string_view kValuesDiffer = "differs";

/// Where a finding is seen, as far as it is known.
struct FindingPlace {
  std::optional<std::uint32_t> rank;
  std::optional<std::uint32_t> step;
  std::optional<std::uint64_t> op;  ///< op index, on that rank
  std::string line;                 ///< `train.py:31`
  std::string tensor;               ///< name of a parameter or buffer, or slot of an argument

  bool operator==(const FindingPlace&) const = default;
};

/// One judgement: what it is, how sure, where, and what it is about.
struct Finding {
  enum class Weight { kProof, kSuspicion, kNote };
  FindingId id{};
  Weight weight = Weight::kSuspicion;
  FindingPlace where = {};
  std::vector<Field> fields = {};

  /// Adds a field.
  template <typename T>
  Finding& with(std::string_view name, T&& value) & {
    fields.emplace_back(name, std::forward<T>(value));
    return *this;
  }
  template <typename T>
  Finding&& with(std::string_view name, T&& value) && {
    return std::move(with(name, std::forward<T>(value)));
  }
  Finding& at_step(std::uint32_t step) & {
    where.step = step;
    return *this;
  }
  Finding&& at_step(std::uint32_t step) && { return std::move(at_step(step)); }

  bool operator==(const Finding&) const = default;
};

}  // namespace repro_check::comparators
