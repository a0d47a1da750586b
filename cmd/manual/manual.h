// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cmd/options/command_line.h"

namespace repro_check::cmd {

/// What may stand in the place of the last word, a line each: the word, and behind a tabulator what
/// it is; `:files` or `:directories` where those may stand; `:program` and its place among the
/// words where a program is typed behind `--`. The scripts of `completion` ask for it.
/// @param words  of the command line behind the tool's name, the last as far as it is typed
/// @param shell  bash splits words at `=` and wants what is behind it alone; zsh puts `=` behind
///               options that take a value
std::string next_words(const CliVerb& tool,
                       std::vector<std::string> words,
                       const std::string& shell);

}  // namespace repro_check::cmd
