// SPDX-License-Identifier: Apache-2.0
// `exec`: records any program that uses PyTorch, unchanged. What makes its Python processes record
// themselves is a folder for their journals, a plan that they read, and variables that lead them to
// it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cmd/exec/program.h"
#include "cmd/options/command_line.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/recorder_process.h"
#include "cmd/render/json/json_form.h"
#include "cmd/render/text.h"
#include "cmd/terminal/command.h"
#include "cmd/terminal/logging.h"
#include "configs/spec/run_config.h"
#include "core/error.h"
#include "core/system/pinned.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kProbeName = "librepro_check_probe-";
constexpr const char* kNothingRecorded =
    "nothing was recorded: no Python below the program imported PyTorch. Python started with -I, "
    "-E or "
    "-S, a frozen or static program, and a program that clears its environment are not reached";

/// A process below the program that has loaded PyTorch, as it says itself.
struct AttachedProcess {
  pid_t process = 0;
  fs::path journal;     ///< its directory
  std::string failure;  ///< why nothing was recorded, or no more; empty = nothing failed
  std::vector<std::string> notes;
  bool ended = false;  ///< it came to its end, and its journal is whole
  bool recorded = false;
};

struct Probes {
  fs::path folder;    ///< with their Python side
  std::string names;  ///< of the files
};

/// Which of them fits only the program's own PyTorch tells.
Probes require_probes() {
  std::string looked;
  for (const fs::path& place : places_beside("REPRO_CHECK_LIBEXEC", {"../libexec/repro-check"})) {
    Probes probes{place, {}};
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(place, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(kProbeName)) probes.names += (probes.names.empty() ? "" : ", ") + name;
    }
    if (!probes.names.empty()) return probes;
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  throw core::Error(core::ErrorKind::kUsage,
                    "there is no probe, so no program can be recorded (looked in " + looked + ")",
                    "install the package repro-check-recorder, or build with "
                    "-DREPRO_CHECK_WITH_TORCH=ON, or point REPRO_CHECK_LIBEXEC at the folder that "
                    "holds " +
                        std::string(kProbeName) + "*.so");
}

Json texts(const std::vector<std::string>& list) {
  Json array = Json::array();
  for (const std::string& text : list) array.push_back(clean_utf8(text));
  return array;
}

std::optional<AttachedProcess> read_state(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const Json state = Json::parse(text, nullptr, false);
  if (!state.is_object() || !state.contains("process")) return std::nullopt;
  AttachedProcess process;
  process.process = state.value("process", 0);
  process.ended = state.value("ended", false);
  if (state["failure"].is_string()) process.failure = state["failure"];
  process.notes = state.value("notes", std::vector<std::string>{});
  process.journal = fs::path(file).replace_extension();
  const fs::path journal = process.journal / journal::kJournalName;
  if (process.ended) {
    process.recorded = state.value("operators", std::uint64_t{0}) > 0;
  } else if (std::error_code ignored; fs::exists(journal, ignored)) {
    const journal::JournalSummary reached = journal::summarise(journal);
    process.recorded = reached.completed > 0 || reached.entered;
  }
  return process;
}

/// What the processes leave, removed with the object unless it is to be kept.
struct ProcessFolder : core::Pinned {
  /// @param beside  where the dump will be; the folder is made next to it
  /// @throws core::Error{kUsage}
  explicit ProcessFolder(const fs::path& beside) : path(fs::absolute(beside)) {
    path += ".processes-" + std::to_string(::getpid());
    std::error_code error;
    fs::create_directories(path, error);
    if (!error) return;
    throw core::Error(core::ErrorKind::kUsage,
                      path.string() + ": cannot be made: " + error.message(),
                      "give --out a place that can be written");
  }
  ~ProcessFolder() {
    std::error_code ignored;
    if (!kept) fs::remove_all(path, ignored);
  }

  /// Those that attached, in the order of their numbers.
  [[nodiscard]] std::vector<AttachedProcess> processes() const {
    std::vector<AttachedProcess> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() != ".json" || entry.path().filename() == "plan.json") continue;
      if (auto process = read_state(entry.path())) found.push_back(std::move(*process));
    }
    std::ranges::sort(found, {}, &AttachedProcess::process);
    return found;
  }

  fs::path path;
  bool kept = false;
};

