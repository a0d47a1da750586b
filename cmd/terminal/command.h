// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cmd/render/color.h"
#include "core/exit_code.h"
#include "core/system/pinned.h"

namespace CLI {
class App;
}

namespace repro_check::cmd {

enum class ProgressMode { kAuto, kAlways, kNever };

/// Options every verb takes, before or after its name.
struct GlobalOptions {
  bool quiet = false;
  int verbosity = 0;
  ColorMode color = ColorMode::kAuto;
  ProgressMode progress = ProgressMode::kAuto;
};

/// One verb of the tool.
class Command : core::Pinned {
 public:
  Command() = default;
  virtual ~Command() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  /// One line, for the list of verbs.
  [[nodiscard]] virtual std::string summary() const = 0;
  /// Whole command lines, one each, shown below the options.
  [[nodiscard]] virtual std::vector<std::string> examples() const = 0;

  /// Adds options and positionals. They are bound to members, so the object outlives `app`.
  virtual void define(CLI::App& app) = 0;

  /// Carries the verb out; what it prints on stdout is one whole document or nothing.
  /// @throws core::Error
  virtual core::ExitCode run(const GlobalOptions& globals) = 0;
};

/// Every verb, in the order `--help` lists them.
std::vector<std::unique_ptr<Command>> make_commands();

}  // namespace repro_check::cmd
