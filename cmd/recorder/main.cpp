// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>

#include "cmd/recorder/answers.h"
#include "cmd/recorder/record_verb.h"
#include "cmd/recorder/status_channel.h"
#include "cmd/recorder/termination.h"
#include "core/error.h"

namespace {

using repro_check::core::Error;
using repro_check::core::ErrorKind;
namespace recorder = repro_check::recorder;

int report(const Error& error, recorder::StatusChannel* status) {
  if (status != nullptr) status->error(error);
  std::cerr << error.what() << '\n';
  if (!error.hint().empty()) std::cerr << error.hint() << '\n';
  return static_cast<int>(repro_check::core::exit_code_for(error.kind()));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Records one run of a model; started by repro-check.", "repro-check-recorder");
  app.require_subcommand(1);
  std::string file;
  std::string method = "forward";
  int descriptor = STDOUT_FILENO;
  CLI::App* record = app.add_subcommand("record", "Record the run a request file describes");
  record->add_option("request", file, "Request file")->required();
  record->add_option("--status-fd", descriptor, "Descriptor for status lines (1)");
  CLI::App* describe = app.add_subcommand("describe", "Print a method's arguments as JSON");
  describe->add_option("model", file, "TorchScript file")->required();
  describe->add_option("--method", method, "Method (forward)");
  CLI::App* environment = app.add_subcommand("environment", "Print settings and machine as JSON");
  app.add_subcommand("version", "Print the versions in use as JSON");
  app.set_version_flag("--version", std::string("repro-check-recorder ") + REPRO_CHECK_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(repro_check::core::ExitCode::kUsage);
  }

  recorder::StatusChannel status(descriptor);
  recorder::StatusChannel* listening = record->parsed() ? &status : nullptr;
  recorder::install_termination(record->parsed() ? descriptor : -1);
  try {
    if (record->parsed()) {
      recorder::record(file, status);
    } else if (describe->parsed()) {
      std::cout << recorder::describe(file, method);
    } else {
      std::cout << (environment->parsed() ? recorder::environment() : recorder::version());
    }
    return 0;
  } catch (const Error& error) {
    return report(error, listening);
  } catch (const std::exception& error) {
    return report({ErrorKind::kInternal, std::string("unexpected: ") + error.what()}, listening);
  }
}
