// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace repro_check::recorder {

enum class Verb : std::uint8_t { kRecord, kDescribe, kReplay, kWeights, kEnvironment, kVersion };

/// What a recorder was asked to do.
struct CommandLine {
  Verb verb = Verb::kVersion;
  std::string file;   ///< the request of kRecord and kReplay, the model of kDescribe and kWeights
  std::string other;  ///< the other version of it, of kWeights
  std::string method = "forward";
  std::vector<std::string> extensions;  ///< loaded first, whatever the verb
  int status_descriptor = 1;
};

/// @return what was asked, or the exit code when there is nothing left to do: help and complaints
///     have been printed
std::variant<CommandLine, int> parse_command_line(int argc, char** argv);

}  // namespace repro_check::recorder
