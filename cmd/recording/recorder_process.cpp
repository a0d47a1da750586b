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
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "cmd/recording/spawn.h"
#include "cmd/terminal/signals.h"

namespace repro_check::cmd {
namespace {

using Clock = std::chrono::steady_clock;

// A status line is short; a recorder gone wild must not fill our memory.
constexpr std::size_t kMaxLine = std::size_t{1} << 20U;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::optional<core::Digest> digest_of(const nlohmann::json& done) {
  const auto dump = done.find("dump");
  if (dump == done.end() || !dump->is_string()) return std::nullopt;
  return core::parse_digest(dump->get<std::string>());
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
    RecorderOutcome outcome;
    outcome.totals = totals_;
    outcome.failure = std::move(failure_);
    outcome.outputs = std::move(outputs_);
    outcome.last_phase = progress_.phase;
    return outcome;
  }

 private:
  // Lines nobody understands are passed over: a newer recorder may say more than we know.
  void handle(const std::string& line) {
    const nlohmann::json message = nlohmann::json::parse(line, nullptr, false);
    if (!message.is_object()) return;
    try {
      apply(message);
    } catch (const nlohmann::json::exception&) {
      return;
    }
    tick();
  }

  void apply(const nlohmann::json& message) {
    const std::string type = message.value("type", "");
    if (type == "phase") {
      progress_.phase = message.value("name", "");
    } else if (type == "progress") {
      progress_.operators = message.value("operators", std::uint64_t{0});
      progress_.bytes = message.value("bytes", std::uint64_t{0});
    } else if (type == "done") {
      totals_ = RecorderTotals{message.value("operators", std::uint64_t{0}),
                               message.value("tensors", std::uint64_t{0}),
                               message.value("bytes", std::uint64_t{0}),
                               message.value("seconds", 0.0),
                               digest_of(message)};
    } else if (type == "output") {
      outputs_.push_back({message.at("name").get<std::string>(),
                          message.at("what").get<std::string>(),
                          message.at("digest").get<std::string>()});
    } else if (type == "error") {
      failure_ = RecorderFailure{core::parse_error_kind(message.value("kind", "")),
                                 message.value("message", "the recorder gave no reason"),
                                 message.value("hint", "")};
    }
  }

  const std::function<void(const RecorderProgress&)>& on_progress_;
  std::string pending_;
  RecorderProgress progress_;
  std::optional<RecorderTotals> totals_;
  std::optional<RecorderFailure> failure_;
  std::vector<RecorderOutput> outputs_;
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

}  // namespace

RecorderOutcome run_recorder(const RecorderLaunch& launch,
                             const std::function<void(const RecorderProgress&)>& on_progress,
                             std::chrono::milliseconds tick) {
  SpawnRequest request;
  request.program = launch.recorder;
  request.arguments = launch.arguments;
  request.arguments.insert(request.arguments.end(),
                           {"--status-fd", std::to_string(kStatusDescriptor)});
  request.environment = launch.environment;
  request.unset = launch.unset;
  request.output = launch.log;

  const Clock::time_point start = Clock::now();
  const Clock::time_point until = end_of(launch.timeout);
  StatusChannel channel(on_progress);
  Child child = spawn(request);
  const int status = wait_for(
      child,
      tick,
      until,
      [&](const char* data, std::size_t size) { channel.feed(data, size); },
      [&] { channel.tick(); });

  std::error_code ignored;
  if (std::filesystem::file_size(launch.log, ignored) == 0 && !ignored) {
    std::filesystem::remove(launch.log, ignored);
  }
  if (interrupted()) throw interruption();
  RecorderOutcome outcome = std::move(channel).take();
  outcome.seconds = seconds_since(start);
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (killed && Clock::now() >= until && !outcome.failure) {
    judge_timeout(*launch.timeout, outcome);
  } else {
    judge_ending(status, outcome);
  }
  return outcome;
}

std::string ask_recorder(const RecorderQuestion& question) {
  const TemporaryFile complaints("repro-check-recorder");
  SpawnRequest request;
  request.program = question.recorder;
  request.arguments = question.arguments;
  request.environment = question.environment;
  request.unset = question.unset;
  request.output = complaints.path();
  request.answer_on_stdout = true;

  std::string answer;
  const Clock::time_point until = end_of(question.timeout);
  Child child = spawn(request);
  const int status = wait_for(
      child,
      std::chrono::milliseconds(100),
      until,
      [&](const char* data, std::size_t size) { answer.append(data, size); },
      [] {});
  if (interrupted()) throw interruption();
  if (status == 0) return answer;

  if (WIFSIGNALED(status)) {
    const std::string who = question.about.empty() ? question.recorder.string() : question.about;
    if (WTERMSIG(status) == SIGKILL && Clock::now() >= until) {
      throw core::Error(core::ErrorKind::kRunFailed,
                        who + " " + killed_after(*question.timeout),
                        "raise --timeout if it is slow");
    }
    throw core::Error(core::ErrorKind::kRunFailed,
                      who + " was killed by " + signal_name(WTERMSIG(status)),
                      signal_hint(WTERMSIG(status)));
  }
  std::ifstream file(complaints.path());
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.empty()) {
    throw core::Error(kind_of_exit(status),
                      question.recorder.string() + " failed and gave no reason",
                      "see whether it is a repro-check-recorder: it answers to `version`");
  }
  // A last line that is indented is the hint.
  std::string hint;
  if (const std::size_t last = text.rfind("\n  "); last != std::string::npos) {
    if (text.find('\n', last + 1) == std::string::npos) {
      hint = text.substr(last + 3);
      text.resize(last);
    }
  }
  throw core::Error(kind_of_exit(status), text, hint);
}

}  // namespace repro_check::cmd
