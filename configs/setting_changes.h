// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "configs/spec/run_config.h"

namespace repro_check::configs {

/// One thing in which two runs are set up differently.
struct SettingChange {
  std::string pointer;    ///< in the resolved run: `/threads`, `/env/MKL_CBWR`, `/model/path`
  std::string baseline;   ///< as JSON text; `unset` where there is no such member
  std::string candidate;  ///< the same of the other run
  /// Gives a run the candidate's value.
  std::function<void(RunSpec&)> apply;
};

/// What differs between two runs, in the order of the documentation: each variable of `env` and
/// each of `settings` by itself, the inputs as one. Names and dumps are no settings.
std::vector<SettingChange> setting_changes(const RunSpec& baseline, const RunSpec& candidate);

/// The same of two runs that were recorded, as their manifests tell it: pointer, baseline and
/// candidate, without a way to apply them. Empty where one of the texts is no resolved run.
std::vector<SettingChange> recorded_changes(const std::string& baseline,
                                            const std::string& candidate);

/// Of two runs that were recorded, the values that their calls were given and that are no tensors:
/// `/calls/0/inputs/1/value`, 1 and 0. What tensors hold, dumps know. Empty where one of the texts
/// says nothing of calls.
std::vector<SettingChange> recorded_values(const std::string& baseline,
                                           const std::string& candidate);

/// Files that a run reads: models, inputs, another recorder; each once, in order.
std::vector<std::filesystem::path> files_of(const RunSpec& run);

/// Two files that the weights of two runs come from.
struct WeightFiles {
  std::filesystem::path first;   ///< the baseline's model
  std::filesystem::path second;  ///< the other one
  bool operator==(const WeightFiles&) const = default;
};

/// Empty when both runs take every tensor from one and the same file, or all alike.
/// @throws core::Error{kUsage} when there are more than two files
std::optional<WeightFiles> weight_files(const RunSpec& baseline, const RunSpec& candidate);

/// A tensor that the two files hold with other values.
struct DifferingWeight {
  std::vector<std::string> names;  ///< at least one; others share its memory
  std::string what;                ///< of the difference, for people: `3 of 16 elements`
};

/// What differs between the models of two runs, as one change a tensor, and one for all else in the
/// file where the runs name two. None depends on which of the others were made: with all of them
/// a run has the weights of the candidate.
/// @param differing  all that differ between the two files, in the order of the model
std::vector<SettingChange> weight_changes(const RunSpec& baseline,
                                          const RunSpec& candidate,
                                          const WeightFiles& files,
                                          const std::vector<DifferingWeight>& differing);

/// Whether weight_changes() covers this member of a run: `/model/path` and those of the weights.
bool is_of_weights(const SettingChange& change);

}  // namespace repro_check::configs
