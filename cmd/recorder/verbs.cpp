// SPDX-License-Identifier: Apache-2.0
#include "cmd/recorder/verbs.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cmd/replay/replay_message.h"
#include "configs/parser/config_parser.h"
#include "core/error.h"
#include "core/trace/run_manifest.h"
#include "dumpers/capture/settings/determinism.h"
#include "dumpers/replay/replay.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/dump_writer.h"
#include "dumpers/store/file/hdf5_tensor.h"
#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check::recorder {
namespace {

std::string read_request(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw core::Error(core::ErrorKind::kUsage,
                      file.string() + ": cannot be read",
                      "a recorder is started by `repro-check run` or `repro-check record`");
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

store::DumpWriterOptions options_for(const configs::RecordRequest& request) {
  using Browse = store::DumpWriterOptions::Browse;
  store::DumpWriterOptions options;
  options.replace_existing = request.replace_existing;
  options.memory = request.run.dump.memory;
  options.max_bytes = request.run.dump.max_bytes;
  if (request.run.dump.level == configs::DumpLevel::kTensor) {
    options.needed_space = options.max_bytes.value_or(options.memory);
    options.reference = request.run.dump.reference;
    options.slice = request.run.dump.slice;
  }
  options.browse = request.run.dump.browse == configs::BrowseMode::kAlways  ? Browse::kAlways
                   : request.run.dump.browse == configs::BrowseMode::kNever ? Browse::kNever
                                                                            : Browse::kAuto;
  return options;
}

void say_outputs(const torchscript::TorchScriptRun& run, StatusChannel& status) {
  for (const torchscript::ReturnedValue& value : run.returned_values()) {
    status.say(cmd::RecorderOutput{value.name, value.what, core::to_hex(value.digest)});
  }
}

using Json = nlohmann::ordered_json;

/// One line of the recorder's answers. They quote file names and exceptions: what is not UTF-8 in
/// them is replaced.
std::string to_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json to_json(const std::vector<core::EnvironmentFact>& facts) {
  Json list = Json::array();
  for (const core::EnvironmentFact& fact : facts) {
    list.push_back({{"name", fact.name}, {"value", fact.value}});
  }
  return list;
}

std::string fact(const std::string& name) {
  for (const core::EnvironmentFact& fact : capture::read_environment()) {
    if (fact.name == name) return fact.value;
  }
  return "unknown";
}

core::GradMode grad_mode(const std::string& name) {
  for (const auto mode : {core::GradMode::kEnabled, core::GradMode::kInference}) {
    if (core::name_of(mode) == name) return mode;
  }
  return core::GradMode::kDisabled;
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
  request.grad = grad_mode(manifest.grad);
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

}  // namespace

void record(const std::filesystem::path& request_file, StatusChannel& status) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const configs::RecordRequest request =
      configs::record_request_from_json_text(read_request(request_file), request_file.string());

  status.say(cmd::RecorderPhase{"loading"});
  torchscript::TorchScriptRun run(request.run, store::read_hdf5_tensor);
  if (request.report_outputs) run.keep_returned_values();
  run.note_found(request.found_environment);

  status.say(cmd::RecorderPhase{"recording"});
  if (request.bare) {
    run.run_bare();
    say_outputs(run, status);
    status.say(cmd::RecorderTotals{0, 0, 0, seconds(), {}});
    return;
  }
  store::DumpWriter writer(request.dump, options_for(request));
  core::RunManifest manifest;
  try {
    manifest = run.record(writer, [&](const capture::CaptureCounts& counts) {
      status.say(cmd::RecorderCounts{counts.operators, writer.stored_bytes()});
    });
  } catch (const core::Error& error) {
    writer.fail(error.what());
    throw;
  }

  status.say(cmd::RecorderPhase{"finishing"});
  const core::TraceSummary summary = manifest.trace;
  const core::Digest dump = writer.finish(std::move(manifest));
  if (request.report_outputs) say_outputs(run, status);
  status.say(cmd::RecorderTotals{
      summary.operator_calls(), summary.tensors, writer.stored_bytes(), seconds(), dump});
}

std::string describe(const std::filesystem::path& model, const std::string& method) {
  const torchscript::ModelDescription description = torchscript::describe_model(model, method);
  Json arguments = Json::array();
  for (const torchscript::MethodArgument& argument : description.arguments) {
    arguments.push_back({{"name", argument.name},
                         {"type", argument.type},
                         {"has_default", argument.has_default},
                         {"default_value", argument.default_value}});
    if (argument.layer.empty()) continue;
    arguments.back().update({{"layer", argument.layer},
                             {"dtype", argument.dtype},
                             {"shape", argument.shape},
                             {"rows", argument.rows}});
  }
  return to_line({{"method", description.method},
                  {"methods", description.methods},
                  {"arguments", std::move(arguments)},
                  {"dtype", description.dtype}});
}

std::string weights(const std::filesystem::path& first, const std::filesystem::path& second) {
  const torchscript::WeightVersions versions = torchscript::compare_weights(first, second);
  Json different = Json::array();
  for (const torchscript::WeightDifference& each : versions.different) {
    different.push_back({{"names", each.names},
                         {"what", each.what},
                         {"elements", each.elements},
                         {"differing", each.differing ? Json(*each.differing) : Json(nullptr)}});
  }
  return to_line({{"names", versions.names},
                  {"different", std::move(different)},
                  {"obstacle", versions.obstacle},
                  {"mend", versions.mend}});
}

std::string environment() {
  return to_line({{"settings", to_json(capture::read_settings())},
                  {"environment", to_json(capture::read_environment())}});
}

std::string version() {
  return to_line(
      {{"tool", REPRO_CHECK_VERSION},
       {"libtorch", fact("libtorch.version")},
       {"hdf5", store::hdf5_version()},
       {"dump_format",
        std::to_string(core::kDumpFormatMajor) + "." + std::to_string(core::kDumpFormatMinor)}});
}

std::string replay(const std::filesystem::path& request_file) {
  const cmd::ReplayQuestion question = cmd::parse_question(read_request(request_file));
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
  return cmd::to_text(answer);
}

}  // namespace repro_check::recorder
