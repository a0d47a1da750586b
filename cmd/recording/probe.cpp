// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/probe.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

#include "cmd/recording/kit.h"
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

/// The loader that a dynamic program names; else empty.
fs::path loader_of(const fs::path& program) {
  constexpr Elf64_Xword kLongest = 4096;
  std::ifstream stream(program, std::ios::binary);
  const auto read = [&](auto& into) {
    return static_cast<bool>(stream.read(reinterpret_cast<char*>(&into), sizeof into));
  };
  Elf64_Ehdr header{};
  if (!read(header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return {};
  }
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    stream.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof segment));
    if (!read(segment)) return {};
    if (segment.p_type != PT_INTERP || segment.p_filesz > kLongest) continue;
    std::string name(segment.p_filesz, '\0');
    stream.seekg(static_cast<std::streamoff>(segment.p_offset));
    stream.read(name.data(), static_cast<std::streamsize>(name.size()));
    return name.c_str();
  }
  return {};
}

/// The LibTorch that the loader would give the program; empty where that is linked to none.
fs::path libtorch_of(const ProcessPlan& program) {
  const fs::path file = found_in_path(program);
  const fs::path loader = loader_of(file);
  if (loader.empty()) return {};
  RecorderCall call{program};
  call.program = loader;
  call.arguments = {"--list", file.string()};
  // `libtorch_cpu.so => /usr/lib/libtorch_cpu.so (0x0000...)`
  const std::string listed = answer_of(call);
  const std::size_t name = listed.find("libtorch_cpu.so");
  const std::size_t begin = listed.find('/', name);
  const std::size_t end = listed.find(" (0x", name);
  if (begin >= end || listed.find('\n', name) < end) return {};
  return listed.substr(begin, end - begin);
}

/// The probe that fits; empty where the interpreter gave no answer.
fs::path ask_interpreter(const fs::path& folder,
                         const ProcessPlan& program,
                         const fs::path& interpreter,
                         const fs::path& libtorch) {
  ProcessPlan asked = program;
  asked.program = interpreter;
  return ask_kit(folder, asked, "probe", libtorch);
}

std::optional<fs::path> find_probe(const fs::path& folder, const ProcessPlan& program) {
  if (const fs::path interpreter = interpreter_of(program); !interpreter.empty()) {
    ask_interpreter(folder, program, interpreter, {});
    return std::nullopt;
  }
  const fs::path libtorch = libtorch_of(program);
  if (libtorch.empty()) return std::nullopt;
  if (folder.string().find_first_of(" :") != std::string::npos) {
    throw core::usage_error(
        "nothing in " + folder.string() + " can be preloaded: its path has a space or a colon",
        "install repro-check in another place");
  }
  fs::path probe = ask_interpreter(folder, program, "python3", libtorch);
  if (!probe.empty()) return probe;
  throw core::usage_error(
      "python3, which has to be in the program's PATH, gave no probe for " + libtorch.string(),
      "see what it said above");
}

}  // namespace

std::optional<fs::path> prepare_probe(const fs::path& folder, const ProcessPlan& program) {
  // A command that runs a program several times starts its interpreter for this once.
  using Asked = std::tuple<fs::path, fs::path, decltype(program.environment)>;
  static std::map<Asked, std::optional<fs::path>> answers;
  const Asked asked(program.program, program.cwd, program.environment);
  const auto known = answers.find(asked);
  return known != answers.end() ? known->second
                                : answers.emplace(asked, find_probe(folder, program)).first->second;
}

}  // namespace repro_check::cmd
