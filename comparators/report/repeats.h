// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "comparators/report/statistics.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// An operator that gave more than one result for equal inputs.
struct FlakyOp {
  std::uint64_t index = 0;  ///< op index in the first run
  core::OpRecord record;    ///< its head in the first run
  /// Runs that gave each distinct result, of those whose inputs were equal; the most frequent
  /// first. Their sum is the number of runs that count.
  std::vector<std::uint64_t> counts;
  double disagreement = 0;  ///< as disagreement() has it
  /// Chance that a run differs from the first one that counts, at a confidence that holds for all
  /// operators at once.
  Interval differs;
  /// Worst over one run of every further result, against the first; empty where there are no bytes.
  std::optional<double> l2_rel;
  std::optional<std::uint64_t> ulp_max;

  [[nodiscard]] std::uint64_t runs() const noexcept {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  }
};

/// What N recordings of one configuration say of its operators.
struct OpRepeatability {
  std::uint64_t runs = 0;      ///< recordings looked at; 0 = none was
  std::uint64_t assessed = 0;  ///< operators with an output in two runs of equal inputs, or more
  std::uint64_t flaky = 0;     ///< of those with more than one result
  std::uint64_t not_assessed = 0;  ///< of the first run's operators
  std::vector<FlakyOp> ops;        ///< the least repeatable first, then by op index
  std::vector<std::string> notes;  ///< what was left out, and why
};

/// One of N runs of a configuration.
struct RepeatedRun {
  std::string name;
  std::string location;
  std::string status;  ///< of its comparison with the first run; the first run's own is empty
  /// Baseline op index of its first divergence from the first run.
  std::optional<std::uint64_t> first_divergence;
};

/// What N runs of one configuration say together.
struct RepeatSummary {
  std::vector<RepeatedRun> runs;
  std::uint64_t judged = 0;     ///< runs that could be compared with the first
  std::uint64_t differing = 0;  ///< of those
  bool alike = true;            ///< no setting that affects numbers differs between the runs
  OpRepeatability ops;

  /// Chance that a run differs from the first one.
  [[nodiscard]] Interval chance() const noexcept { return clopper_pearson(differing, judged); }
  /// More than half differ from the first run.
  [[nodiscard]] bool first_is_odd() const noexcept { return 2 * differing > judged; }
};

}  // namespace repro_check::comparators
