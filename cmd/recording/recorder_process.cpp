// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/recorder_process.h"

#include <fcntl.h>
#include <poll.h>
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
#include "core/system/temporary_file.h"

namespace repro_check::cmd {
namespace {

using Clock = std::chrono::steady_clock;

/// The descriptor on which a recorder writes its status lines.
constexpr int kStatusDescriptor = 3;

// A status line is short; a recorder gone wild must not fill our memory.
constexpr std::size_t kMaxLine = std::size_t{1} << 20U;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr const char* kRecorderName = "repro-check-recorder";

bool can_run(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

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

  RecorderOutcome take() && {
    outcome_.last_phase = progress_.phase;
    return std::move(outcome_);
  }

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

/// Waits until the child has ended, handing on what comes down its pipe. The end of the pipe alone
/// says nothing: the model may have closed it, or left a child behind that holds it open.
/// @param until  it is killed then
template <typename Consumer, typename Tick>
int wait_for(const Child& child,
             std::chrono::milliseconds tick,
             Clock::time_point until,
             Consumer&& consume,
             Tick&& on_tick) {
  bool open = true;
  while (!child.has_ended() && Clock::now() < until) {
    pollfd waiting{open ? child.pipe() : -1, POLLIN, 0};
    // Once the pipe is closed the end is near, and nothing will wake us for it.
    const auto patience = open ? tick : std::min(tick, std::chrono::milliseconds(5));
    const int ready = ::poll(&waiting, 1, static_cast<int>(patience.count()));
    if (ready > 0) open = drain(child.pipe(), consume);
    on_tick();
  }
  if (open) drain(child.pipe(), consume);
  return child.reap();
}

std::string signal_name(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  return abbreviation == nullptr ? "signal " + std::to_string(signal)
                                 : std::string("SIG") + abbreviation;
}

std::string signal_hint(int signal) {
  if (signal == SIGKILL) {
    return "the kernel does this when memory runs out: see `dmesg`; record with dump.level "
           "\"digest\" or a smaller input";
  }
  if (signal == SIGXCPU || signal == SIGXFSZ) return "a resource limit was hit: see `ulimit -a`";
  return "the model, or a library it uses, crashed in native code: run it with this op alone";
}

Clock::time_point end_of(const std::optional<std::chrono::seconds>& timeout) {
  return timeout ? Clock::now() + *timeout : Clock::time_point::max();
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
      killed_after(timeout) + "," + (outcome.totals ? " when the recording was complete" : ""),
      "raise --timeout if the run is slow; if it hangs, \"dump\": {\"depth\": \"all\"} "
      "shows the kernel inside"};
  outcome.totals.reset();
}

void judge_ending(int status, RecorderOutcome& outcome) {
  if (WIFSIGNALED(status)) {
    outcome.signal = signal_name(WTERMSIG(status));
    const std::string when = outcome.totals ? " after the recording was complete" : "";
    if (!outcome.failure) {
      outcome.failure = RecorderFailure{core::ErrorKind::kRunFailed,
                                        "was killed by " + outcome.signal + when,
                                        signal_hint(WTERMSIG(status))};
    }
  } else if (!outcome.failure && WEXITSTATUS(status) != 0) {
    outcome.failure =
        RecorderFailure{core::ErrorKind::kRunFailed,
                        "the recorder ended with status " + std::to_string(WEXITSTATUS(status)) +
                            " and gave no reason",
                        "a library the model uses may have called exit()"};
  } else if (!outcome.failure && !outcome.totals) {
    outcome.failure = RecorderFailure{core::ErrorKind::kRunFailed,
                                      "the recorder ended without finishing the run",
                                      "a library the model uses may have called exit()"};
  }
  if (outcome.failure) outcome.totals.reset();
}

core::Error interruption() {
  return {core::ErrorKind::kInterrupted, "interrupted; the recorder was stopped"};
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

/// @return whether the time was over before it had ended by itself
bool was_too_slow(int status, Clock::time_point until) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && Clock::now() >= until;
}

/// What a recorder wrote to stderr; a last line that is indented is the hint.
core::Error complaint(const RecorderCall& call, int status, std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.empty()) {
    return {kind_of_exit(status),
            call.program.string() + " failed and gave no reason",
            "see whether it is a repro-check-recorder: it answers to `version`"};
  }
  const std::size_t last = text.rfind("\n  ");
  if (last == std::string::npos || text.find('\n', last + 1) != std::string::npos) {
    return {kind_of_exit(status), text};
  }
  return {kind_of_exit(status), text.substr(0, last), text.substr(last + 3)};
}

std::string read_all(int descriptor) {
  std::string text;
  ::lseek(descriptor, 0, SEEK_SET);
  drain(descriptor, [&](const char* data, std::size_t size) { text.append(data, size); });
  return text;
}

}  // namespace

