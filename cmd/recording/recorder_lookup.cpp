// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/recorder_lookup.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "core/error.h"

namespace repro_check::cmd {
namespace {

constexpr const char* kRecorderName = "repro-check-recorder";

bool can_run(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

}  // namespace

std::vector<std::filesystem::path> recorder_places() {
  if (const char* named = std::getenv("REPRO_CHECK_RECORDER"); named != nullptr && *named != '\0') {
    return {named};
  }
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path folder = self.parent_path();
  return {folder / kRecorderName, folder.parent_path() / "libexec" / "repro-check" / kRecorderName};
}

std::optional<std::filesystem::path> find_recorder() {
  for (const std::filesystem::path& place : recorder_places()) {
    if (can_run(place)) return place;
  }
  return std::nullopt;
}

std::filesystem::path require_recorder(const std::optional<std::filesystem::path>& named) {
  if (named) {
    if (can_run(*named)) return *named;
    throw core::Error(core::ErrorKind::kUsage,
                      "recorder " + named->string() + " cannot be run",
                      "\"recorder\" names the file of a repro-check-recorder");
  }
  if (const auto found = find_recorder()) return *found;
  std::string looked;
  for (const std::filesystem::path& place : recorder_places()) {
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  throw core::Error(core::ErrorKind::kUsage,
                    "there is no recorder, so nothing can be recorded (looked for " + looked + ")",
                    "install the package repro-check-recorder, or build with "
                    "-DREPRO_CHECK_WITH_TORCH=ON, or point REPRO_CHECK_RECORDER at a "
                    "repro-check-recorder; diff, inspect and validate work without");
}

}  // namespace repro_check::cmd
