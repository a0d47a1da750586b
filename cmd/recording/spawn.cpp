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
#include <fstream>

#include "core/error.h"

namespace repro_check::cmd {
namespace {

/// Owns one descriptor, at 10 or above so that it is never in the way of 0 to 3 in the child.
class Descriptor {
 public:
  Descriptor(int raw, const std::string& what) {
    if (raw < 0) fail(what);
    value_ = ::fcntl(raw, F_DUPFD_CLOEXEC, 10);
    const int error = errno;
    ::close(raw);
    errno = error;
    if (value_ < 0) fail(what);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }

  [[nodiscard]] int get() const noexcept { return value_; }
  void close() noexcept {
    if (value_ >= 0) ::close(value_);
    value_ = -1;
  }
  [[nodiscard]] int release() noexcept {
    const int value = value_;
    value_ = -1;
    return value;
  }

 private:
  [[noreturn]] static void fail(const std::string& what) {
    throw core::Error(core::ErrorKind::kUsage, what + ": " + std::strerror(errno));
  }
  int value_ = -1;
};

struct Pipe {
  std::array<int, 2> raw;
  Descriptor read;
  Descriptor write;
  Pipe() : Pipe(open()) {}

 private:
  explicit Pipe(std::array<int, 2> ends)
      : raw(ends), read(raw[0], "cannot make a pipe"), write(raw[1], "cannot make a pipe") {}
  static std::array<int, 2> open() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) ends = {-1, -1};
    return ends;
  }
};

std::vector<std::string> merged_environment(const SpawnRequest& request) {
  std::map<std::string, std::string> variables;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const std::string& name : request.unset) variables.erase(name);
  for (const auto& [name, value] : request.environment) variables[name] = value;

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
struct ChildPlan {
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

[[noreturn]] void become(const ChildPlan& plan) noexcept {
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

Child spawn(const SpawnRequest& request) {
  std::vector<std::string> arguments = request.arguments;
  arguments.insert(arguments.begin(), request.program.string());
  std::vector<std::string> environment = merged_environment(request);
  const std::vector<char*> argument_pointers = as_pointers(arguments);
  const std::vector<char*> environment_pointers = as_pointers(environment);

  const Descriptor null_input(::open("/dev/null", O_RDONLY | O_CLOEXEC), "/dev/null");
  const Descriptor output(
      ::open(request.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644),
      request.output.string());
  Pipe channel;
  Pipe exec_result;
  ::fcntl(channel.read.get(), F_SETFL, O_NONBLOCK);

  const ChildPlan plan{arguments.front().c_str(),
                       argument_pointers.data(),
                       environment_pointers.data(),
                       null_input.get(),
                       output.get(),
                       channel.write.get(),
                       request.answer_on_stdout ? STDOUT_FILENO : kStatusDescriptor,
                       exec_result.write.get(),
                       ::getpid()};
  // Our handler must not run in the child before its signals are the default ones again, nor in the
  // parent before the new group is known to it.
  const BlockedSignals blocked;
  const pid_t pid = ::fork();
  if (pid == 0) become(plan);
  if (pid < 0) {
    throw core::Error(core::ErrorKind::kUsage,
                      std::string("cannot start a recorder: ") + std::strerror(errno));
  }
  ::setpgid(pid, pid);
  check_started(exec_result, request.program, pid);
  return {pid, channel.read.release()};
}

Child::Child(pid_t pid, int pipe) noexcept : pid_(pid), pipe_(pipe), guard_(pid) {}

Child::~Child() {
  if (!reaped_) {
    ::kill(-pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
  }
  ::close(pipe_);
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

TemporaryFile::TemporaryFile(const std::string& prefix) {
  std::error_code error;
  std::filesystem::path directory = std::filesystem::temp_directory_path(error);
  if (error) directory = "/tmp";
  std::string pattern = (directory / (prefix + "-XXXXXX")).string();
  const BlockedSignals blocked;
  const int descriptor = ::mkstemp(pattern.data());
  if (descriptor < 0) {
    throw core::Error(
        core::ErrorKind::kIo,
        "cannot make a temporary file in " + directory.string() + ": " + std::strerror(errno),
        "point TMPDIR at a directory that can be written");
  }
  ::close(descriptor);
  guard_.emplace(pattern);
  path_ = pattern;
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void TemporaryFile::write(const std::string& text) const {
  std::ofstream file(path_, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw core::Error(core::ErrorKind::kIo, "cannot write " + path_.string());
}

}  // namespace repro_check::cmd
