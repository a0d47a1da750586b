// SPDX-License-Identifier: Apache-2.0
#include "cmd/exec/exec_command.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "cmd/exec/attachment.h"
#include "cmd/exec/program.h"
#include "cmd/options/choice.h"
#include "cmd/recording/output_lock.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "core/error.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNothingRecorded =
    "nothing was recorded: no Python below the program imported PyTorch. Python started with -I, -E or "
    "-S, a frozen or static program, and a program that clears its environment are not reached";

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
  const core::TraceSummary trace =
      whole ? store::import_journal(process.journal, dump, options)
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

/// How it ended, and what there is of it. Nothing is left behind but the dump when this returns: the
/// process may then end by the program's signal.
struct Execution {
  ProgramEnd end;
  bool recorded = false;
  bool refused = false;  ///< a process had PyTorch, and could not be attached to
};

Execution execute(const AttachmentPlan& plan,
                  const std::optional<std::chrono::duration<double>>& timeout,
                  const fs::path& dump,
                  bool force) {
  const OutputLock beside(fs::absolute(dump).parent_path(), OutputLock::Mode::kBeside);
  const OutputLock held(dump);
  Attachment attachment(plan, dump);
  Execution done;
  done.end = run_program({plan.command, attachment.environment(), timeout});
  const std::vector<AttachedProcess> processes = attachment.processes();
  const AttachedProcess* chosen = choose(processes, done.end.process);
  tell_of(processes, chosen);
  done.recorded = chosen != nullptr;
  done.refused = std::any_of(processes.begin(), processes.end(), [](const auto& process) {
    return !process.failure.empty();
  });
  if (chosen == nullptr) return done;
  try {
    make_dump_of(*chosen, dump, force);
  } catch (const core::Error& error) {
    attachment.keep();
    throw core::Error(error.kind(),
                      error.what(),
                      "what was recorded is still there: repro-check recover " +
                          chosen->journal.string() + " -o DIR");
  }
  return done;
}

}  // namespace

std::vector<std::string> ExecCommand::examples() const {
  return {"repro-check exec -o before -- python train.py --epochs 1",
          "repro-check exec -o after --level tensor --determinism warn -- python train.py"};
}

void ExecCommand::define(CLI::App& app) {
  app.add_option("command", command_, "The program and its arguments, behind --")
      ->type_name("COMMAND")
      ->required();
  app.add_option("-o,--out", out_, "Directory of the dump")->type_name("DIR")->required();
  restrict_to(app.add_option("--level", level_, "What is kept of a tensor"),
              {"digest", "stats", "tensor"});
  restrict_to(app.add_option("--depth", depth_, "Which operators"), {"top", "leaf", "all"});
  app.add_option("--include", include_, "Record only operators and modules that match")
      ->type_name("GLOB");
  app.add_option("--exclude", exclude_, "Leave out operators and modules that match")
      ->type_name("GLOB");
  app.add_option("--seed", seed_, "Seeds random, NumPy, PyTorch and hashes before the program")
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--no-seed", no_seed_, "Leave all generators as they are")->excludes("--seed");
  restrict_to(app.add_option("--determinism", determinism_, "Deterministic kernels"),
              {"off", "warn", "error"});
  app.add_flag("--disable-dropout", disable_dropout_, "Let dropout pass everything");
  app.add_option("--timeout", timeout_, "Kill the program after so long")->type_name("SECONDS");
  app.add_flag("--force", force_, "Replace a dump that exists");
}

core::ExitCode ExecCommand::run(const GlobalOptions& /*globals*/) {
  fs::path dump = fs::path(out_).lexically_normal();
  if (dump.filename().empty()) dump = dump.parent_path();
  std::error_code ignored;
  if (!force_ && fs::exists(dump, ignored)) {
    throw core::Error(core::ErrorKind::kUsage,
                      dump.string() + ": is there already",
                      "record to another directory, or replace it with --force");
  }
  const AttachmentPlan plan{command_,
                            level_,
                            depth_,
                            determinism_,
                            include_,
                            exclude_,
                            no_seed_ ? std::nullopt : std::optional(seed_),
                            disable_dropout_};
  std::optional<std::chrono::duration<double>> timeout;
  if (timeout_ > 0) timeout.emplace(timeout_);
  const Execution done = execute(plan, timeout, dump, force_);
  if (done.end.timed_out) {
    throw core::Error(core::ErrorKind::kRunFailed,
                      fmt::format("the program was killed after {} s", timeout_),
                      "give it more with --timeout");
  }
  end_alike(done.end);
  if (done.end.code != 0) return static_cast<core::ExitCode>(done.end.code);
  if (done.recorded) return core::ExitCode::kReproducible;
  throw core::Error(core::ErrorKind::kNotComparable,
                    done.refused ? "nothing was recorded: the probe could not be attached"
                                 : kNothingRecorded,
                    done.refused ? "see the warnings above" : "");
}

}  // namespace repro_check::cmd
