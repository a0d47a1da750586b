// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/kit.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "cmd/render/text.h"
#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/system/ownership.h"
#include "core/text/text.h"
#include "dumpers/model_file/model_file.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

fs::path own_file() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

/// @param why  core::refusal()
/// @throws core::Error{kUsage} if that is not empty
void require_ours(const std::string& why) {
  if (why.empty()) return;
  throw core::usage_error(why + ", so it is not loaded",
                          "install repro-check again, or make it owned by you or root and "
                          "not writable by others");
}

/// Of this command alone: probes and recorders are built there if others can write to the cache.
std::optional<core::PrivateFolder>& private_folder() {
  static std::optional<core::PrivateFolder> folder;
  return folder;
}

/// Where what belongs to this program is looked for: what the variable names alone if that is set;
/// otherwise these places, as they lie from this program's own folder.
std::vector<fs::path> places_beside(const char* variable,
                                    std::initializer_list<const char*> beside) {
  if (is_set(variable)) return {std::getenv(variable)};
  const fs::path self = own_file();
  std::vector<fs::path> places;
  for (const char* place : beside) {
    if (!self.empty()) places.push_back((self.parent_path() / place).lexically_normal());
  }
  return places;
}

std::string listed(const std::vector<fs::path>& files) {
  return joined(files, ", ", [](const fs::path& file) { return file.string(); });
}

std::vector<fs::path> libexec_places() {
  return places_beside("REPRO_CHECK_LIBEXEC", {"../libexec/repro-check"});
}

/// The folder of what is loaded into programs, its Python side, and the kit: what probe and
/// recorder are built of at first use.
/// @throws core::Error{kUsage} if others can write to it
std::optional<fs::path> find_libexec() {
  for (const fs::path& place : libexec_places()) {
    std::error_code ignored;
    if (!fs::exists(place / "python" / "sitecustomize.py", ignored)) continue;
    require_ours(core::refusal_of_tree(place, own_file()));
    return place;
  }
  return std::nullopt;
}

/// What a program said; empty where it cannot be started.
/// @throws core::Error{kInterrupted}
std::string answer_of(const RecorderCall& call) {
  try {
    return ask_aloud(call);
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kUsage) throw;
    return {};
  }
}

/// Asks kit.py of the hooks for what fits the PyTorch of an interpreter; what has to be built is,
/// as a line on stderr says.
/// @param folder    find_libexec()
/// @param asked     the interpreter, and the environment it is started in
/// @param product   `probe`, `recorder`, or `kept`: the recorder if it was built before
/// @param libtorch  libtorch_cpu.so of a program without Python
/// @return empty where there is no such interpreter, or it has no PyTorch
/// @throws core::Error{kUsage} when there can be none, saying what to do; core::Error{kInterrupted}
fs::path ask_kit(const fs::path& folder,
                 const ProcessPlan& asked,
                 const char* product,
                 const fs::path& libtorch = {}) {
  RecorderCall call{asked};
  call.arguments = {(folder / "python" / "repro_check_hooks" / "kit.py").string(),
                    product,
                    folder.string(),
                    private_build_folder().string()};
  if (!libtorch.empty()) call.arguments.push_back(libtorch.string());
  std::istringstream answer(answer_of(call));
  std::string what;
  std::string text;
  std::string mend;
  std::getline(answer, what, '\0');
  std::getline(answer, text, '\0');
  std::getline(answer, mend, '\0');
  if (what == "refused") throw core::usage_error(text, mend);
  if (what == "unsafe" && !private_folder()) {
    private_folder().emplace(fs::path(core::temporary_directory()) / "repro-check-");
    return ask_kit(folder, asked, product, libtorch);
  }
  return what == "file" ? fs::path(text) : fs::path();
}

constexpr const char* kVariable = "REPRO_CHECK_RECORDER";

std::vector<fs::path> recorder_places() {
  return places_beside(kVariable,
                       {"repro-check-recorder", "../libexec/repro-check/repro-check-recorder"});
}

