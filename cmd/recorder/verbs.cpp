// SPDX-License-Identifier: Apache-2.0
#include "cmd/recorder/verbs.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "configs/parser/config_parser.h"
#include "core/trace/run_manifest.h"
#include "dumpers/capture/settings/determinism.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/dump_writer.h"
#include "dumpers/store/file/hdf5_tensor.h"
#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check::recorder {
namespace {

configs::RecordRequest read_request(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw core::Error(core::ErrorKind::kUsage,
                      file.string() + ": cannot be read",
                      "a recorder is started by `repro-check run` or `repro-check record`");
  }
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return configs::record_request_from_json_text(text, file.string());
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
  switch (request.run.dump.browse) {
    case configs::BrowseMode::kAuto:
      options.browse = Browse::kAuto;
      break;
    case configs::BrowseMode::kAlways:
      options.browse = Browse::kAlways;
      break;
    case configs::BrowseMode::kNever:
      options.browse = Browse::kNever;
      break;
  }
  return options;
}

void say_outputs(const torchscript::TorchScriptRun& run, StatusChannel& status) {
  for (const torchscript::ReturnedValue& value : run.returned_values()) {
    status.say(cmd::RecorderOutput{value.name, value.what, core::to_hex(value.digest)});
  }
}

}  // namespace

void record(const std::filesystem::path& request_file, StatusChannel& status) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const configs::RecordRequest request = read_request(request_file);

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
  store::DumpWriter writer(request.dump_directory, options_for(request));
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

namespace {

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

}  // namespace

std::string describe(const std::filesystem::path& model, const std::string& method) {
  const torchscript::ModelDescription description = torchscript::describe_model(model, method);
  Json arguments = Json::array();
  for (const torchscript::MethodArgument& argument : description.arguments) {
    arguments.push_back({{"name", argument.name},
                         {"type", argument.type},
                         {"has_default", argument.has_default},
                         {"default_value", argument.default_value}});
  }
  return to_line({{"method", description.method},
                  {"methods", description.methods},
                  {"arguments", std::move(arguments)}});
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
  std::string libtorch = "unknown";
  for (const core::EnvironmentFact& fact : capture::read_environment()) {
    if (fact.name == "libtorch.version") libtorch = fact.value;
  }
  return to_line(
      {{"tool", REPRO_CHECK_VERSION},
       {"libtorch", libtorch},
       {"hdf5", store::hdf5_version()},
       {"dump_format",
        std::to_string(core::kDumpFormatMajor) + "." + std::to_string(core::kDumpFormatMinor)}});
}

}  // namespace repro_check::recorder
