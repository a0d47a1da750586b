// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "comparators/relate/two_passes.h"
#include "comparators/relate/two_trainings.h"
#include "comparators/report/finding.h"
#include "core/error.h"

namespace repro_check::comparators {

/// The tensor of A's that is nearest to the bound of those within it.
struct WorstWithin {
  double ratio = 0;  ///< to the floor
  TrainedKind kind{};
  std::uint32_t step = 0;
  std::string tensor;  ///< `fc.weight`; empty of a loss or norm
};

struct TrainingsReport {
  std::array<std::uint64_t, kTrainedKinds> judged = {};  ///< tensors of A, by kind
  std::uint64_t unjudged = 0;        ///< of A, that B does not have, or not whole
  std::uint64_t least_elements = 0;  ///< of A's parameters, judged behind each step
  std::size_t steps = 0;             ///< judged, the one that parts included
  WorstWithin worst;
  bool are_samples_known = false;  ///< of all these steps, on both sides
  double least = 0;
  NoVerdict no_verdict = NoVerdict::kNone;
  std::vector<Finding> findings;  ///< of the first step and kind that part

  [[nodiscard]] bool has_diverged() const;
};

/// Whether enough is related for a shadow to be asked.
NoVerdict can_be_judged(const TwoTrainings& trainings, double least);

/// All numbers of a tensor of A, by judged_tensors(), row-major.
/// @param output  kOwnOutput or kOtherOutput, brought_to_a() being what stands in the place of A's
using TrainingShadow = std::function<std::vector<double>(std::size_t i, std::size_t output)>;

/// Holds each tensor of B against float64 of A's step on what B's step before left, and A against
/// the same on what A's left: so rounding does not add up over the steps. Beyond the floor is more
/// than kOwnBound times A's own error, which is taken to be no less than what is usual in its kind
/// and step.
/// @param cuts    operators of A, by op index, that float64 did not execute
TrainingsReport judge_trainings(const TwoTrainings& trainings,
                                double least,
                                const TrainingShadow& shadow,
                                const std::vector<std::uint64_t>& cuts = {});

core::ExitCode exit_code_of(const TrainingsReport& report);

}  // namespace repro_check::comparators
