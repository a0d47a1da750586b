// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/choice.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <string_view>

#include "core/text/near_miss.h"

namespace repro_check::cmd {

CLI::Option* restrict_to(CLI::Option* option, const std::vector<std::string>& words) {
  const auto check = [words](std::string& given) -> std::string {
    if (std::find(words.begin(), words.end(), given) != words.end()) return {};
    const std::vector<std::string_view> candidates(words.begin(), words.end());
    const auto near = core::near_miss(given, candidates);
    return fmt::format("\"{}\" is none of {}{}",
                       given,
                       fmt::join(words, ", "),
                       near ? fmt::format("; did you mean {}?", *near) : "");
  };
  // Without a description: CLI11 would print the words a second time in the help.
  return option->check(CLI::Validator(check, "", "words"))
      ->type_name(fmt::format("{}", fmt::join(words, "|")));
}

}  // namespace repro_check::cmd
