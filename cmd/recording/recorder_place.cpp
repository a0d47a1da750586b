// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/recorder_place.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cmd/recording/kit.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "REPRO_CHECK_RECORDER";

std::vector<fs::path> recorder_places() {
  return places_beside(kVariable,
                       {"repro-check-recorder", "../libexec/repro-check/repro-check-recorder"});
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool can_run(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

std::optional<fs::path> first_that_runs(const std::vector<fs::path>& places) {
  for (const fs::path& place : places) {
    if (can_run(place)) return place;
  }
  return std::nullopt;
}

/// Whose PyTorch a model is run with, in the order in which a person would look for it.
std::vector<fs::path> interpreters() {
  std::vector<fs::path> found;
  std::error_code error;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  for (const char* mark : {"pyvenv.cfg", "conda-meta"}) {
    if (!error && fs::exists(prefix / mark, error)) found.push_back(prefix / "bin" / "python3");
  }
  if (is_set("VIRTUAL_ENV")) {
    fs::path active = fs::path(std::getenv("VIRTUAL_ENV")) / "bin" / "python3";
    if (found.empty() || found.front() != active) found.push_back(std::move(active));
  }
  found.emplace_back("python3");
  return found;
}

/// Of the first interpreter that has a PyTorch.
/// @param product  `recorder`, or `kept` if it is not to be built
std::optional<fs::path> recorder_of_the_kit(const char* product) {
  const std::optional<fs::path> folder = find_libexec();
  if (is_set(kVariable) || !folder) return std::nullopt;
  for (const fs::path& interpreter : interpreters()) {
    fs::path file = ask_kit(*folder, {interpreter, {}}, product);
    if (!file.empty()) return file;
  }
  return std::nullopt;
}

std::string listed(const std::vector<fs::path>& files) {
  std::string text;
  for (const fs::path& file : files) text += (text.empty() ? "" : ", ") + file.string();
  return text;
}

}  // namespace

std::optional<fs::path> find_recorder() {
  if (auto there = first_that_runs(recorder_places())) return there;
  try {
    return recorder_of_the_kit("kept");
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kUsage) throw;
    return std::nullopt;
  }
}

fs::path require_recorder(const std::optional<fs::path>& named) {
  if (named) {
    if (can_run(*named)) return *named;
    throw core::Error(core::ErrorKind::kUsage,
                      "recorder " + named->string() + " cannot be run",
                      "\"recorder\" names the file of a repro-check-recorder");
  }
  if (auto there = first_that_runs(recorder_places())) return *there;
  // A command with many runs asks the interpreters once.
  static std::optional<fs::path> built;
  if (!built) built = recorder_of_the_kit("recorder");
  if (built) return *built;
  const std::string asked =
      is_set(kVariable) ? "" : ", and no PyTorch to build one for: asked " + listed(interpreters());
  throw core::Error(
      core::ErrorKind::kUsage,
      "there is no recorder, so nothing can be recorded (looked for " + listed(recorder_places()) +
          ")" + asked,
      "install PyTorch beside repro-check, or activate an environment that has it, or "
      "install the package repro-check-recorder, or build with "
      "-DREPRO_CHECK_WITH_TORCH=ON, or point REPRO_CHECK_RECORDER at a "
      "repro-check-recorder; diff, exec, inspect and validate work without");
}

}  // namespace repro_check::cmd
