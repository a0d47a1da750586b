// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cmd/options/command_line.h"
#include "cmd/terminal/global_options.h"
#include "core/error.h"

namespace repro_check::cmd {

/// One verb of the tool, whose members say what it takes.
class Command : public OptionGroup {
 public:
  struct About {
    std::string name;
    std::string summary;  ///< one line, for the list of verbs
  };
  explicit Command(About said) : about(std::move(said)) {}

  /// Carries the verb out; what it prints on stdout is one whole document or nothing.
  /// @throws core::Error
  virtual core::ExitCode run(const GlobalOptions& globals) = 0;

  const About about;
};

// Every verb, each in a room of its own.

/// Records every run of a configuration, compares, reports.
std::unique_ptr<Command> run_command();
/// Judges runs among themselves and by what was accepted.
std::unique_ptr<Command> gate_command();
/// Renders a JSON report again.
std::unique_ptr<Command> report_command();
/// One run of a configuration, one dump.
std::unique_ptr<Command> record_command();
/// Records any program that uses PyTorch, unchanged.
std::unique_ptr<Command> exec_command();
/// Compares dumps with the first of them.
std::unique_ptr<Command> diff_command();
/// Says what one recording of a program proves of it, or makes suspect.
std::unique_ptr<Command> audit_command();
/// Holds the ranks of one run against each other.
std::unique_ptr<Command> ranks_command();
/// Where the weights of one program come from in another one.
std::unique_ptr<Command> relate_command();
/// Which of the differences between two runs make them diverge.
std::unique_ptr<Command> bisect_command();
/// How far runs of one configuration are apart by themselves.
std::unique_ptr<Command> calibrate_command();
/// Looks into one dump.
std::unique_ptr<Command> inspect_command();
/// Executes one recorded operator again, by itself.
std::unique_ptr<Command> replay_command();
/// Says where a recorded result lost its digits.
std::unique_ptr<Command> precision_command();
/// Makes a stand-alone program of one recorded operator.
std::unique_ptr<Command> extract_command();
/// Checks what dumps hold, each of them, and ends with the worst exit code.
std::unique_ptr<Command> verify_command();
/// A dump as one compressed file.
std::unique_ptr<Command> pack_command();
/// The dump that was packed.
std::unique_ptr<Command> unpack_command();
/// A dump of what another tool wrote.
std::unique_ptr<Command> import_command();
/// A dump of a journal, whole or of a killed recording.
std::unique_ptr<Command> recover_command();
/// A starting configuration for a model, from the schema of its method.
std::unique_ptr<Command> init_command();
/// What the machine is, or the variables a configuration pins.
std::unique_ptr<Command> env_command();
/// Checks a configuration and says what would run.
std::unique_ptr<Command> validate_command();
/// A script for a shell.
std::unique_ptr<Command> completion_command();
/// The manual pages, made of the options of the tool.
std::unique_ptr<Command> man_command();

}  // namespace repro_check::cmd
