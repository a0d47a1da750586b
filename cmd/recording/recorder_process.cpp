// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/recorder_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <variant>

#include "cmd/terminal/signals.h"
#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/system/pinned.h"
#include "core/system/signals_blocked.h"

namespace repro_check::cmd {
namespace {

using Clock = std::chrono::steady_clock;

/// The descriptor on which a recorder writes its status lines.
constexpr int kStatusDescriptor = 3;

// A status line is short; a recorder gone wild must not fill our memory.
constexpr std::size_t kMaxLine = std::size_t{1} << 20U;

/// Collects what a recorder says on its status channel.
class StatusChannel {
 public:
  explicit StatusChannel(const std::function<void(const RecorderProgress&)>& on_progress)
      : on_progress_(on_progress) {}

  void feed(const char* data, std::size_t size) {
    pending_.append(data, size);
    std::size_t start = 0;
    for (std::size_t end = pending_.find('\n'); end != std::string::npos;
         end = pending_.find('\n', start)) {
      handle(pending_.substr(start, end - start));
      start = end + 1;
    }
    pending_.erase(0, start);
    if (pending_.size() > kMaxLine) pending_.clear();
  }

  void tick() const {
    if (on_progress_) on_progress_(progress_);
  }

  RecorderOutcome take() && { return std::move(outcome_); }

 private:
  void handle(const std::string& line) {
    if (auto message = parse_message(line)) {
      std::visit([&](auto& said) { take(std::move(said)); }, *message);
      tick();
    }
  }

  void take(RecorderPhase phase) { progress_.phase = std::move(phase.name); }
  void take(RecorderCounts counts) {
    progress_.operators = counts.operators;
    progress_.bytes = counts.bytes;
  }
  void take(RecorderTotals totals) { outcome_.totals = totals; }
  void take(RecorderOutput output) { outcome_.outputs.push_back(std::move(output)); }
  void take(RecorderFailure failure) { outcome_.failure = std::move(failure); }

