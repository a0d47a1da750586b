// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/audit/sweep_message.h"
#include "cmd/precision/precision_message.h"
#include "cmd/recording/recorder_messages.h"
#include "cmd/recording/writer_options.h"
#include "cmd/relate/shadow_message.h"
#include "cmd/replay/replay_message.h"
#include "configs/parser/config_parser.h"
#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/text/text.h"
#include "core/trace/run_manifest.h"
#include "dumpers/capture/settings/determinism.h"
#include "dumpers/replay/batch.h"
#include "dumpers/replay/precision.h"
#include "dumpers/replay/replay.h"
#include "dumpers/replay/sweep.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/dump_writer.h"
#include "dumpers/store/file/hdf5_tensor.h"
#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check {

namespace cmd {

DESCRIBE(core::EnvironmentFact, MEMBER(name) MEMBER(value))

inline void describe(JsonWriter f, const torchscript::MethodArgument& it) {
  f MEMBER(name) MEMBER(type) MEMBER(has_default) MEMBER(default_value);
  if (it.layer.empty()) return;
  f MEMBER(layer) MEMBER(dtype) MEMBER(shape) MEMBER(rows);
}

DESCRIBE(torchscript::ModelDescription,
         MEMBER(method) MEMBER(methods) MEMBER(arguments) MEMBER(dtype))
DESCRIBE(torchscript::WeightDifference,
         MEMBER(names) MEMBER(what) MEMBER(elements) MEMBER(differing))
DESCRIBE(torchscript::WeightVersions, MEMBER(names) MEMBER(different) MEMBER(obstacle) MEMBER(mend))

}  // namespace cmd

namespace recorder {
namespace {

using cmd::Json;

/// What a recorder says to whoever started it: a message a line, each in one write, so that lines
/// of two threads never mix. A reader that went away is no error: the run goes on.
class StatusChannel {
 public:
  /// @param descriptor  borrowed
  explicit StatusChannel(int descriptor) noexcept : descriptor_(descriptor) {}

  void say(const cmd::RecorderMessage& message) {
    const std::lock_guard lock(mutex_);
    static_cast<void>(core::write_all(descriptor_, to_line(message)));
  }

