// SPDX-License-Identifier: Apache-2.0
#include "cmd/recorder/record_verb.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "configs/parser/config_parser.h"
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

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void record(const std::filesystem::path& request_file, StatusChannel& status) {
  const auto start = std::chrono::steady_clock::now();
  const configs::RecordRequest request = read_request(request_file);

  status.phase("loading");
  torchscript::TorchScriptRun run(request.run, store::read_hdf5_tensor);
  if (request.report_outputs) run.keep_returned_values();
  run.note_found(request.found_environment);

  status.phase("recording");
  if (request.bare) {
    run.run_bare();
    status.outputs(run.returned_values());
    status.done(0, 0, 0, seconds_since(start), std::nullopt);
    return;
  }
  store::DumpWriter writer(request.dump_directory, options_for(request));
  core::RunManifest manifest;
  try {
    manifest = run.record(writer, [&](const capture::CaptureCounts& counts) {
      status.progress(counts.operators, writer.stored_bytes());
    });
  } catch (const core::Error& error) {
    writer.fail(error.what());
    throw;
  }

  status.phase("finishing");
  const core::TraceSummary summary = manifest.trace;
  const core::Digest dump = writer.finish(std::move(manifest));
  if (request.report_outputs) status.outputs(run.returned_values());
  status.done(
      summary.operator_calls(), summary.tensors, writer.stored_bytes(), seconds_since(start), dump);
}

}  // namespace repro_check::recorder
