// SPDX-License-Identifier: Apache-2.0
// `exec`: records any program that uses PyTorch, unchanged.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cmd/exec/program.h"
#include "cmd/options/command_line.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/program_recording.h"
#include "cmd/recording/recording.h"
#include "cmd/render/json/json_form.h"
#include "cmd/render/text.h"
#include "cmd/terminal/command.h"
#include "cmd/terminal/logging.h"
#include "configs/parser/config_parser.h"
#include "core/error.h"
#include "dumpers/store/directory/rank_dumps.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

/// @param of  `rank 1: ` where the program ran on several
void tell(const store::MadeDump& made, const fs::path& dump, const std::string& of = {}) {
  log_info(fmt::format("{}recorded {}, {}: {}",
                       of,
                       format_count(made.operator_calls(), "operator"),
                       format_count(made.tensors, "tensor"),
                       dump.string()));
  if (made.partial) {
    log_warning(fmt::format("{}the program did not come to its end; the last operator is op {} {}",
                            of,
                            made.partial->last,
                            made.partial->last_operator));
  }
}

/// Nothing is left behind but the dump when this returns: the process may then end by the program's
/// signal.
/// @throws core::Error{kNotComparable} when the program ended well, and nothing was recorded
ProgramEnd record(const configs::RecordRequest& request,
                  const std::optional<std::chrono::duration<double>>& timeout) {
  const OutputLock beside(fs::absolute(request.dump).parent_path(), OutputLock::Mode::kBeside);
  const OutputLock held(request.dump);
  ProgramRecording recording(request, ProgramRecording::Ranks::kAll);
  const ProgramEnd end = run_program(recording.plan(), timeout);
  if (end.timed_out) recording.stop();
  if (!recording.find(end.process)) {
    if (end.code == 0 && end.signal == 0) recording.throw_nothing_recorded();
  } else if (recording.has_ranks()) {
    for (const auto& [rank, made] : recording.make_rank_dumps()) {
      tell(made, store::rank_directory(request.dump, rank), fmt::format("rank {}: ", rank));
    }
  } else {
    tell(recording.make_dump(), request.dump);
  }
  return end;
}

class ExecCommand final : public Command {
 public:
  ExecCommand()
      : Command({"exec",
                 "Record a program that uses PyTorch, unchanged",
                 {"repro-check exec -o before -- python train.py --epochs 1",
                  "repro-check exec -o after --level tensor --determinism warn -- python train.py",
                  "repro-check exec -c config.json"}}) {}

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
    options.value("--module", "GLOB", &modules_, "Record only operators of modules that match");
    options.value("--steps", "0:3,100", &steps_, "Record operators of these steps only");
    options.value("--phase",
                  "NAME",
                  &phases_,
                  "Record operators of this phase only: forward, backward, optimizer, ...");
    options.value("--first-ops", "N", &first_ops_, "Record so many operators at most");
    options.word("--optimizer",
                 "auto|state|operators",
                 &optimizer_,
                 "What is read of an optimizer's step: what it leaves, or each operator as well");
    options.flag(
        "--checkpoints", &checkpoints_, "Record what is saved and loaded, for `diff --resume`");
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
    const ProgramEnd end = record(request(dump), timeout);
    if (end.timed_out) {
      throw core::Error(core::ErrorKind::kRunFailed,
                        fmt::format("the program was killed after {} s", timeout_),
                        "give it more with --timeout");
    }
    end_alike(end);
    return static_cast<core::ExitCode>(end.code);
  }

 private:
  /// What the flags say, as a configuration says it.
  [[nodiscard]] configs::RecordRequest request(const fs::path& dump) const {
    Json document;
    document["program"] = {{"command", Json::array({"program"})}};
    document["seed"] = no_seed_ ? Json(nullptr) : Json(seed_);
    document["determinism"] = determinism_;
    document["disable_dropout"] = disable_dropout_;
    document["dump"] = {
        {"level", level_}, {"depth", depth_}, {"include", include_}, {"exclude", exclude_}};
    for (const std::string& module : modules_) document["dump"]["include"].push_back(module);
    if (steps_) document["dump"]["steps"] = *steps_;
    document["dump"]["phases"] = phases_;
    document["dump"]["first_ops"] = first_ops_;
    document["dump"]["optimizer"] = optimizer_;
    configs::RecordRequest request;
    request.run = *configs::parse_config(document.dump(), "exec", fs::current_path(), {}).base;
    request.run.name = dump.filename().string();
    request.run.program->command = command_;
    request.run.dump.checkpoints = checkpoints_;
    request.dump = dump;
    request.replace_existing = force_;
    request.found_environment = found_environment(request.run);
    return request;
  }

  std::vector<std::string> command_;
  std::string out_;
  std::string level_ = "digest";
  std::string depth_ = "top";
  std::string determinism_ = "off";
  std::vector<std::string> include_;
  std::vector<std::string> exclude_;
  std::vector<std::string> modules_;
  std::optional<std::string> steps_;
  std::vector<std::string> phases_;
  std::uint64_t first_ops_ = 0;
  std::string optimizer_ = "auto";
  std::uint32_t seed_ = 0;
  double timeout_ = 0;
  bool checkpoints_ = false;
  bool no_seed_ = false;
  bool disable_dropout_ = false;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> exec_command() { return std::make_unique<ExecCommand>(); }

}  // namespace repro_check::cmd
