// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace repro_check::cmd {

/// Lets an option take one of a few words; another word is an error that names the near miss.
/// @return `option`
CLI::Option* restrict_to(CLI::Option* option, const std::vector<std::string>& words);

/// What is not there is a mistake of the command line, told with the near miss.
/// @throws core::Error{kUsage}
void expect_path(const std::string& given);

/// `--reference DUMP`, repeatable: where a dump is that another one refers to.
void define_references(CLI::App& app, std::vector<std::string>& into);

}  // namespace repro_check::cmd
