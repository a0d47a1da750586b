// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace repro_check::cmd {

/// One option or positional of a verb, as the command line library was told of it.
struct CliOption {
  std::vector<std::string> names;  ///< `-n`, `--repeat`; of a positional its name alone
  std::string value;               ///< `FILE`, `text|json`; empty for a flag
  std::vector<std::string> words;  ///< the values it takes, where they are few
  std::string description;
  bool repeats = false;
  bool required = false;
};

/// What a value is completed with.
enum class CliValue { kWords, kFile, kDirectory, kOther };
CliValue value_kind(const CliOption& option);

/// The tool itself, one of its verbs, or one below a verb.
struct CliVerb {
  std::string name;
  std::string summary;
  std::vector<CliOption> positionals;
  std::vector<CliOption> options;
  std::vector<CliOption> global_options;  ///< those that every verb takes
  std::vector<std::string> examples;
  std::vector<CliVerb> verbs;  ///< of the tool, or those below a verb
};

/// Everything that `app` takes, so that completions and manual pages cannot say anything else.
/// @param app  the tool's, or that of one of its verbs
CliVerb walk(const CLI::App& app);
/// The tool that a verb belongs to.
CliVerb walk_tool(const CLI::App& verb);

}  // namespace repro_check::cmd
