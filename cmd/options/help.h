// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "cmd/options/command_line.h"

namespace repro_check::cmd {

/// What `--help` says of the tool or a verb.
/// @param words    `repro-check gate accept`
/// @param footer   what stands below all else
/// @param columns  how wide; what is too long goes on below where its text began; 0 = as it is
std::string help_text(const CliVerb& verb,
                      const std::string& words,
                      const std::string& footer,
                      std::size_t columns);

/// `-n,--repeat N  Run the one configuration so many times (2)`
std::string option_line(const CliOption& option);

}  // namespace repro_check::cmd
