// SPDX-License-Identifier: Apache-2.0
#include "cmd/recorder/command_line.h"

#include <CLI/CLI.hpp>

#include "core/exit_code.h"

namespace repro_check::recorder {

std::variant<CommandLine, int> parse_command_line(int argc, char** argv) {
  CommandLine line;
  CLI::App app("Records one run of a model; started by repro-check.", "repro-check-recorder");
  app.require_subcommand(1);
  app.add_option("--extension", line.extensions, "Library of operators to load first; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  CLI::App* record = app.add_subcommand("record", "Record the run a request file describes");
  record->add_option("request", line.file, "Request file")->required();
  record->add_option("--status-fd", line.status_descriptor, "Descriptor for status lines (1)");
  CLI::App* describe = app.add_subcommand("describe", "Print a method's arguments as JSON");
  describe->add_option("model", line.file, "TorchScript file")->required();
  describe->add_option("--method", line.method, "Method (forward)");
  CLI::App* replay = app.add_subcommand("replay", "Execute a recorded operator again, as JSON");
  replay->add_option("request", line.file, "Request file")->required();
  CLI::App* weights = app.add_subcommand("weights", "Compare the tensors of two versions, as JSON");
  weights->add_option("first", line.file, "TorchScript file")->required();
  weights->add_option("second", line.other, "Another version of it")->required();
  CLI::App* environment = app.add_subcommand("environment", "Print settings and machine as JSON");
  app.add_subcommand("version", "Print the versions in use as JSON");
  app.set_version_flag("--version", std::string("repro-check-recorder ") + REPRO_CHECK_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(core::ExitCode::kUsage);
  }
  if (record->parsed()) line.verb = Verb::kRecord;
  if (describe->parsed()) line.verb = Verb::kDescribe;
  if (replay->parsed()) line.verb = Verb::kReplay;
  if (weights->parsed()) line.verb = Verb::kWeights;
  if (environment->parsed()) line.verb = Verb::kEnvironment;
  return line;
}

}  // namespace repro_check::recorder
