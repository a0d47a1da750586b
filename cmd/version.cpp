// SPDX-License-Identifier: Apache-2.0
#include "cmd/version.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cmd/recording/recorder_process.h"
#include "cmd/render/text.h"
#include "core/error.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

std::string libtorch_text() {
  const auto recorder = find_recorder();
  if (!recorder) return "none (no recorder found)";
  try {
    const auto answer = nlohmann::json::parse(ask_recorder({{*recorder, {"version"}}}));
    return escape_name(answer.at("libtorch").get<std::string>()) + " (" +
           escape_name(recorder->string()) + ")";
  } catch (const core::Error& error) {
    return "unknown: " + escape_name(error.what());
  } catch (const nlohmann::json::exception&) {
    return "unknown: " + escape_name(recorder->string()) + " gave no version";
  }
}

}  // namespace

std::string version_text() {
  return fmt::format("repro-check {}\ndump format {}.{}\nHDF5 {}\nLibTorch {}",
                     REPRO_CHECK_VERSION,
                     core::kDumpFormatMajor,
                     core::kDumpFormatMinor,
                     store::hdf5_version(),
                     libtorch_text());
}

}  // namespace repro_check::cmd
