// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/config_parser.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "configs/parser/config_builder.h"
#include "configs/parser/presets.h"
#include "configs/parser/problems.h"
#include "core/error.h"
#include "core/text/printable.h"

namespace repro_check::configs {
namespace {

/// Large inputs belong into files; this is read whole and parsed before anything is known of it.
constexpr std::uintmax_t kLargestConfig = std::uintmax_t{8} << 20U;
}  // namespace

std::string problem_line(const std::string& origin, const ConfigProblem& problem) {
  // Keys are the author's: they may hold anything, and be of any length.
  constexpr std::size_t kLongestPointer = 300;
  const std::string pointer = core::printable(problem.pointer, kLongestPointer);
  return fmt::format("{}: {}{}{}",
                     core::printable(origin),
                     pointer,
                     pointer.empty() ? "" : ": ",
                     core::printable(problem.message));
}

std::vector<ConfigProblem> check_config(const std::string& text,
                                        const std::filesystem::path& base,
                                        const std::vector<ConfigOverride>& overrides) {
  detail::Problems problems;
  detail::build_config(text, std::filesystem::absolute(base), overrides, problems);
  return problems.take();
}

Config parse_config(const std::string& text,
                    const std::string& origin,
                    const std::filesystem::path& base,
                    const std::vector<ConfigOverride>& overrides) {
  detail::Problems problems;
  Config config = detail::build_config(text, std::filesystem::absolute(base), overrides, problems);
  if (!problems.empty()) detail::refuse(origin, problems.all());
  return config;
}

std::string read_config_text(const std::filesystem::path& file, const std::string& hint) {
  const std::string name = core::printable(file.string());
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) detail::refuse(name + ": no such file", hint);
  // A pipe or device has no size to be bounded by.
  if (!std::filesystem::is_regular_file(status)) {
    detail::refuse(name + ": not a regular file", hint);
  }
  if (::access(file.c_str(), R_OK) != 0) {
    detail::refuse(
        fmt::format("{}: cannot be read: {}", name, std::generic_category().message(errno)),
        "check its permissions");
  }
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (!error && size > kLargestConfig) {
    detail::refuse(
        fmt::format("{}: {} bytes; a configuration has at most {}", name, size, kLargestConfig),
        hint);
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream.is_open() || stream.bad()) detail::refuse(name + ": cannot be read", hint);
  return text;
}

Config load_config(const std::filesystem::path& file,
                   const std::vector<ConfigOverride>& overrides) {
  const std::string text = read_config_text(file);
  Config config =
      parse_config(text, file.string(), std::filesystem::absolute(file).parent_path(), overrides);
  config.file = std::filesystem::absolute(file).lexically_normal();
  return config;
}

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const detail::Preset& preset : detail::builtin_presets()) names.push_back(preset.name);
  return names;
}

}  // namespace repro_check::configs
