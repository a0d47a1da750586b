// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "configs/spec/run_config.h"

namespace repro_check::cmd {

/// The run of that name; when none is named the configuration without any run's overrides, or the
/// first run where only the runs say what is to be run.
/// @return borrowed from `config`
/// @throws core::Error{kUsage} with the near miss
const configs::RunSpec& choose_run(const configs::Config& config,
                                   const std::optional<std::string>& name);

}  // namespace repro_check::cmd
