// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <variant>

#include "cmd/recorder/answers.h"
#include "cmd/recorder/command_line.h"
#include "cmd/recorder/record_verb.h"
#include "cmd/recorder/replay_verb.h"
#include "cmd/recorder/status_channel.h"
#include "cmd/recorder/termination.h"
#include "core/error.h"
#include "core/exit_code.h"
#include "dumpers/torchscript/extensions.h"

namespace {

using repro_check::core::Error;
namespace recorder = repro_check::recorder;

Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  return {repro_check::core::ErrorKind::kInternal, std::string("unexpected: ") + exception.what()};
}

void obey(const recorder::CommandLine& line, recorder::StatusChannel& status) {
  using recorder::Verb;
  repro_check::torchscript::load_extensions({line.extensions.begin(), line.extensions.end()});
  if (line.verb == Verb::kRecord) recorder::record(line.file, status);
  if (line.verb == Verb::kDescribe) std::cout << recorder::describe(line.file, line.method);
  if (line.verb == Verb::kReplay) std::cout << recorder::replay(line.file);
  if (line.verb == Verb::kWeights) std::cout << recorder::weights(line.file, line.other);
  if (line.verb == Verb::kEnvironment) std::cout << recorder::environment();
  if (line.verb == Verb::kVersion) std::cout << recorder::version();
}

int run(int argc, char** argv) {
  const auto parsed = recorder::parse_command_line(argc, argv);
  if (const auto* code = std::get_if<int>(&parsed)) return *code;
  const auto& line = std::get<recorder::CommandLine>(parsed);

  const bool records = line.verb == recorder::Verb::kRecord;
  recorder::StatusChannel status(line.status_descriptor);
  recorder::install_termination(records ? line.status_descriptor : -1);
  try {
    obey(line, status);
    return 0;
  } catch (const std::exception& exception) {
    const Error error = as_error(exception);
    if (records) status.error(error);
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