/// The process whose recording the dump is: of several that ran operators, the program itself, else
/// the one that began first.
const AttachedProcess* choose(const std::vector<AttachedProcess>& processes, pid_t program) {
  const AttachedProcess* chosen = nullptr;
  for (const AttachedProcess& process : processes) {
    if (!process.recorded) continue;
    if (process.process == program) return &process;
    if (chosen == nullptr) chosen = &process;
  }
  return chosen;
}

void tell_of(const std::vector<AttachedProcess>& processes, const AttachedProcess* chosen) {
  std::size_t others = 0;
  for (const AttachedProcess& process : processes) {
    if (!process.failure.empty()) {
      log_warning(fmt::format("process {}: {}", process.process, process.failure));
    }
    for (const std::string& note : process.notes) {
      log_warning(fmt::format("process {}: not all of it was seen: {}", process.process, note));
    }
    if (process.recorded && &process != chosen) ++others;
  }
  if (others > 0) {
    log_warning(fmt::format("{} ran operators too, and are not kept",
                            format_count(others, "further process")));
  }
}

void make_dump_of(const AttachedProcess& process, const fs::path& dump, bool force) {
  store::DumpWriterOptions options;
  options.replace_existing = force;
  const bool whole = process.ended && process.failure.empty();
  const core::TraceSummary trace = whole ? store::import_journal(process.journal, dump, options)
                                         : store::recover_dump(process.journal, dump, options);
  log_info(fmt::format("recorded {}, {}: {}",
                       format_count(trace.operator_calls(), "operator"),
                       format_count(trace.tensors, "tensor"),
                       dump.string()));
  if (trace.partial) {
    log_warning(fmt::format("the program did not come to its end; the last operator is op {} {}",
                            trace.partial->last,
                            trace.partial->last_operator));
  }
}

/// How it ended, and what there is of it. Nothing is left behind but the dump when this returns:
/// the process may then end by the program's signal.
struct Execution {
  ProgramEnd end;
  bool recorded = false;
  bool refused = false;  ///< a process had PyTorch, and could not be attached to
};

class ExecCommand final : public Command {
 public:
  ExecCommand()
      : Command(
            {"exec",
             "Record a Python program that uses PyTorch, unchanged",
             {"repro-check exec -o before -- python train.py --epochs 1",
              "repro-check exec -o after --level tensor --determinism warn -- python train.py"}}) {}

  void define(Options& options) override {
    options.value("command",
                  "COMMAND",
                  &command_,
                  "The program and its arguments, behind --",
                  {.required = true});
    options.value("-o,--out", "DIR", &out_, "Directory of the dump", {.required = true});
    options.word("--level", "digest|stats|tensor", &level_, "What is kept of a tensor");
    options.word("--depth", "top|leaf|all", &depth_, "Which operators");
    options.value("--include", "GLOB", &include_, "Record only operators and modules that match");
    options.value("--exclude", "GLOB", &exclude_, "Leave out operators and modules that match");
    options.value("--seed",
                  "N",
                  &seed_,
                  "Seeds random, NumPy, PyTorch and hashes before the program",
                  {.shows_default = true});
    options.flag(
        "--no-seed", &no_seed_, "Leave all generators as they are", {.excludes = "--seed"});
    options.word("--determinism", "off|warn|error", &determinism_, "Deterministic kernels");
    options.flag("--disable-dropout", &disable_dropout_, "Let dropout pass everything");
    options.value("--timeout", "SECONDS", &timeout_, "Kill the program after so long");
    options.flag("--force", &force_, "Replace a dump that exists");
  }

