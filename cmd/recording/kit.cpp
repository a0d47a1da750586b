// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/kit.h"

#include <cstdlib>
#include <sstream>
#include <string>
#include <system_error>

#include "core/error.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> libexec_places() {
  return places_beside("REPRO_CHECK_LIBEXEC", {"../libexec/repro-check"});
}

}  // namespace

std::vector<fs::path> places_beside(const char* variable,
                                    std::initializer_list<const char*> beside) {
  if (const char* named = std::getenv(variable); named != nullptr && *named != '\0') {
    return {named};
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  std::vector<fs::path> places;
  for (const char* place : beside) {
    if (!error) places.push_back((self.parent_path() / place).lexically_normal());
  }
  return places;
}

std::optional<fs::path> find_libexec() {
  for (const fs::path& place : libexec_places()) {
    std::error_code ignored;
    if (fs::exists(place / "python" / "sitecustomize.py", ignored)) return place;
  }
  return std::nullopt;
}

fs::path require_libexec() {
  if (auto found = find_libexec()) return *found;
  std::string looked;
  for (const fs::path& place : libexec_places()) {
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  throw core::Error(
      core::ErrorKind::kUsage,
      "what is loaded into programs is not there, so none can be recorded (looked in " + looked +
          ")",
      "install repro-check whole, or point REPRO_CHECK_LIBEXEC at the folder that "
      "holds python/sitecustomize.py");
}

std::string answer_of(const RecorderCall& call) {
  try {
    return ask_aloud(call);
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kUsage) throw;
    return {};
  }
}

fs::path ask_kit(const fs::path& folder,
                 const ProcessPlan& asked,
                 const char* product,
                 const fs::path& libtorch) {
  RecorderCall call{asked};
  call.arguments = {(folder / "python" / "repro_check_kit.py").string(), product, folder.string()};
  if (!libtorch.empty()) call.arguments.push_back(libtorch.string());
  std::istringstream answer(answer_of(call));
  std::string what;
  std::string text;
  std::string mend;
  std::getline(answer, what, '\0');
  std::getline(answer, text, '\0');
  std::getline(answer, mend, '\0');
  if (what == "refused") throw core::Error(core::ErrorKind::kUsage, text, mend);
  return what == "file" ? fs::path(text) : fs::path();
}

}  // namespace repro_check::cmd
