// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/recorder/verbs.h"
#include "core/error.h"
#include "core/exit_code.h"
#include "dumpers/torchscript/torchscript_run.h"

namespace {

using repro_check::core::Error;
namespace recorder = repro_check::recorder;

constexpr const char* kUsage =
    "Records one run of a model; started by repro-check.\n"
    "  repro-check-recorder [--extension LIBRARY]... VERB ...\n"
    "  record REQUEST [--status-fd N]    Record the run a request file describes\n"
    "  describe MODEL [--method NAME]    Print a method's arguments as JSON\n"
    "  weights FIRST SECOND              Compare the tensors of two versions, as JSON\n"
    "  replay REQUEST                    Execute a recorded operator again, as JSON\n"
    "  environment                       Print settings and machine as JSON\n"
    "  version                           Print the versions in use as JSON\n"
    "  --version, --help\n";

/// What a recorder was asked to do: our own tool says it.
struct CommandLine {
  std::vector<std::string> words;  ///< the verb, and its files
  std::string method = "forward";
  std::vector<std::filesystem::path> extensions;  ///< loaded first, whatever the verb
  int status_descriptor = 1;

  [[nodiscard]] bool records() const { return words.front() == "record"; }
};

/// @throws Error{kUsage}
CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  constexpr std::array<std::pair<std::string_view, std::size_t>, 6> kFiles{{{"record", 1},
                                                                            {"describe", 1},
                                                                            {"weights", 2},
                                                                            {"replay", 1},
                                                                            {"environment", 0},
                                                                            {"version", 0}}};
  const auto refuse = [](const std::string& why) -> Error {
    return {repro_check::core::ErrorKind::kUsage, why, kUsage};
  };
  CommandLine line;
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    if (!word->starts_with("--")) {
      line.words.push_back(*word);
      continue;
    }
    const std::string& option = *word;
    if (++word == arguments.end()) throw refuse(option + ": is followed by nothing");
    if (option == "--extension") {
      line.extensions.emplace_back(*word);
    } else if (option == "--method") {
      line.method = *word;
    } else if (option == "--status-fd") {
      const char* end = word->data() + word->size();
      if (std::from_chars(word->data(), end, line.status_descriptor).ptr != end) {
        throw refuse("--status-fd takes a number, not " + *word);
      }
    } else {
      throw refuse(option + ": there is no such option");
    }
  }
  if (line.words.empty()) throw refuse("a verb is required");
  const auto* verb = std::ranges::find(
      kFiles, std::string_view(line.words.front()), [](const auto& known) { return known.first; });
  if (verb == kFiles.end()) throw refuse(line.words.front() + ": there is no such verb");
  if (line.words.size() != verb->second + 1) {
    throw refuse(line.words.front() + " takes " + std::to_string(verb->second) + " files");
  }
  return line;
}

/// @return what goes to stdout
std::string work(const CommandLine& line, recorder::StatusChannel& status) {
  const std::string& verb = line.words.front();
  if (verb == "record") return recorder::record(line.words[1], status), "";
  if (verb == "describe") return recorder::describe(line.words[1], line.method);
  if (verb == "weights") return recorder::weights(line.words[1], line.words[2]);
  if (verb == "replay") return recorder::replay(line.words[1]);
  return verb == "version" ? recorder::version() : recorder::environment();
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

int fail(const std::exception& exception, recorder::StatusChannel* status) {
  const Error error = as_error(exception);
  if (status != nullptr) {
    status->say(repro_check::cmd::RecorderFailure{error.kind(), error.what(), error.hint()});
  }
  std::cerr << error.what() << '\n';
  // Indented, which is how the caller knows it.
  if (!error.hint().empty()) std::cerr << "  " << error.hint() << '\n';
  return static_cast<int>(repro_check::core::exit_code_for(error.kind()));
}

int run(const std::vector<std::string>& arguments) {
  for (const std::string& word : arguments) {
    if (word != "--version" && word != "--help" && word != "-h") continue;
    std::cout << (word == "--version" ? "repro-check-recorder " REPRO_CHECK_VERSION "\n" : kUsage);
    return 0;
  }
  CommandLine line;
  try {
    line = parse_command_line(arguments);
  } catch (const Error& error) {
    return fail(error, nullptr);
  }
  recorder::StatusChannel status(line.status_descriptor);
  install_termination(line.records() ? line.status_descriptor : -1);
  try {
    repro_check::torchscript::load_extensions(line.extensions);
    std::cout << work(line, status);
    return 0;
  } catch (const std::exception& exception) {
    return fail(exception, line.records() ? &status : nullptr);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& exception) {  // telling of an error has failed
    std::fprintf(stderr, "%s\n", exception.what());
    return static_cast<int>(repro_check::core::ExitCode::kInternal);
  }
}