  const std::function<void(const RecorderProgress&)>& on_progress_;
  std::string pending_;
  RecorderProgress progress_;
  RecorderOutcome outcome_;
};

core::Error failed(const std::string& what) {
  return core::usage_error(what + ": " + std::strerror(errno));
}

/// At 10 or above, so that it is never in the way of 0 to 3 in the child.
core::FileDescriptor raised(int raw, const std::string& what) {
  if (raw < 0) throw failed(what);
  const core::FileDescriptor low(raw);
  core::FileDescriptor high(::fcntl(raw, F_DUPFD_CLOEXEC, 10));
  if (high.get() < 0) throw failed(what);
  return high;
}

struct Pipe {
  core::FileDescriptor read;
  core::FileDescriptor write;
};

Pipe make_pipe() {
  constexpr const char* kWhat = "cannot make a pipe";
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw failed(kWhat);
  core::FileDescriptor write(ends[1]);
  Pipe pipe{raised(ends[0], kWhat), {}};
  pipe.write = raised(::dup(write.get()), kWhat);
  return pipe;
}

/// What the child needs after fork, where nothing may allocate or throw.
struct ChildSetup {
  const char* program;
  char* const* arguments;
  char* const* environment;
  const char* cwd;
  int null_input;
  int output;
  int pipe;
  int pipe_target;
  int exec_error;
  pid_t parent;
};

void restore_signals() noexcept {
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGQUIT}) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become(const ChildSetup& plan) noexcept {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have gone between fork and prctl, and then no signal comes.
  if (::getppid() != plan.parent) ::_exit(127);
  restore_signals();
  const bool ready = ::dup2(plan.null_input, STDIN_FILENO) >= 0 &&
                     ::dup2(plan.output, STDOUT_FILENO) >= 0 &&
                     ::dup2(plan.output, STDERR_FILENO) >= 0 &&
                     (plan.pipe_target < 0 || ::dup2(plan.pipe, plan.pipe_target) >= 0) &&
                     (*plan.cwd == '\0' || ::chdir(plan.cwd) == 0);
  if (ready) ::execvpe(plan.program, plan.arguments, plan.environment);
  const int error = errno;
  // A short write leaves the parent without the reason, but it still sees that exec failed.
  [[maybe_unused]] const ssize_t written = ::write(plan.exec_error, &error, sizeof error);
  ::_exit(127);
}

void check_started(Pipe& exec_result, const ProcessPlan& plan, pid_t pid) {
  exec_result.write.close();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(exec_result.read.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return;
  int status = 0;
  ::waitpid(pid, &status, 0);
  throw core::usage_error("cannot start " + plan.program.string() + ": " + std::strerror(error),
                          plan.mend.empty()
                              ? "name a recorder that can be run, in the configuration "
                                "(\"recorder\") or in REPRO_CHECK_RECORDER"
                              : plan.mend);
}

/// A running child, leader of its own process group, with the reading end of one pipe from it. Dies
/// with us: the kernel kills it when this process goes, and the destructor kills and reaps it.
class Child : core::Pinned {
 public:
  Child(pid_t pid, core::FileDescriptor pipe) noexcept
      : pid_(pid), pipe_(std::move(pipe)), guard_(pid) {}
  ~Child() {
    if (!reaped_) static_cast<void>(reap());
  }

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] int pipe() const noexcept { return pipe_.get(); }  ///< non-blocking
  /// Whether it has ended; it stays a zombie until reaped, so that its group cannot be reused.
  [[nodiscard]] bool has_ended() const noexcept {
    siginfo_t info = {};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  }
  /// Kills what is left of the group and collects the leader. @return status as waitpid has it
  [[nodiscard]] int reap() const noexcept {
    ::kill(-pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
    return status;
  }

 private:
  pid_t pid_;
  core::FileDescriptor pipe_;
  GuardedGroup guard_;
  mutable bool reaped_ = false;
};

/// stdin is /dev/null, signal handlers and mask are the default ones.
/// @param output       descriptor of what becomes its stdout and stderr
/// @param pipe_target  the descriptor, of its own, that the pipe is; stdout too; -1 = it gets none
/// @throws core::Error{kUsage} when the program cannot be started
Child spawn(const ProcessPlan& plan, int output, int pipe_target) {
  const ExecWords words(plan);
  const auto null_input = raised(::open("/dev/null", O_RDONLY | O_CLOEXEC), "/dev/null");
  const auto output_here = raised(::dup(output), "cannot start a recorder");
  Pipe channel = make_pipe();
  Pipe exec_result = make_pipe();
  ::fcntl(channel.read.get(), F_SETFL, O_NONBLOCK);

  const ChildSetup setup{words.arguments.front(),
                         words.arguments.data(),
                         words.environment.data(),
                         plan.cwd.c_str(),
                         null_input.get(),
                         output_here.get(),
                         channel.write.get(),
                         pipe_target,
                         exec_result.write.get(),
                         ::getpid()};
  // Our handler must not run in the child before its signals are the default ones again, nor in the
  // parent before the new group is known to it.
  const core::SignalsBlocked blocked;
  const pid_t pid = ::fork();
  if (pid == 0) become(setup);
  if (pid < 0) throw failed("cannot start a recorder");
  ::setpgid(pid, pid);
  check_started(exec_result, plan, pid);
  return {pid, std::move(channel.read)};
}

/// Reads what there is without waiting. @return false at the end of the channel
template <typename Consumer>
bool drain(int descriptor, Consumer&& consume) {
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got > 0) {
      consume(buffer.data(), static_cast<std::size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    return got < 0 && errno == EAGAIN;
  }
}

struct Ending {
  int status = 0;         ///< as waitpid has it
  bool too_slow = false;  ///< the time was over before it had ended by itself
  pid_t process = 0;      ///< reaped
};

/// Starts a child and waits until it has ended, handing on what comes down its pipe. The end of the
/// pipe alone says nothing: the model may have closed it, or left a child behind that holds it
/// open.
template <typename Consumer, typename Tick>
Ending run_child(const RecorderCall& call,
                 int output,
                 int pipe_target,
                 std::chrono::milliseconds tick,
                 Consumer&& consume,
                 Tick&& on_tick) {
  const Clock::time_point until =
      call.timeout ? Clock::now() + *call.timeout : Clock::time_point::max();
  const Child child = spawn(call, output, pipe_target);
  bool open = true;
  while (!child.has_ended() && Clock::now() < until) {
    pollfd waiting{open ? child.pipe() : -1, POLLIN, 0};
    // Once the pipe is closed the end is near, and nothing will wake us for it.
    const bool is_near = !open && pipe_target >= 0;
    const auto patience = is_near ? std::min(tick, std::chrono::milliseconds(5)) : tick;
    const int ready = ::poll(&waiting, 1, static_cast<int>(patience.count()));
    if (ready > 0) open = drain(child.pipe(), consume);
    on_tick();
  }
  if (open) drain(child.pipe(), consume);
  const int status = child.reap();
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  return {status, killed && Clock::now() >= until, child.pid()};
}

std::string signal_hint(int signal) {
  if (signal == SIGKILL) {
    return "the kernel does this when memory runs out: see `dmesg`; record with dump.level "
           "\"digest\" or a smaller input";
  }
  if (signal == SIGXCPU || signal == SIGXFSZ) return "a resource limit was hit: see `ulimit -a`";
  return "the model, or a library it uses, crashed in native code: run it with this op alone";
}

std::string killed_after(std::chrono::seconds timeout) {
  return "was killed after " + std::to_string(timeout.count()) + " s, its timeout";
}

/// The signal was ours.
void judge_timeout(std::chrono::seconds timeout, RecorderOutcome& outcome) {
  // Of a recording that is complete there is no operator to name.
  if (!outcome.totals) outcome.signal = signal_name(SIGKILL);
  outcome.failure = RecorderFailure{
      core::ErrorKind::kRunFailed,
      killed_after(timeout) + "," + (outcome.totals ? " after the recording was complete" : ""),
      "raise --timeout if the run is slow; if it hangs, \"dump\": {\"depth\": \"all\"} "
      "shows the kernel inside"};
  outcome.totals.reset();
}

void judge_ending(int status, RecorderOutcome& outcome) {
  const auto fail = [&](const std::string& message, const std::string& hint) {
    if (outcome.failure) return;
    outcome.failure = RecorderFailure{core::ErrorKind::kRunFailed, message, hint};
  };
  constexpr const char* kExit = "a library the model uses may have called exit()";
  if (WIFSIGNALED(status)) {
    outcome.signal = signal_name(WTERMSIG(status));
    const std::string when = outcome.totals ? " after the recording was complete" : "";
    fail("was killed by " + outcome.signal + when, signal_hint(WTERMSIG(status)));
  } else if (WEXITSTATUS(status) != 0) {
    fail("the recorder ended with status " + std::to_string(WEXITSTATUS(status)) +
             " and gave no reason",
         kExit);
  } else if (!outcome.totals) {
    fail("the recorder ended without finishing the run", kExit);
  }
  if (outcome.failure) outcome.totals.reset();
}

core::ErrorKind kind_of_exit(int status) {
  if (!WIFEXITED(status)) return core::ErrorKind::kRunFailed;
  switch (static_cast<core::ExitCode>(WEXITSTATUS(status))) {
    case core::ExitCode::kUsage:
      return core::ErrorKind::kUsage;
    case core::ExitCode::kDumpUnusable:
      return core::ErrorKind::kDumpDamaged;
    case core::ExitCode::kNotComparable:
      return core::ErrorKind::kNotComparable;
    default:
      return core::ErrorKind::kRunFailed;
  }
}

/// What a recorder wrote to stderr; a last line that is indented is the hint.
core::Error complaint(const RecorderCall& call, int status, std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.empty()) {
    return {kind_of_exit(status),
            call.program.string() + " failed and gave no reason",
            "check that it is a repro-check-recorder: its argument `version` prints its version"};
  }
  const std::size_t last = text.rfind("\n  ");
  if (last == std::string::npos || text.find('\n', last + 1) != std::string::npos) {
    return {kind_of_exit(status), text};
  }
  return {kind_of_exit(status), text.substr(0, last), text.substr(last + 3)};
}

core::FileDescriptor open_log(const std::filesystem::path& log) {
  // A link, or a file of another user, may lie in wait under a name that is known.
  ::unlink(log.c_str());
  core::FileDescriptor output(::open(log.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (output.get() >= 0) return output;
  throw core::usage_error(log.string() + ": " + std::strerror(errno));
}

void remove_if_empty(const std::filesystem::path& log) {
  std::error_code ignored;
  if (std::filesystem::file_size(log, ignored) == 0 && !ignored) {
    std::filesystem::remove(log, ignored);
  }
}

std::string read_all(int descriptor) {
  std::string text;
  ::lseek(descriptor, 0, SEEK_SET);
  drain(descriptor, [&](const char* data, std::size_t size) { text.append(data, size); });
  return text;
}

}  // namespace

std::string signal_name(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  return abbreviation == nullptr ? "signal " + std::to_string(signal)
                                 : std::string("SIG") + abbreviation;
}

std::string variable_of(const ProcessPlan& program, const std::string& name) {
  if (const auto given = program.environment.find(name); given != program.environment.end()) {
    return given->second.value_or("");
  }
  const char* inherited = std::getenv(name.c_str());
  return inherited == nullptr ? "" : inherited;
}

ExecWords::ExecWords(const ProcessPlan& plan) : texts{plan.program.string()} {
  texts.insert(texts.end(), plan.arguments.begin(), plan.arguments.end());
  const std::size_t count = texts.size();
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!plan.environment.contains(text.substr(0, text.find('=')))) texts.push_back(text);
  }
  for (const auto& [name, value] : plan.environment) {
    if (value) texts.push_back(name + "=" + *value);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    (i < count ? arguments : environment).push_back(texts[i].data());
  }
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
}

