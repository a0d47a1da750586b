// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {
class Option;
}

namespace repro_check::cmd {

/// Lets an option take one of a few words; another word is an error that names the near miss.
/// @return `option`
CLI::Option* restrict_to(CLI::Option* option, const std::vector<std::string>& words);

}  // namespace repro_check::cmd
