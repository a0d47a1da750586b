// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/report/finding.h"
#include "comparators/report/measures.h"
#include "configs/spec/compare_spec.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// Operators that drew random numbers in both runs, those left out that another recorded one
/// called. Where the runs agree, they do because their generators were seeded alike.
struct RandomDraws {
  static constexpr std::size_t kMostSeeds = 4;

  std::uint64_t operators = 0;
  std::vector<std::string> devices;  ///< of the generators, `cpu`, by their first draw
  /// The generators' own, at most kMostSeeds; where draws are moved to the host, the run's.
  std::vector<std::uint64_t> seeds;
  Phrases parting;  ///< where the generators parted; empty where they did not
  Phrases of_host;  ///< generators that no operator draws from, of a program, and who seeded them
};

/// Calls of one operator.
struct OperatorCount {
  std::string name;
  std::uint64_t calls = 0;
};

/// A number of a training by step.
struct StepSeries {
  enum class Kind : std::uint8_t {
    kLoss,          ///< what a backward pass began with
    kGradientNorm,  ///< L2, over all parameters of an optimizer
    kLearningRate,
    kDrift,  ///< L2 distance of what a step leaves of the parameters, relative to the baseline's
  };
  static constexpr Kind kLastKind = Kind::kDrift;

  Kind kind = Kind::kLoss;
  std::uint32_t ordinal = 0;  ///< which of those of one step: several losses, several optimizers
  std::uint32_t stride = 1;   ///< one step in so many is there
  std::vector<std::uint32_t> steps;  ///< ascending
  std::vector<Metric> baseline;      ///< by step, null where it has none; of kDrift all are null
  std::vector<Metric> candidate;     ///< likewise; of kDrift the distance
  std::optional<std::uint32_t> first_apart;  ///< the first step where the runs are not bit-equal
};

/// How what a loader hands out in two runs differs.
enum class DataVerdict : std::uint8_t {
  kEqual,      ///< the same samples with the same contents, batch by batch
  kContents,   ///< the same samples in the same order, with other contents
  kReordered,  ///< the same samples in another order
  kOther,      ///< other samples
  kLength,     ///< equal as far as both go
};
inline constexpr DataVerdict kLastDataVerdict = DataVerdict::kLength;

/// `equal`, `reordered`.
std::string_view data_verdict_name(DataVerdict verdict) noexcept;

/// What one loader hands out in two runs of a program.
struct DataComparison {
  std::string loader;  ///< `train.py:40`
  DataVerdict verdict = DataVerdict::kEqual;
  std::uint64_t batches = 0;  ///< that both runs have
  // The first batch that differs; of no meaning where none does.
  std::uint32_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;  ///< in its epoch
  Finding finding;          ///< the same, and what to do; a note where nothing differs
};

/// Operators of two runs, beside numbers that are judged.
struct ChangedOperators {
  static constexpr std::size_t kMostKinds = 8;

  std::uint64_t baseline = 0;  ///< all of this run
  std::uint64_t candidate = 0;
  std::uint64_t differing = 0;  ///< pairs whose results are not bit-equal
  std::uint64_t baseline_only = 0;
  std::uint64_t candidate_only = 0;
  std::vector<OperatorCount> kinds_baseline;  ///< of those in one run only, the first kMostKinds
  std::vector<OperatorCount> kinds_candidate;
  /// The first of them, of the baseline where that has any.
  std::optional<std::uint64_t> first_index;
  bool first_in_baseline = true;
  core::OpRecord first;  ///< head

  [[nodiscard]] std::uint64_t total() const noexcept {
    return differing + baseline_only + candidate_only;
  }
};

/// What CompareSpec::numbers judged, in the place of operators.
struct NumbersSummary {
  bool by_name = false;  ///< the kinds were asked for, one by one
  std::vector<configs::NumberKind> judged;
  std::vector<configs::NumberKind> not_recorded;  ///< in one of the runs, of those that are wanted
  std::uint64_t steps = 0;                        ///< with a loss or an optimizer's step
  std::uint64_t results = 0;                      ///< records of results
  std::optional<ChangedOperators> operators;      ///< empty where they cannot be paired

  [[nodiscard]] bool judges(configs::NumberKind kind) const {
    return std::ranges::find(judged, kind) != judged.end();
  }
  /// Some that were asked for are not there: no pass, whatever is equal.
  [[nodiscard]] bool lacks_named() const noexcept { return by_name && !not_recorded.empty(); }
};

}  // namespace repro_check::comparators
