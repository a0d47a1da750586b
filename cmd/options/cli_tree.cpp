// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/cli_tree.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <sstream>
#include <utility>

#include "cmd/render/render.h"

namespace repro_check::cmd {
namespace {

constexpr const char* kGlobalGroup = "Everywhere";

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<std::string> words_of(const std::string& value) {
  if (value.find('|') != std::string::npos) return split(value, '|');
  std::vector<std::string> words;
  if (value == "FORMAT=DEST") {
    for (const ReportFormat& format : report_formats()) {
      words.push_back(std::string(format.name) + "=");
    }
  }
  return words;
}

CliOption to_option(const CLI::Option& option, bool positional) {
  CliOption out;
  if (!positional) {
    for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  } else {
    out.names.push_back(option.get_name(true));
  }
  const bool is_flag = option.get_items_expected_max() == 0;
  // A check may have put its own words behind the name: `N:UINT in [1 - 1000]`.
  const std::string type = option.get_type_name();
  out.value = is_flag ? "" : type.substr(0, type.find(':'));
  out.words = words_of(out.value);
  out.description = option.get_description();
  out.repeats = option.get_items_expected_max() > 1;
  out.required = option.get_required();
  return out;
}

/// The command lines below `Examples:`.
std::vector<std::string> examples_of(const CLI::App& app) {
  std::vector<std::string> lines = split(app.get_footer(), '\n');
  if (lines.empty() || lines.front() != "Examples:") return {};
  lines.erase(lines.begin());
  for (std::string& line : lines) line.erase(0, line.find_first_not_of(' '));
  return lines;
}

}  // namespace

CliValue value_kind(const CliOption& option) {
  if (!option.words.empty()) return CliValue::kWords;
  if (option.value == "DIR" || option.value == "DUMP") return CliValue::kDirectory;
  // `FILE.new` and the like too.
  const bool is_file =
      option.value.starts_with("FILE") || option.value == "PATH" || option.value == "MODEL";
  return is_file ? CliValue::kFile : CliValue::kOther;
}

CliVerb walk(const CLI::App& app) {
  CliVerb out;
  out.name = app.get_name();
  out.summary = app.get_description();
  out.examples = examples_of(app);
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    // One may be both: `config,-c,--config`.
    if (option->get_positional()) out.positionals.push_back(to_option(*option, true));
    if (!option->nonpositional()) continue;
    const bool is_global = option->get_group() == kGlobalGroup;
    (is_global ? out.global_options : out.options).push_back(to_option(*option, false));
  }
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!verb->get_group().empty()) out.verbs.push_back(walk(*verb));
  }
  return out;
}

CliVerb walk_tool(const CLI::App& verb) {
  const CLI::App* app = &verb;
  while (app->get_parent() != nullptr) app = app->get_parent();
  return walk(*app);
}

}  // namespace repro_check::cmd
