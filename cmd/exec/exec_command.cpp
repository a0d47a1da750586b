// SPDX-License-Identifier: Apache-2.0
// `exec`: records any program that uses PyTorch, unchanged.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cmd/audit/audit_line.h"
#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/recording/default_places.h"
#include "cmd/recording/growth_notice.h"
#include "cmd/recording/kit.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/program_recording.h"
#include "cmd/recording/recorder_process.h"
#include "cmd/recording/recording.h"
#include "cmd/recording/space.h"
#include "cmd/render/json_form.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "configs/parser/config_parser.h"
#include "core/error.h"
#include "core/system/pinned.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

std::atomic<pid_t> running = 0;

void pass_on(int signal) {
  const pid_t process = running;
  if (process > 0) ::kill(process, signal);
}

/// Signals while the program runs. A terminal's go to its process group, and so to the program too;
/// those that only we get are passed on.
class ProgramSignals : core::Pinned {
 public:
  ProgramSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action = {};
      action.sa_handler = kSignals[i] == SIGINT || kSignals[i] == SIGQUIT ? SIG_IGN : &pass_on;
      action.sa_flags = SA_RESTART;
      ::sigaction(kSignals[i], &action, &before_[i]);
    }
  }
  ~ProgramSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], &before_[i], nullptr);
    }
  }

  /// The program starts with the signals that a shell would have given it.
  static void reset_in(posix_spawnattr_t& attributes) {
    sigset_t defaults;
    ::sigemptyset(&defaults);
    for (const int signal : kSignals) ::sigaddset(&defaults, signal);
    ::sigaddset(&defaults, SIGPIPE);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }

 private:
  static constexpr std::array<int, 6> kSignals{SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  std::array<struct sigaction, kSignals.size()> before_{};
};

pid_t start(const ProcessPlan& plan) {
  const ExecWords words(plan);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ProgramSignals::reset_in(attributes);
  pid_t process = 0;
  const int error = ::posix_spawnp(&process,
                                   words.arguments.front(),
                                   nullptr,
                                   &attributes,
                                   words.arguments.data(),
                                   words.environment.data());
  ::posix_spawnattr_destroy(&attributes);
  if (error == 0) return process;
  throw core::usage_error("cannot start " + plan.program.string() + ": " + std::strerror(error),
                          plan.mend);
}

/// @return whether it has ended in time; it is not reaped
bool await(pid_t process, const std::optional<std::chrono::duration<double>>& timeout) {
  siginfo_t info = {};
  const auto wait = [&](int more) {
    info.si_pid = 0;
    int result = 0;
    do {
      result = ::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT | more);
    } while (result != 0 && errno == EINTR);
    return info.si_pid == process;
  };
  if (!timeout) return wait(0);
  const auto deadline = std::chrono::steady_clock::now() + *timeout;
  while (!wait(WNOHANG)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    const timespec pause{0, 20'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return true;
}

struct ProgramEnd {
  int code = 0;    ///< its exit code; of no meaning where a signal ended it
  int signal = 0;  ///< 0 = none did
  bool timed_out = false;
  pid_t process = 0;

  [[nodiscard]] bool is_good() const { return code == 0 && signal == 0; }
};

core::ProgramEnd described(const ProgramEnd& end) {
  core::ProgramEnd described;
  if (end.signal != 0) {
    described.signal = signal_name(end.signal);
  } else {
    described.exit_code = static_cast<std::uint64_t>(end.code);
  }
  return described;
}

/// Runs a program, looked for in PATH, as the shell would: with our streams, working directory and
/// process group. What a terminal sends reaches both of us, and is left to the program; what is
/// sent to us alone is passed on to it.
/// @throws core::Error{kUsage} when it cannot be started
ProgramEnd run_program(const ProcessPlan& plan,
                       const std::optional<std::chrono::duration<double>>& timeout) {
  const ProgramSignals signals;
  ProgramEnd end;
  end.process = start(plan);
  running = end.process;
  end.timed_out = !await(end.process, timeout);
  if (end.timed_out) ::kill(end.process, SIGKILL);
  int status = 0;
  while (::waitpid(end.process, &status, 0) < 0 && errno == EINTR) {
  }
  running = 0;
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.code = WEXITSTATUS(status);
  return end;
}

/// Ends this process as `end` did, by the same signal; returns where no signal did.
void end_alike(const ProgramEnd& end) {
  if (end.signal == 0) return;
  remove_private_build_folder();
  // The program's core, if it left one, is the one to look at.
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::signal(end.signal, SIG_DFL);
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, end.signal);
  ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
  ::raise(end.signal);
}