void throw_if_interrupted() {
  if (!interrupted()) return;
  throw core::Error(core::ErrorKind::kInterrupted, "interrupted; the recorder was stopped");
}

RecorderOutcome run_recorder(const RecorderCall& call,
                             const std::filesystem::path& log,
                             const std::function<void(const RecorderProgress&)>& on_progress,
                             std::chrono::milliseconds tick) {
  RecorderCall recording = call;
  recording.arguments.insert(recording.arguments.end(),
                             {"--status-fd", std::to_string(kStatusDescriptor)});
  StatusChannel channel(on_progress);
  const core::FileDescriptor output = open_log(log);
  const Ending ending = run_child(
      recording,
      output.get(),
      kStatusDescriptor,
      tick,
      [&](const char* data, std::size_t size) { channel.feed(data, size); },
      [&] { channel.tick(); });

  remove_if_empty(log);
  throw_if_interrupted();
  RecorderOutcome outcome = std::move(channel).take();
  if (ending.too_slow && !outcome.failure) {
    judge_timeout(*call.timeout, outcome);
  } else {
    judge_ending(ending.status, outcome);
  }
  return outcome;
}

LoggedEnd run_logged(const RecorderCall& call,
                     const std::filesystem::path& log,
                     const std::function<void()>& on_tick) {
  constexpr int kNoPipe = -1;
  const core::FileDescriptor output = open_log(log);
  const auto ending = run_child(
      call,
      output.get(),
      kNoPipe,
      std::chrono::milliseconds(20),
      [](const char*, std::size_t) {},
      on_tick);
  remove_if_empty(log);
  LoggedEnd end;
  end.process = ending.process;
  RecorderOutcome& outcome = end.outcome;
  if (ending.too_slow) {
    judge_timeout(*call.timeout, outcome);
  } else if (WIFSIGNALED(ending.status)) {
    judge_ending(ending.status, outcome);
  } else if (const int code = WEXITSTATUS(ending.status); code != 0) {
    outcome.failure = RecorderFailure{core::ErrorKind::kRunFailed,
                                      "the program ended with exit code " + std::to_string(code),
                                      "what it printed is in " + log.string()};
  }
  return end;
}

