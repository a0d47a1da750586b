// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/probe.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "cmd/render/json/json_form.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

bool is_python(const fs::path& file) {
  constexpr std::string_view kName = "python";
  const std::string name = file.filename().string();
  return name.starts_with(kName) &&
         name.find_first_not_of("0123456789.", kName.size()) == std::string::npos;
}

std::string variable_of(const ProcessPlan& program, const std::string& name) {
  if (const auto given = program.environment.find(name); given != program.environment.end()) {
    return given->second.value_or("");
  }
  const char* inherited = std::getenv(name.c_str());
  return inherited == nullptr ? "" : inherited;
}

/// The file that a shell in the program's place would run.
fs::path found_in_path(const ProcessPlan& program) {
  const fs::path here = program.cwd.empty() ? fs::current_path() : program.cwd;
  if (program.program.has_parent_path()) return here / program.program;
  const std::string path = variable_of(program, "PATH");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    fs::path file = here / path.substr(begin, end - begin) / program.program;
    if (::access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  return {};
}

/// Of a Python script that is started as a program; else empty.
fs::path interpreter_in(const fs::path& script) {
  constexpr std::string_view kMark = "#!";
  constexpr std::size_t kLongest = 256;
  std::string line(kLongest, '\0');
  std::ifstream stream(script, std::ios::binary);
  stream.read(line.data(), kLongest);
  line.resize(static_cast<std::size_t>(stream.gcount()));
  line.resize(std::min(line.find('\n'), line.size()));
  if (!line.starts_with(kMark)) return {};
  constexpr std::string_view kSpace = " \t";
  const std::size_t begin = line.find_first_not_of(kSpace, kMark.size());
  if (begin == std::string::npos) return {};
  const std::size_t end = std::min(line.find_first_of(kSpace, begin), line.size());
  fs::path first = line.substr(begin, end - begin);
  const std::size_t next = line.find_first_not_of(kSpace, end);
  // `#!/usr/bin/env python3`
  if (first.filename() != "env" || next == std::string::npos) return first;
  return line.substr(next, line.find_first_of(kSpace, next) - next);
}

fs::path interpreter_of(const ProcessPlan& program) {
  fs::path file = found_in_path(program);
  if (is_python(program.program)) return file;
  fs::path named = interpreter_in(file);
  if (!is_python(named)) named.clear();
  return named;
}

}  // namespace

fs::path require_probe_folder() {
  std::string looked;
  for (const fs::path& place : places_beside("REPRO_CHECK_LIBEXEC", {"../libexec/repro-check"})) {
    std::error_code ignored;
    if (fs::exists(place / "python" / "sitecustomize.py", ignored)) return place;
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  throw core::Error(
      core::ErrorKind::kUsage,
      "what is loaded into programs is not there, so none can be recorded (looked in " + looked +
          ")",
      "install repro-check whole, or point REPRO_CHECK_LIBEXEC at the folder that "
      "holds python/sitecustomize.py");
}

void prepare_probe(const fs::path& folder, const ProcessPlan& program) {
  const fs::path interpreter = interpreter_of(program);
  if (interpreter.empty()) return;
  RecorderCall call{program};
  call.program = interpreter;
  call.arguments = {(folder / "python" / "repro_check_probe.py").string(), folder.string()};
  std::string answer;
  try {
    answer = ask_aloud(call);
  } catch (const core::Error& error) {
    if (error.kind() == core::ErrorKind::kInterrupted) throw;
    return;  // what cannot be asked may still be run
  }
  const Json said = Json::parse(answer, nullptr, false);
  if (!said.is_object() || !said.contains("refused")) return;
  throw core::Error(core::ErrorKind::kUsage, said.value("refused", ""), said.value("mend", ""));
}

}  // namespace repro_check::cmd