void tell(const ProgramRecording::Made& recorded) {
  const store::MadeDump& made = recorded.dump;
  std::string of = recorded.rank ? fmt::format("rank {}: ", *recorded.rank) : "";
  if (!recorded.process.empty()) of += escape_name(recorded.process) + ": ";
  const std::string what = made.blocks
                               ? fmt::format("{} of blocks, {} of parameters",
                                             format_count(made.blocks->rows, "call"),
                                             format_count(made.blocks->parameters, "reading"))
                               : fmt::format("{}, {}",
                                             format_count(made.operator_calls(), "operator"),
                                             format_count(made.tensors, "tensor"));
  log_info(fmt::format("{}recorded {}: {}", of, what, recorded.place.string()));
  if (made.partial && !made.partial->stopped) {
    log_warning(fmt::format("{}the program did not end by itself; the last operator is op {} {}",
                            of,
                            made.partial->last,
                            made.partial->last_operator));
  }
}

/// @return what the audit makes of a program that ended well
core::ExitCode make_dumps(ProgramRecording& recording,
                          const fs::path& dump,
                          const ProgramEnd& end,
                          const configs::AuditSpec& audit) {
  if (recording.find(end.process, described(end))) {
    for (const ProgramRecording::Made& made : recording.make_dumps()) tell(made);
    if (const auto size = dump_size(dump); size && *size >= kLargeRecording) {
      log_info(fmt::format("the dump has {}; {}", format_bytes(*size), smaller_text()));
    }
    return tell_of_audit(core::ExitCode::kReproducible, dump, {audit});
  }
  if (end.is_good()) recording.throw_nothing_recorded();
  return core::ExitCode::kReproducible;
}

/// Nothing is left behind but the dump when this returns: the process may then end by the program's
/// signal.
/// @throws core::Error when the program ended well, and there is no dump: {kNotComparable} where
///         nothing was recorded, else {kRunFailed}
ProgramEnd record(const configs::RecordRequest& request,
                  const std::optional<std::chrono::duration<double>>& timeout,
                  const configs::AuditSpec& audit) {
  ProgramRecording recording(request);
  ProgramEnd end = run_program(recording.plan(), timeout);
  try {
    if (end.timed_out) recording.stop();
    const core::ExitCode audited = make_dumps(recording, request.dump, end, audit);
    if (end.is_good()) end.code = static_cast<int>(audited);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const core::Error*>(&error);
    if (!end.is_good()) {
      report_exception(error);
    } else if (known != nullptr && known->kind() == core::ErrorKind::kNotComparable) {
      throw;
    } else {
      throw core::run_failed(error.what(), known == nullptr ? "" : known->hint());
    }
  }
  return end;
}

class ExecCommand final : public Command {
 public:
  ExecCommand() : Command({"exec", "Record one run of a PyTorch program, which needs no change"}) {}

  core::ExitCode run(const GlobalOptions& /*globals*/) override {
    std::optional<std::chrono::duration<double>> timeout;
    if (timeout_ > 0) timeout.emplace(timeout_);
    const ProgramEnd end = record_in_its_place(timeout);
    if (end.timed_out) {
      throw core::run_failed(fmt::format("the program was killed after {} s", timeout_),
                             "raise the limit with --timeout");
    }
    end_alike(end);
    return static_cast<core::ExitCode>(end.code);
  }

 private:
  /// Nothing is held any more when this returns.
  [[nodiscard]] ProgramEnd record_in_its_place(
      const std::optional<std::chrono::duration<double>>& timeout) const {
    configs::AuditSpec audit;
    audit.fail_on = audit_failure(audit_fail_on_);
    if (!out_) {
      const HeldPlace place = next_place();
      return record(request(place.directory), timeout, audit);
    }
    fs::path dump = fs::path(*out_).lexically_normal();
    if (dump.filename().empty()) dump = dump.parent_path();
    std::error_code ignored;
    if (!force_ && fs::exists(dump, ignored)) {
      throw core::usage_error(dump.string() + ": already exists",
                              "record to another directory, or replace it with --force");
    }
    const OutputLock beside(fs::absolute(dump).parent_path(), OutputLock::Mode::kBeside);
    const OutputLock held(dump);
    return record(request(dump), timeout, audit);
  }