std::string ask_recorder(const RecorderCall& call, const std::string& about) {
  core::TemporaryFile complaints = core::open_temporary(core::temporary_directory());
  if (complaints.file.get() < 0) {
    throw core::io_error("cannot make a temporary file in " + core::temporary_directory() + ": " +
                             std::strerror(errno),
                         "set TMPDIR to a directory that can be written");
  }
  complaints.name = {};
  std::string answer;
  const Ending ending = run_child(
      call,
      complaints.file.get(),
      STDOUT_FILENO,
      std::chrono::milliseconds(100),
      [&](const char* data, std::size_t size) { answer.append(data, size); },
      [] {});
  throw_if_interrupted();
  const int status = ending.status;
  if (status == 0) return answer;
  if (!WIFSIGNALED(status)) throw complaint(call, status, read_all(complaints.file.get()));

  const std::string who = about.empty() ? call.program.string() : about;
  if (ending.too_slow) {
    throw core::run_failed(who + " " + killed_after(*call.timeout),
                           "raise --timeout if it is slow");
  }
  throw core::run_failed(who + " was killed by " + signal_name(WTERMSIG(status)),
                         signal_hint(WTERMSIG(status)));
}

std::string ask_aloud(const RecorderCall& call) {
  std::string answer;
  static_cast<void>(run_child(
      call,
      STDERR_FILENO,
      STDOUT_FILENO,
      std::chrono::milliseconds(100),
      [&](const char* data, std::size_t size) { answer.append(data, size); },
      [] {}));
  throw_if_interrupted();
  return answer;
}

}  // namespace repro_check::cmd
