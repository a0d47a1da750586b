// SPDX-License-Identifier: Apache-2.0
#include "cmd/manual/man_command.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <string_view>

#include "cmd/manual/man_page.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/text/near_miss.h"

namespace repro_check::cmd {
namespace {

const CliVerb& find_verb(const CliVerb& tool, const std::string& name) {
  const auto found = std::ranges::find(tool.verbs, name, &CliVerb::name);
  if (found != tool.verbs.end()) return *found;
  std::vector<std::string_view> names;
  for (const CliVerb& verb : tool.verbs) names.push_back(verb.name);
  const auto near = core::near_miss(name, names);
  throw core::Error(core::ErrorKind::kUsage,
                    "unknown command \"" + name + "\"",
                    near ? "did you mean " + std::string(*near) + "?" : "see `repro-check --help`");
}

void write_all(const CliVerb& tool, const std::filesystem::path& directory) {
  std::error_code ignored;  // told by require_writable()
  std::filesystem::create_directories(directory, ignored);
  require_writable(directory / "repro-check.1");
  write_file(directory / "repro-check.1", man_page(tool));
  for (const CliVerb& verb : tool.verbs) {
    write_file(directory / ("repro-check-" + verb.name + ".1"), man_page(tool, verb));
  }
}

}  // namespace

std::vector<std::string> ManCommand::examples() const {
  return {"repro-check man diff | man -l -", "repro-check man --directory share/man/man1"};
}

void ManCommand::define(CLI::App& app) {
  app_ = &app;
  auto* verb = app.add_option("command", verb_, "The command it is about; the tool without one")
                   ->type_name("COMMAND");
  app.add_option("--directory", directory_, "Write every page into this directory")
      ->type_name("DIR")
      ->excludes(verb);
}

core::ExitCode ManCommand::run(const GlobalOptions& /*globals*/) {
  const CliVerb tool = walk_tool(*app_);
  if (directory_) {
    write_all(tool, *directory_);
  } else {
    write_stdout(verb_ ? man_page(tool, find_verb(tool, *verb_)) : man_page(tool));
  }
  return core::ExitCode::kReproducible;
}

}  // namespace repro_check::cmd
