// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/choice.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <string_view>

#include "core/error.h"
#include "core/text/near_miss.h"
#include "core/text/printable.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

/// The file of another name beside it; empty where none is near.
std::string near_file(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  const auto near = core::near_miss(path.filename().string(),
                                    std::vector<std::string_view>(names.begin(), names.end()));
  return near ? (path.parent_path() / *near).string() : std::string();
}

}  // namespace

void expect_path(const std::string& given) {
  std::error_code ignored;
  if (fs::status(given, ignored).type() != fs::file_type::not_found) return;
  const std::string near = near_file(given);
  throw core::Error(
      core::ErrorKind::kUsage,
      core::printable(given) + ": no such file or directory",
      near.empty() ? "check the path" : "did you mean " + core::printable(near) + "?");
}

void define_references(CLI::App& app, std::vector<std::string>& into) {
  app.add_option(
         "--reference", into, "Where the dump is that it refers to (dump.reference); repeatable")
      ->type_name("DUMP")
      ->take_all()
      ->allow_extra_args(false);
}

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