  core::ExitCode run(const GlobalOptions& /*globals*/) override {
    fs::path dump = fs::path(out_).lexically_normal();
    if (dump.filename().empty()) dump = dump.parent_path();
    std::error_code ignored;
    if (!force_ && fs::exists(dump, ignored)) {
      throw core::Error(core::ErrorKind::kUsage,
                        dump.string() + ": is there already",
                        "record to another directory, or replace it with --force");
    }
    std::optional<std::chrono::duration<double>> timeout;
    if (timeout_ > 0) timeout.emplace(timeout_);
    const Execution done = execute(timeout, dump);
    if (done.end.timed_out) {
      throw core::Error(core::ErrorKind::kRunFailed,
                        fmt::format("the program was killed after {} s", timeout_),
                        "give it more with --timeout");
    }
    end_alike(done.end);
    if (done.end.code != 0) return static_cast<core::ExitCode>(done.end.code);
    if (done.recorded) return core::ExitCode::kReproducible;
    throw core::Error(
        core::ErrorKind::kNotComparable,
        done.refused ? "nothing was recorded: the probe could not be attached" : kNothingRecorded,
        done.refused ? "see the warnings above" : "");
  }

 private:
  /// The plan of the processes below: what is recorded, and what is set before the first line.
  void write_plan(const fs::path& folder, const Probes& probes, const std::string& run) const {
    Json document;
    document["level"] = level_;
    document["depth"] = depth_;
    document["determinism"] = determinism_;
    document["include"] = texts(include_);
    document["exclude"] = texts(exclude_);
    document["disable_dropout"] = disable_dropout_;
    document["seed"] = no_seed_ ? Json(nullptr) : Json(seed_);
    Json configuration = document;
    configuration["program"] = {{"command", texts(command_)}};
    document["configuration"] = std::move(configuration);
    document["directory"] = folder.string();
    document["probes"] = probes.folder.string();
    document["there"] = probes.names;
    document["run"] = run;
    document["program"] = clean_utf8(fmt::format("{}", fmt::join(command_, " ")));
    std::ofstream(folder / "plan.json", std::ios::binary) << document.dump();
  }

  [[nodiscard]] ProcessPlan program(const fs::path& folder, const Probes& probes) const {
    ProcessPlan plan{command_.front(), {command_.begin() + 1, command_.end()}};
    configs::RunSpec pins;
    pins.determinism =
        determinism_ == "off" ? configs::DeterminismMode::kOff : configs::DeterminismMode::kError;
    pins.seed = seed_;
    plan.environment = configs::pinned_environment(pins);
    if (no_seed_) plan.environment.erase("PYTHONHASHSEED");
    plan.environment["REPRO_CHECK_EXEC"] = (folder / "plan.json").string();
    const char* path = std::getenv("PYTHONPATH");
    const std::string inherited = path == nullptr || *path == '\0' ? "" : ":" + std::string(path);
    plan.environment["PYTHONPATH"] = (probes.folder / "python").string() + inherited;
    return plan;
  }

  [[nodiscard]] Execution execute(const std::optional<std::chrono::duration<double>>& timeout,
                                  const fs::path& dump) const {
    const OutputLock beside(fs::absolute(dump).parent_path(), OutputLock::Mode::kBeside);
    const OutputLock held(dump);
    const Probes probes = require_probes();
    ProcessFolder folder(dump);
    write_plan(folder.path, probes, dump.filename().string());
    Execution done;
    done.end = run_program(program(folder.path, probes), timeout);
    const std::vector<AttachedProcess> processes = folder.processes();
    const AttachedProcess* chosen = choose(processes, done.end.process);
    tell_of(processes, chosen);
    done.recorded = chosen != nullptr;
    done.refused = std::ranges::any_of(
        processes, [](const AttachedProcess& process) { return !process.failure.empty(); });
    if (chosen == nullptr) return done;
    try {
      make_dump_of(*chosen, dump, force_);
    } catch (const core::Error& error) {
      folder.kept = true;
      throw core::Error(error.kind(),
                        error.what(),
                        "what was recorded is still there: repro-check recover " +
                            chosen->journal.string() + " -o DIR");
    }
    return done;
  }

  std::vector<std::string> command_;
  std::string out_;
  std::string level_ = "digest";
  std::string depth_ = "top";
  std::string determinism_ = "off";
  std::vector<std::string> include_;
  std::vector<std::string> exclude_;
  std::uint32_t seed_ = 0;
  double timeout_ = 0;
  bool no_seed_ = false;
  bool disable_dropout_ = false;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> exec_command() { return std::make_unique<ExecCommand>(); }

}  // namespace repro_check::cmd
