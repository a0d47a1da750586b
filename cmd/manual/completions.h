// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cmd/options/cli_tree.h"

namespace repro_check::cmd {

/// Scripts that complete command lines of the tool: verbs, options, the words an option takes, and
/// files or directories where it takes those.
std::string bash_completion(const CliVerb& tool);
std::string zsh_completion(const CliVerb& tool);
std::string fish_completion(const CliVerb& tool);

}  // namespace repro_check::cmd
