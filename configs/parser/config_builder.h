// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "configs/parser/config_parser.h"
#include "configs/parser/problems.h"

namespace repro_check::configs::detail {

/// The configuration in `text`; without meaning when a problem was added.
Config build_config(const std::string& text,
                    const std::filesystem::path& base,
                    const std::vector<ConfigOverride>& overrides,
                    Problems& problems);

}  // namespace repro_check::configs::detail
