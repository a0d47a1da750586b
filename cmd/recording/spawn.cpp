// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/spawn.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/system/signals_blocked.h"

namespace repro_check::cmd {
namespace {

core::Error failed(const std::string& what) {
  return {core::ErrorKind::kUsage, what + ": " + std::strerror(errno)};
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

std::vector<std::string> merged_environment(const ProcessPlan& plan) {
  std::map<std::string, std::string> variables;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : plan.environment) {
    variables.erase(name);
    if (value) variables[name] = *value;
  }
  std::vector<std::string> entries;
  entries.reserve(variables.size());
  for (const auto& [name, value] : variables) {
    entries.push_back(name);
    entries.back().append("=").append(value);
  }
  return entries;
}

std::vector<char*> as_pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// What the child needs after fork, where nothing may allocate or throw.
struct ChildSetup {
  const char* program;
  char* const* arguments;
  char* const* environment;
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
  const bool ready =
      ::dup2(plan.null_input, STDIN_FILENO) >= 0 && ::dup2(plan.output, STDOUT_FILENO) >= 0 &&
      ::dup2(plan.output, STDERR_FILENO) >= 0 && ::dup2(plan.pipe, plan.pipe_target) >= 0;
  if (ready) ::execve(plan.program, plan.arguments, plan.environment);
  const int error = errno;
  // A short write leaves the parent without the reason, but it still sees that exec failed.
  [[maybe_unused]] const ssize_t written = ::write(plan.exec_error, &error, sizeof error);
  ::_exit(127);
}

void check_started(Pipe& exec_result, const std::filesystem::path& program, pid_t pid) {
  exec_result.write.close();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(exec_result.read.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return;
  int status = 0;
  ::waitpid(pid, &status, 0);
  throw core::Error(core::ErrorKind::kUsage,
                    "cannot start " + program.string() + ": " + std::strerror(error),
                    "name a recorder that can be run, in the configuration (\"recorder\") or in "
                    "REPRO_CHECK_RECORDER");
}

}  // namespace

Child spawn(const ProcessPlan& plan, int output, int pipe_target) {
  std::vector<std::string> arguments = plan.arguments;
  arguments.insert(arguments.begin(), plan.program.string());
  std::vector<std::string> environment = merged_environment(plan);
  const std::vector<char*> argument_pointers = as_pointers(arguments);
  const std::vector<char*> environment_pointers = as_pointers(environment);

  const auto null_input = raised(::open("/dev/null", O_RDONLY | O_CLOEXEC), "/dev/null");
  const auto output_here = raised(::dup(output), "cannot start a recorder");
  Pipe channel = make_pipe();
  Pipe exec_result = make_pipe();
  ::fcntl(channel.read.get(), F_SETFL, O_NONBLOCK);

  const ChildSetup setup{arguments.front().c_str(),
                         argument_pointers.data(),
                         environment_pointers.data(),
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
  check_started(exec_result, plan.program, pid);
  return {pid, std::move(channel.read)};
}

Child::Child(pid_t pid, core::FileDescriptor pipe) noexcept
    : pid_(pid), pipe_(std::move(pipe)), guard_(pid) {}

Child::~Child() {
  if (!reaped_) static_cast<void>(reap());
}

bool Child::has_ended() const noexcept {
  siginfo_t info = {};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid_;
}

int Child::reap() const noexcept {
  ::kill(-pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  return status;
}

}  // namespace repro_check::cmd