bool can_run(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

/// @throws core::Error{kUsage} if others can write to it
std::optional<fs::path> first_that_runs(const std::vector<fs::path>& places) {
  for (const fs::path& place : places) {
    if (!can_run(place)) continue;
    require_ours(core::refusal(place, own_file()));
    return place;
  }
  return std::nullopt;
}

/// Whose PyTorch a model is run with, in the order in which a person would look for it.
std::vector<fs::path> interpreters() {
  std::vector<fs::path> found;
  std::error_code error;
  const fs::path prefix = own_file().parent_path().parent_path();
  for (const char* mark : {"pyvenv.cfg", "conda-meta"}) {
    if (!prefix.empty() && fs::exists(prefix / mark, error))
      found.push_back(prefix / "bin" / "python3");
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

/// The script, run by the first interpreter that has all that it imports.
/// @throws core::Error{kUsage} naming what each lacks; core::Error{kInterrupted}
ProcessPlan find_onnx_recorder(const fs::path& script) {
  std::string lacking;
  for (const fs::path& interpreter : interpreters()) {
    ProcessPlan plan{interpreter, {"-B", script.string()}};
    RecorderCall asked{plan};
    asked.arguments.emplace_back("version");
    const std::string said = answer_of(asked);
    const std::string answer(core::trimmed(said));
    if (answer.starts_with('{')) return plan;
    lacking += fmt::format("{}{} {}",
                           lacking.empty() ? "" : "; ",
                           interpreter.string(),
                           answer.empty() ? "cannot be run" : answer);
  }
  throw core::usage_error("no Python here can record an ONNX model: " + lacking,
                          "pip install onnx onnxruntime h5py xxhash, or activate an environment "
                          "that has them");
}

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
  std::istringstream words(line.substr(kMark.size()));
  std::string first;
  std::string next;
  words >> first >> next;
  // `#!/usr/bin/env python3`
  return fs::path(first).filename() == "env" && !next.empty() ? next : first;
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
  if (!can_preload(folder)) {
    throw core::usage_error(
        "nothing in " + folder.string() + " can be preloaded: its path has a space or a colon",
        "install repro-check in another place");
  }
  fs::path probe = ask_interpreter(folder, program, "python3", libtorch);
  if (!probe.empty()) return probe;
  throw core::usage_error("python3 in the program's PATH built no probe for " + libtorch.string(),
                          "see its messages above");
}

}  // namespace

bool can_preload(const fs::path& folder) {
  return folder.string().find_first_of(" :") == std::string::npos;
}

std::optional<fs::path> find_documentation() {
  const fs::path place =
      (own_file().parent_path() / "../share/doc/repro-check/docs").lexically_normal();
  std::error_code error;
  return fs::is_directory(place, error) ? std::optional(place) : std::nullopt;
}

fs::path require_libexec() {
  if (auto found = find_libexec()) return *found;
  throw core::usage_error(
      "the Python part of the recorder is missing, so no program can be recorded (looked in " +
          listed(libexec_places()) + ")",
      "install repro-check completely, or set REPRO_CHECK_LIBEXEC to the folder that holds "
      "python/sitecustomize.py");
}

std::optional<fs::path> find_recorder() {
  try {
    if (auto there = first_that_runs(recorder_places())) return there;
    return recorder_of_the_kit("kept");
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kUsage) throw;
    return std::nullopt;
  }
}

fs::path require_recorder(const std::optional<fs::path>& named) {
  if (named) {
    if (const auto there = first_that_runs({*named})) return *there;
    throw core::usage_error("recorder " + named->string() + " cannot be run",
                            "\"recorder\" names the file of a repro-check-recorder");
  }
  if (auto there = first_that_runs(recorder_places())) return *there;
  // A command with many runs asks the interpreters once.
  static std::optional<fs::path> built;
  if (!built) built = recorder_of_the_kit("recorder");
  if (built) return *built;
  const std::string asked =
      is_set(kVariable) ? "" : ", and no PyTorch to build one for: tried " + listed(interpreters());
  throw core::usage_error(
      "there is no recorder, so nothing can be recorded (looked for " + listed(recorder_places()) +
          ")" + asked,
      "install PyTorch beside repro-check, or activate an environment that has it, or "
      "install the package repro-check-recorder, or build with "
      "-DREPRO_CHECK_WITH_TORCH=ON, or set REPRO_CHECK_RECORDER to a repro-check-recorder; diff, "
      "exec, inspect and validate need none");
}

bool is_onnx_model(const fs::path& model) {
  std::error_code ignored;
  return fs::is_regular_file(model, ignored) &&
         (model.extension() == ".onnx" ||
          model_file::identify_file(model) == model_file::FileKind::kOnnx);
}

ProcessPlan require_recorder_of_model(const fs::path& model, const std::optional<fs::path>& named) {
  if (named || !is_onnx_model(model)) return {require_recorder(named), {}};
  static std::optional<ProcessPlan> found;
  if (!found) found = find_onnx_recorder(require_libexec() / "frameworks" / "record_onnx.py");
  return *found;
}

void remove_private_build_folder() { private_folder().reset(); }

fs::path private_build_folder() { return private_folder() ? private_folder()->path() : fs::path(); }

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
