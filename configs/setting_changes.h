// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
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

/// Files that a run reads: models, inputs, another recorder; each once, in order.
std::vector<std::filesystem::path> files_of(const RunSpec& run);

}  // namespace repro_check::configs
