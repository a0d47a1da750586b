// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "cmd/terminal/global_options.h"
#include "comparators/ranks/ranks.h"

namespace repro_check::cmd {

/// What is said of ranks that were held against each other.
/// @param dump    as it was given
/// @param format  text | json
std::string ranks_report(const comparators::RanksReport& report,
                         const std::string& dump,
                         std::string_view format,
                         const GlobalOptions& globals);

}  // namespace repro_check::cmd
