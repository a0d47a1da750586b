// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <variant>
#include <vector>

#include "cmd/recorder/verbs.h"
#include "core/error.h"
#include "core/exit_code.h"
#include "dumpers/torchscript/torchscript_run.h"

namespace {

using repro_check::core::Error;
namespace recorder = repro_check::recorder;

/// What a recorder was asked to do.
struct CommandLine {
  /// @return what goes to stdout
  using Work = std::string (*)(const CommandLine& line, recorder::StatusChannel& status);

  Work work = nullptr;
  std::string file;   ///< the request of record and replay, the model of describe and weights
  std::string other;  ///< the other version of it, of weights
  std::string method = "forward";
  std::vector<std::string> extensions;  ///< loaded first, whatever the verb
  int status_descriptor = 1;
  bool records = false;
};

/// @return what was asked, or the exit code when there is nothing left to do: help and complaints
///     have been printed
std::variant<CommandLine, int> parse_command_line(int argc, char** argv) {
  using Line = CommandLine;
  using Status = recorder::StatusChannel;
  CommandLine line;
  CLI::App app("Records one run of a model; started by repro-check.", "repro-check-recorder");
  app.require_subcommand(1);
  app.add_option("--extension", line.extensions, "Library of operators to load first; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  const auto add = [&](const char* name, const char* help, Line::Work work) {
    CLI::App* verb = app.add_subcommand(name, help);
    verb->callback([&line, work] { line.work = work; });
    return verb;
  };
  CLI::App* record = add(
      "record", "Record the run a request file describes", [](const Line& given, Status& status) {
        recorder::record(given.file, status);
        return std::string();
      });
  record->add_option("request", line.file, "Request file")->required();
  record->add_option("--status-fd", line.status_descriptor, "Descriptor for status lines (1)");
  CLI::App* describe =
      add("describe", "Print a method's arguments as JSON", [](const Line& given, Status&) {
        return recorder::describe(given.file, given.method);
      });
  describe->add_option("model", line.file, "TorchScript file")->required();
  describe->add_option("--method", line.method, "Method (forward)");
  add("replay",
      "Execute a recorded operator again, as JSON",
      [](const Line& given, Status&) { return recorder::replay(given.file); })
      ->add_option("request", line.file, "Request file")
      ->required();
  CLI::App* weights = add(
      "weights", "Compare the tensors of two versions, as JSON", [](const Line& given, Status&) {
        return recorder::weights(given.file, given.other);
      });
  weights->add_option("first", line.file, "TorchScript file")->required();
  weights->add_option("second", line.other, "Another version of it")->required();
  add("environment", "Print settings and machine as JSON", [](const Line&, Status&) {
    return recorder::environment();
  });
  add("version", "Print the versions in use as JSON", [](const Line&, Status&) {
    return recorder::version();
  });
  app.set_version_flag("--version", std::string("repro-check-recorder ") + REPRO_CHECK_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(repro_check::core::ExitCode::kUsage);
  }
  line.records = record->parsed();
  return line;
}

volatile std::sig_atomic_t status_descriptor = -1;

// Nothing here may allocate or lock: the signal may have come in the middle of malloc.
extern "C" void end_at_once(int) {
  static constexpr char kLine[] =
      "{\"type\":\"error\",\"kind\":\"interrupted\",\"message\":\"interrupted by a signal\","
      "\"hint\":\"\"}\n";
  if (status_descriptor >= 0) {
    const ssize_t ignored =
        ::write(static_cast<int>(status_descriptor), kLine, sizeof kLine - std::size_t{1});
    static_cast<void>(ignored);
  }
  ::_exit(static_cast<int>(repro_check::core::ExitCode::kInterrupted));
}

/// SIGINT and SIGTERM end the process at once with exit code 130, after a line on the status
/// channel. What the journal holds by then stays, so the dump is left incomplete and readers refuse
/// it, naming the last operator. A status channel that nobody reads any more is no reason to die.
/// @param descriptor  of the status channel; -1 = none
void install_termination(int descriptor) {
  status_descriptor = descriptor;
  struct sigaction action {};
  action.sa_handler = end_at_once;
  sigfillset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);
}

Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  return {repro_check::core::ErrorKind::kInternal, std::string("unexpected: ") + exception.what()};
}

int run(int argc, char** argv) {
  const auto parsed = parse_command_line(argc, argv);
  if (const auto* code = std::get_if<int>(&parsed)) return *code;
  const auto& line = std::get<CommandLine>(parsed);

  recorder::StatusChannel status(line.status_descriptor);
  install_termination(line.records ? line.status_descriptor : -1);
  try {
    repro_check::torchscript::load_extensions({line.extensions.begin(), line.extensions.end()});
    std::cout << line.work(line, status);
    return 0;
  } catch (const std::exception& exception) {
    const Error error = as_error(exception);
    if (line.records)
      status.say(repro_check::cmd::RecorderFailure{error.kind(), error.what(), error.hint()});
    std::cerr << error.what() << '\n';
    // Indented, which is how the caller knows it.
    if (!error.hint().empty()) std::cerr << "  " << error.hint() << '\n';
    return static_cast<int>(repro_check::core::exit_code_for(error.kind()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& exception) {  // telling of an error has failed
    std::fprintf(stderr, "%s\n", exception.what());
    return static_cast<int>(repro_check::core::ExitCode::kInternal);
  }
}
