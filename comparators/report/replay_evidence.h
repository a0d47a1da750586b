// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comparators/report/finding.h"
#include "core/digest/digest.h"

namespace repro_check::comparators {

/// What two recorded calls of one operator gave when each was executed again by itself, with its
/// own recorded inputs, scalars and generator.
struct ReplayEvidence {
  /// Calls of one side under one setting.
  struct Setting {
    bool of_baseline = true;
    std::string isa;             ///< as asked; empty = as recorded
    std::string cpu_capability;  ///< as LibTorch reports it
    std::uint64_t threads = 0;
    std::uint64_t calls = 0;
    std::vector<core::Digest> results;  ///< distinct ones, over all outputs
    std::optional<bool> as_recorded;    ///< whether all results are the recorded one, where known
  };

  std::optional<std::uint64_t> baseline_op;  ///< which call; empty = there was none to execute
  std::optional<std::uint64_t> candidate_op;
  std::string problem;  ///< why it could not be done; empty = it was
  std::vector<Setting> settings;
  bool same_inputs = true;      ///< of the two recorded calls
  std::string other_arguments;  ///< `eps`, where tensors were the same and these were not
  /// Root mean square distance of the recorded results from the float64 result, where measured.
  std::optional<double> baseline_rmse;
  std::optional<double> candidate_rmse;
  /// baseline_rmse over candidate_rmse: above 1 the candidate is nearer. inf and NaN as
  /// ReplayFindings::reference_ratio() has them.
  std::optional<double> reference_ratio;
  Phrases sentences;  ///< what all this says
};

}  // namespace repro_check::comparators