 private:
  int descriptor_;
  std::mutex mutex_;
};

std::string read_request(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw core::usage_error(file.string() + ": cannot be read",
                            "a recorder is started by `repro-check run` or `repro-check record`");
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

void say_outputs(const torchscript::TorchScriptRun& run, StatusChannel& status) {
  for (const torchscript::ReturnedValue& value : run.returned) {
    status.say(cmd::RecorderOutput{value.name, value.what, core::to_hex(value.digest)});
  }
}

/// The answers to what can be asked of a recorder, each one line of JSON.
std::string to_line(const Json& json) { return cmd::to_document(json, false); }

std::string fact(const std::string& name) {
  for (const core::EnvironmentFact& fact : capture::read_environment()) {
    if (fact.name == name) return fact.value;
  }
  return "unknown";
}

/// Whether this process can have the setting.
bool can_be_set(const std::string& name, const std::string& value) {
  try {
    capture::PinRequest request;
    request.settings = {{name, value}};
    const capture::DeterminismPin tried(request);
    return true;
  } catch (const core::Error&) {
    return false;
  }
}

/// The settings of the recorded run, as far as they can be had here.
capture::PinRequest recorded_pins(const core::RunManifest& manifest,
                                  std::vector<std::string>& notes) {
  std::map<std::string, std::string> now;
  for (const core::EnvironmentFact& fact : capture::read_settings()) now[fact.name] = fact.value;
  capture::PinRequest request;
  request.grad =
      core::parse_name<core::GradMode>(manifest.grad).value_or(core::GradMode::kDisabled);
  for (const core::Setting& setting : manifest.settings) {
    const auto here = now.find(setting.name);
    const bool elsewhere = setting.name == "grad_mode" || setting.name == "threads.inter_op" ||
                           setting.used.rfind("unreadable", 0) == 0;
    if (here == now.end() || elsewhere || here->second == setting.used) continue;
    if (can_be_set(setting.name, setting.used)) {
      request.settings[setting.name] = setting.used;
    } else {
      notes.push_back("setting " + setting.name + " was `" + setting.used +
                      "` in the recorded run and is `" + here->second + "` here");
    }
  }
  return request;
}

/// Records the one run that the request file describes. Nothing is written before the model is
/// loaded and its inputs are made; what fails afterwards leaves an incomplete dump that says why.
/// @throws core::Error
void record(const std::filesystem::path& request_file, StatusChannel& status) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const configs::RecordRequest request =
      configs::record_request_from_json_text(read_request(request_file), request_file.string());

  status.say(cmd::RecorderPhase{"loading"});
  const auto run = torchscript::prepare_run(request.run, store::read_hdf5_tensor);
  run->keep_returned = request.report_outputs;
  run->found = request.found_environment;

  status.say(cmd::RecorderPhase{"recording"});
  if (request.bare) {
    run->run_bare();
    say_outputs(*run, status);
    status.say(cmd::RecorderTotals{0, 0, 0, seconds(), {}});
    return;
  }
  store::DumpWriter writer(request.dump, cmd::writer_options(request));
  core::RunManifest manifest;
  try {
    manifest = run->record(writer, [&](const capture::CaptureCounts& counts) {
      status.say(cmd::RecorderCounts{counts.operators, writer.stored_bytes()});
    });
  } catch (const core::Error& error) {
    writer.fail(error.what());
    throw;
  }

  status.say(cmd::RecorderPhase{"finishing"});
  const core::TraceSummary summary = manifest.trace;
  const core::Digest dump = writer.finish(std::move(manifest));
  if (request.report_outputs) say_outputs(*run, status);
  status.say(cmd::RecorderTotals{
      summary.operator_calls(), summary.tensors, writer.stored_bytes(), seconds(), dump});
}

/// {"method", "methods": [...], "arguments": [{"name","type","has_default","default_value"}],
/// "dtype"}, see torchscript::ModelDescription; of a tensor whose first layer is known an argument
/// has "layer", "dtype", "shape" and "rows" too
std::string describe(const std::filesystem::path& model, const std::string& method) {
  return to_line(cmd::json_of(torchscript::describe_model(model, method)));
}

/// Which tensors two versions of a model file hold with other bits:
/// {"names": [...], "different": [{"names": [...], "what", "elements", "differing"}], "obstacle",
/// "mend"}, see torchscript::WeightVersions
std::string weights(const std::filesystem::path& first, const std::filesystem::path& second) {
  return to_line(cmd::json_of(torchscript::compare_weights(first, second)));
}

/// {"settings": [{"name","value"}], "environment": [{"name","value"}]}
std::string environment() {
  return to_line({{"settings", cmd::json_of(capture::read_settings())},
                  {"environment", cmd::json_of(capture::read_environment())}});
}

/// {"tool","libtorch","hdf5","dump_format"}
std::string version() {
  return to_line(
      {{"tool", REPRO_CHECK_VERSION},
       {"libtorch", fact("libtorch.version")},
       {"hdf5", store::hdf5_version()},
       {"dump_format",
        std::to_string(core::kDumpFormatMajor) + "." + std::to_string(core::kDumpFormatMinor)}});
}

/// Executes one recorded operator again, as the request file says, under the settings of the dump's
/// manifest. Both, and the answer, are as cmd/replay/replay_message.h has them.
/// @throws core::Error
std::string replay(const std::filesystem::path& request_file) {
  const auto question = cmd::read_question<cmd::ReplayQuestion>(read_request(request_file));
  capture::check_variables();
  const auto dump = store::open_dump(question.recorded.dump, question.recorded.references);
  cmd::ReplayAnswer answer;
  const capture::DeterminismPin pin(recorded_pins(dump->manifest(), answer.notes));
  replay::Outcome outcome = replay::replay(*dump, question.how);
  answer.libtorch = fact("libtorch.version");
  answer.cpu_capability = fact("cpu.capability");
  answer.rounds = std::move(outcome.rounds);
  answer.notes.insert(answer.notes.end(), outcome.notes.begin(), outcome.notes.end());
  if (question.float64) {
    answer.baseline = replay::distance_to_float64(*dump, question.recorded.op);
    if (const auto& side = question.against) {
      const auto other = store::open_dump(side->dump, side->references);
      answer.candidate = replay::distance_to_float64(*other, side->op);
    }
  }
  return cmd::message_text(answer);
}

/// Executes what leads to a recorded tensor in float64, as the request file says; see
/// cmd/precision/precision_message.h.
/// @throws core::Error
std::string precision(const std::filesystem::path& request_file) {
  const auto question = cmd::read_question<cmd::PrecisionQuestion>(read_request(request_file));
  const auto dump = store::open_dump(question.recorded.dump, question.recorded.references);
  return cmd::message_text(cmd::PrecisionAnswer{fact("libtorch.version"),
                                                replay::measure_precision(*dump, question.result)});
}

/// Executes the calls of a dump again under other settings, as the request file says; see
/// cmd/audit/sweep_message.h.
/// @throws core::Error
std::string sweep(const std::filesystem::path& request_file) {
  const auto question = cmd::read_question<cmd::SweepQuestion>(read_request(request_file));
  capture::check_variables();
  const auto dump = store::open_dump(question.recorded.dump, question.recorded.references);
  cmd::SweepAnswer answer;
  const capture::DeterminismPin pin(recorded_pins(dump->manifest(), answer.notes));
  answer.libtorch = fact("libtorch.version");
  answer.cpu_capability = fact("cpu.capability");
  answer.outcome = replay::sweep(*dump, question.settings);
  return cmd::message_text(answer);
}

/// Executes calls of a batch again for single items, as the request file says; see
/// cmd/audit/sweep_message.h.
/// @throws core::Error
std::string sweep_batch(const std::filesystem::path& request_file) {
  const auto question = cmd::read_question<cmd::BatchQuestion>(read_request(request_file));
  capture::check_variables();
  const auto batch = store::open_dump(question.batch.dump, question.batch.references);
  const auto alone = store::open_dump(question.alone.dump, question.alone.references);
  cmd::BatchAnswer answer;
  const capture::DeterminismPin pin(recorded_pins(batch->manifest(), answer.notes));
  answer.outcome = replay::sweep_batch(*batch, *alone, question.calls);
  return cmd::message_text(answer);
}

/// Writes what float64 gives at tensors of a dump into another dump, as the request file says; see
/// cmd/relate/shadow_message.h.
/// @throws core::Error
std::string shadow(const std::filesystem::path& request_file) {
  const cmd::ShadowQuestion question = cmd::parse_shadow_question(read_request(request_file));
  const auto dump = store::open_dump(question.recorded.dump, question.recorded.references);
  const auto given = store::open_dump(question.given);
  store::DumpWriterOptions options;
  options.browse = store::DumpWriterOptions::Browse::kNever;
  store::DumpWriter writer(question.out, options);
  core::RunManifest manifest;
  manifest.tool_version = REPRO_CHECK_VERSION;
  manifest.run_name = "shadow";
  manifest.trace.operators = question.tensors.size();
  manifest.trace.tensors = replay::kShadowOutputs * question.tensors.size();
  manifest.trace.digest_algorithm = core::kDigestAlgorithm;
  writer.begin(manifest);
  cmd::ShadowAnswer answer{fact("libtorch.version"),
                           replay::write_shadow_values(*dump, question.tensors, *given, writer)};
  writer.finish(std::move(manifest));
  return cmd::to_text(answer);
}

constexpr const char* kUsage =
    "Records one run of a model; started by repro-check.\n"
    "  repro-check-recorder [--extension LIBRARY]... VERB ...\n"
    "  record REQUEST [--status-fd N]    Record the run a request file describes\n"
    "  describe MODEL [--method NAME]    Print a method's arguments as JSON\n"
    "  weights FIRST SECOND              Compare the tensors of two versions, as JSON\n"
    "  replay REQUEST                    Execute a recorded operator again, as JSON\n"
    "  precision REQUEST                 Say where a recorded tensor lost its digits, as JSON\n"
    "  shadow REQUEST                    Write what float64 gives at recorded tensors\n"
    "  sweep REQUEST                     Execute recorded operators under other settings, as JSON\n"
    "  batch REQUEST                     Execute operators of a batch for single items, as JSON\n"
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

/// @throws core::Error{kUsage}
CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  constexpr std::array<std::pair<std::string_view, std::size_t>, 10> kFiles{{{"record", 1},
                                                                             {"describe", 1},
                                                                             {"weights", 2},
                                                                             {"replay", 1},
                                                                             {"precision", 1},
                                                                             {"shadow", 1},
                                                                             {"sweep", 1},
                                                                             {"batch", 1},
                                                                             {"environment", 0},
                                                                             {"version", 0}}};
  const auto refuse = [](const std::string& why) -> core::Error {
    return core::usage_error(why, kUsage);
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
      const auto number = core::parse_number<int>(*word);
      if (!number) throw refuse("--status-fd takes a number, not " + *word);
      line.status_descriptor = *number;
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
std::string work(const CommandLine& line, StatusChannel& status) {
  const std::string& verb = line.words.front();
  if (verb == "record") return record(line.words[1], status), "";
  if (verb == "describe") return describe(line.words[1], line.method);
  if (verb == "weights") return weights(line.words[1], line.words[2]);
  if (verb == "replay") return replay(line.words[1]);
  if (verb == "precision") return precision(line.words[1]);
  if (verb == "shadow") return shadow(line.words[1]);
  if (verb == "sweep") return sweep(line.words[1]);
  if (verb == "batch") return sweep_batch(line.words[1]);
  return verb == "version" ? version() : environment();
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
  ::_exit(static_cast<int>(core::ExitCode::kInterrupted));
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

core::Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const core::Error*>(&exception)) return *error;
  return core::internal_error(std::string("unexpected: ") + exception.what());
}

int fail(const std::exception& exception, StatusChannel* status) {
  const core::Error error = as_error(exception);
  if (status != nullptr) {
    status->say(cmd::RecorderFailure{error.kind(), error.what(), error.hint()});
  }
  std::cerr << error.what() << '\n';
  // Indented, which is how the caller knows it.
  if (!error.hint().empty()) std::cerr << "  " << error.hint() << '\n';
  return static_cast<int>(core::exit_code_for(error.kind()));
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
  } catch (const core::Error& error) {
    return fail(error, nullptr);
  }
  StatusChannel status(line.status_descriptor);
  install_termination(line.records() ? line.status_descriptor : -1);
  try {
    torchscript::load_extensions(line.extensions);
    std::cout << work(line, status);
    return 0;
  } catch (const std::exception& exception) {
    return fail(exception, line.records() ? &status : nullptr);
  }
}

}  // namespace
}  // namespace recorder
}  // namespace repro_check

int main(int argc, char** argv) {
  try {
    return repro_check::recorder::run({argv + 1, argv + argc});
  } catch (const std::exception& exception) {  // telling of an error has failed
    std::fprintf(stderr, "%s\n", exception.what());
    return static_cast<int>(repro_check::core::ExitCode::kInternal);
  }
}