  /// What the flags say, as a configuration says it.
  [[nodiscard]] configs::RecordRequest request(const fs::path& dump) const {
    Json document;
    document["program"] = {{"command", Json::array({"program"})}};
    if (seed_) document["seed"] = *seed_;
    document["determinism"] = determinism_;
    document["disable_dropout"] = disable_dropout_;
    document["rng"] = rng_;
    document["dump"] = {
        {"level", level_}, {"depth", depth_}, {"include", include_}, {"exclude", exclude_}};
    for (const std::string& module : modules_) document["dump"]["include"].push_back(module);
    if (steps_) document["dump"]["steps"] = *steps_;
    document["dump"]["phases"] = phases_;
    document["dump"]["first_ops"] = first_ops_;
    document["dump"]["optimizer"] = optimizer_;
    document["dump"]["no_sync"] = no_sync_;
    document["dump"]["workers"] = workers_;
    document["dump"]["verify_inputs"] = verify_inputs_;
    document["dump"]["keep_values"] = keep_values_;
    document["dump"]["processes"] = processes_;
    if (blocks_) document["dump"]["blocks"] = *blocks_;
    document["dump"]["every"] = every_;
    if (checkpoints_ && depth_ == name_of(core::DumpDepth::kBlocks)) {
      throw core::usage_error("--checkpoints needs operators, and --depth blocks records none",
                              "leave out one of the two");
    }
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

  std::vector<std::string> command_ =
      value(&command_, "command COMMAND", {.takes = Takes::kCommand, .required = true});
  std::optional<std::string> out_ = value(&out_, "-o,--out DIR", {.takes = Takes::kDirectory});
  bool force_ = flag(&force_, "--force");
  std::string level_ =
      word(&level_, "--level digest|stats|tensor", "digest", {.heading = "What is recorded"});
  std::string depth_ = word(&depth_, "--depth top|leaf|all|blocks", "top");
  std::optional<std::string> blocks_ = value(&blocks_, "--blocks BLOCKS");
  std::uint64_t every_ = value(&every_, "--every K");
  std::vector<std::string> include_ = value(&include_, "--include GLOB");
  std::vector<std::string> exclude_ = value(&exclude_, "--exclude GLOB");
  std::vector<std::string> modules_ = value(&modules_, "--module GLOB");
  std::optional<std::string> steps_ = value(&steps_, "--steps 0:3,100");
  std::vector<std::string> phases_ = value(&phases_, "--phase NAME");
  std::uint64_t first_ops_ = value(&first_ops_, "--first-ops N");
  std::string optimizer_ = word(&optimizer_, "--optimizer auto|state|operators", "auto");
  bool no_sync_ = flag(&no_sync_, "--no-sync");
  bool verify_inputs_ = flag(&verify_inputs_, "--verify-inputs");
  bool keep_values_ = flag(&keep_values_, "--keep-values");
  bool workers_ = flag(&workers_, "--workers");
  std::string processes_ = word(&processes_, "--processes all|main", "all");
  bool checkpoints_ = flag(&checkpoints_, "--checkpoints");
  std::optional<std::uint64_t> seed_ = value(&seed_, "--seed N", {.heading = "The program"});
  bool no_seed_ = flag(&no_seed_, "--no-seed", {.excludes = "--seed"});
  std::string determinism_ = word(&determinism_, "--determinism off|warn|error", "off");
  bool disable_dropout_ = flag(&disable_dropout_, "--disable-dropout");
  std::string rng_ = word(&rng_, "--rng device|host", "device");
  double timeout_ = value(&timeout_, "--timeout SECONDS");
  std::string audit_fail_on_ =
      word(&audit_fail_on_, "--audit-fail-on suspicion|proof|never", "never");
};

}  // namespace

std::unique_ptr<Command> exec_command() { return std::make_unique<ExecCommand>(); }

}  // namespace repro_check::cmd