std::vector<std::filesystem::path> recorder_places() {
  if (const char* named = std::getenv("REPRO_CHECK_RECORDER"); named != nullptr && *named != '\0') {
    return {named};
  }
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path folder = self.parent_path();
  return {folder / kRecorderName, folder.parent_path() / "libexec" / "repro-check" / kRecorderName};
}

std::optional<std::filesystem::path> find_recorder() {
  for (const std::filesystem::path& place : recorder_places()) {
    if (can_run(place)) return place;
  }
  return std::nullopt;
}

std::filesystem::path require_recorder(const std::optional<std::filesystem::path>& named) {
  if (named) {
    if (can_run(*named)) return *named;
    throw core::Error(core::ErrorKind::kUsage,
                      "recorder " + named->string() + " cannot be run",
                      "\"recorder\" names the file of a repro-check-recorder");
  }
  if (const auto found = find_recorder()) return *found;
  std::string looked;
  for (const std::filesystem::path& place : recorder_places()) {
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  throw core::Error(core::ErrorKind::kUsage,
                    "there is no recorder, so nothing can be recorded (looked for " + looked + ")",
                    "install the package repro-check-recorder, or build with "
                    "-DREPRO_CHECK_WITH_TORCH=ON, or point REPRO_CHECK_RECORDER at a "
                    "repro-check-recorder; diff, inspect and validate work without");
}

RecorderOutcome run_recorder(const RecorderCall& call,
                             const std::filesystem::path& log,
                             const std::function<void(const RecorderProgress&)>& on_progress,
                             std::chrono::milliseconds tick) {
  RecorderCall recording = call;
  recording.arguments.insert(recording.arguments.end(),
                             {"--status-fd", std::to_string(kStatusDescriptor)});
  const Clock::time_point start = Clock::now();
  const Clock::time_point until = end_of(call.timeout);
  StatusChannel channel(on_progress);
  core::FileDescriptor output(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (output.get() < 0) {
    throw core::Error(core::ErrorKind::kUsage, log.string() + ": " + std::strerror(errno));
  }
  const Child child = spawn(recording, output.get(), kStatusDescriptor);
  output.close();
  const int status = wait_for(
      child,
      tick,
      until,
      [&](const char* data, std::size_t size) { channel.feed(data, size); },
      [&] { channel.tick(); });

  std::error_code ignored;
  if (std::filesystem::file_size(log, ignored) == 0 && !ignored) {
    std::filesystem::remove(log, ignored);
  }
  if (interrupted()) throw interruption();
  RecorderOutcome outcome = std::move(channel).take();
  outcome.seconds = seconds_since(start);
  if (was_too_slow(status, until) && !outcome.failure) {
    judge_timeout(*call.timeout, outcome);
  } else {
    judge_ending(status, outcome);
  }
  return outcome;
}

std::string ask_recorder(const RecorderCall& call, const std::string& about) {
  const core::OpenedTemporary complaints = core::open_temporary(core::temporary_directory());
  if (complaints.file.get() < 0) {
    throw core::Error(core::ErrorKind::kIo,
                      "cannot make a temporary file in " + core::temporary_directory() + ": " +
                          std::strerror(errno),
                      "point TMPDIR at a directory that can be written");
  }
  if (!complaints.name.empty()) ::unlink(complaints.name.c_str());
  std::string answer;
  const Clock::time_point until = end_of(call.timeout);
  const Child child = spawn(call, complaints.file.get(), STDOUT_FILENO);
  const int status = wait_for(
      child,
      std::chrono::milliseconds(100),
      until,
      [&](const char* data, std::size_t size) { answer.append(data, size); },
      [] {});
  if (interrupted()) throw interruption();
  if (status == 0) return answer;
  if (!WIFSIGNALED(status)) throw complaint(call, status, read_all(complaints.file.get()));

  const std::string who = about.empty() ? call.program.string() : about;
  if (was_too_slow(status, until)) {
    throw core::Error(core::ErrorKind::kRunFailed,
                      who + " " + killed_after(*call.timeout),
                      "raise --timeout if it is slow");
  }
  throw core::Error(core::ErrorKind::kRunFailed,
                    who + " was killed by " + signal_name(WTERMSIG(status)),
                    signal_hint(WTERMSIG(status)));
}

}  // namespace repro_check::cmd
