// SPDX-License-Identifier: Apache-2.0
#include "cmd/exec/program.h"

#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "core/error.h"
#include "core/system/pinned.h"

namespace repro_check::cmd {
namespace {

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
  throw core::Error(core::ErrorKind::kUsage,
                    "cannot start " + plan.program.string() + ": " + std::strerror(error),
                    "give the program as you would to the shell, behind --");
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

}  // namespace

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

void end_alike(const ProgramEnd& end) {
  if (end.signal == 0) return;
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

}  // namespace repro_check::cmd
