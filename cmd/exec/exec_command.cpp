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
#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/program_recording.h"
#include "cmd/recording/recording.h"
#include "cmd/render/json/json_form.h"
#include "cmd/render/text.h"
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
  ProgramRecording recording(request);
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
    document["dump"]["no_sync"] = no_sync_;
    document["dump"]["workers"] = workers_;
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

  std::vector<std::string> command_ = value(
      &command_, "command COMMAND  The program and its arguments, behind --", {.required = true});
  std::string out_ = value(&out_, "-o,--out DIR  Directory of the dump", {.required = true});
  std::string level_ =
      word(&level_, "--level digest|stats|tensor  What is kept of a tensor", "digest");
  std::string depth_ = word(&depth_, "--depth top|leaf|all  Which operators", "top");
  std::vector<std::string> include_ =
      value(&include_, "--include GLOB  Record only operators and modules that match");
  std::vector<std::string> exclude_ =
      value(&exclude_, "--exclude GLOB  Leave out operators and modules that match");
  std::vector<std::string> modules_ =
      value(&modules_, "--module GLOB  Record only operators of modules that match");
  std::optional<std::string> steps_ =
      value(&steps_, "--steps 0:3,100  Record operators of these steps only");
  std::vector<std::string> phases_ =
      value(&phases_,
            "--phase NAME  Record operators of this phase only: forward, backward, optimizer, ...");
  std::uint64_t first_ops_ = value(&first_ops_, "--first-ops N  Record so many operators at most");
  std::string optimizer_ = word(&optimizer_,
                                "--optimizer auto|state|operators  What is read of an optimizer's "
                                "step: what it leaves, or each operator as well",
                                "auto");
  bool no_sync_ = flag(&no_sync_,
                       "--no-sync  Let collectives go on beside the computation, and record what "
                       "they give where it is read");
  bool workers_ = flag(
      &workers_,
      "--workers  Record what worker processes of a DataLoader do for the batches that are taken");
  bool checkpoints_ =
      flag(&checkpoints_, "--checkpoints  Record what is saved and loaded, for `diff --resume`");
  std::uint32_t seed_ =
      value(&seed_,
            "--seed N  Seeds random, NumPy, PyTorch and hashes before the program",
            {.shows_default = true});
  bool no_seed_ =
      flag(&no_seed_, "--no-seed  Leave all generators as they are", {.excludes = "--seed"});
  std::string determinism_ =
      word(&determinism_, "--determinism off|warn|error  Deterministic kernels", "off");
  bool disable_dropout_ = flag(&disable_dropout_, "--disable-dropout  Let dropout pass everything");
  double timeout_ = value(&timeout_, "--timeout SECONDS  Kill the program after so long");
  bool force_ = flag(&force_, "--force  Replace a dump that exists");
};

}  // namespace

std::unique_ptr<Command> exec_command() { return std::make_unique<ExecCommand>(); }

}  // namespace repro_check::cmd
