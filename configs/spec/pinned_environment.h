// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "configs/spec/run_config.h"

namespace repro_check::configs {

/// Variables a run sets, or takes away where the value is empty, before its recorder starts; all
/// others are inherited. What the configuration's `env` says wins over what is pinned here. Which
/// are pinned when is in docs/CONFIGURATION.md.
std::map<std::string, std::optional<std::string>> pinned_environment(const RunSpec& run);

}  // namespace repro_check::configs
