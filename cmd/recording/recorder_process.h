// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cmd/recording/recorder_messages.h"

namespace repro_check::cmd {

/// How a recorder is started. Its verbs:
///   record REQUEST.json --status-fd N   records one run; speaks as recorder_messages.h says on N
///   describe MODEL --method NAME        one JSON object on stdout: what `init` needs
///   replay REQUEST.json                 one JSON object on stdout: see cmd/recorder/replay_verb.h
///   weights MODEL OTHER                 one JSON object on stdout: see cmd/recorder/verbs.h
///   environment                         one JSON object on stdout: what the machine is
/// Before any of them --extension LIBRARY, repeatable: loaded first.

/// How far a recorder has come.
struct RecorderProgress {
  std::string phase;  ///< empty before the first phase line
  std::uint64_t operators = 0;
  std::uint64_t bytes = 0;
};

/// How a recorder ended: exactly one of `totals` and `failure` is set.
struct RecorderOutcome {
  std::optional<RecorderTotals> totals;
  std::optional<RecorderFailure> failure;
  std::vector<RecorderOutput> outputs;  ///< when the request asks for them
  std::string signal;                   ///< `SIGSEGV` when a signal killed it
};

/// A program with what it is to be told.
struct ProcessPlan {
  std::filesystem::path program;
  std::vector<std::string> arguments;  ///< without the program's own name
  /// Set over the inherited one; empty = taken out of it.
  std::map<std::string, std::optional<std::string>> environment = {};
  std::filesystem::path cwd = {};  ///< where it is started; empty = here
  std::string mend = {};           ///< said when it cannot be started
};

/// What the program's environment will have of this name; empty where that is nothing.
std::string variable_of(const ProcessPlan& program, const std::string& name);

/// `plan` as execve takes it.
struct ExecWords {
  explicit ExecWords(const ProcessPlan& plan);

  std::vector<std::string> texts;
  std::vector<char*> arguments;  ///< up to a null
  std::vector<char*> environment;
};

/// A recorder with what it is to be told.
struct RecorderCall : ProcessPlan {
  std::optional<std::chrono::seconds> timeout = {};  ///< it is killed then
};

/// Starts a recorder in a process group of its own and waits for it. SIGINT and SIGTERM to this
/// process kill the whole group.
/// @param call         `--status-fd N` is added
/// @param log          stdout and stderr of the process; removed when it stays empty
/// @param on_progress  called on every status line, and at least every `tick` while waiting
/// @throws core::Error{kUsage} when it cannot be started, core::Error{kInterrupted}
RecorderOutcome run_recorder(const RecorderCall& call,
                             const std::filesystem::path& log,
                             const std::function<void(const RecorderProgress&)>& on_progress,
                             std::chrono::milliseconds tick = std::chrono::milliseconds(100));

/// `SIGSEGV`
std::string signal_name(int signal);

/// How a program ended that does not speak to us.
struct LoggedEnd {
  RecorderOutcome outcome;  ///< without totals: a failure, or nothing where it ended with 0
  pid_t process = 0;
};

/// As run_recorder(), of such a program, looked for in PATH.
/// @param on_tick  called every now and then
/// @throws core::Error{kUsage} when it cannot be started; not when it was interrupted
LoggedEnd run_logged(const RecorderCall& call,
                     const std::filesystem::path& log,
                     const std::function<void()>& on_tick);

/// @throws core::Error{kInterrupted} when a signal has asked this process to end
void throw_if_interrupted();

/// Runs a recorder that answers on stdout, and gives the answer.
/// @param about  what is said to have been killed; empty = the recorder
/// @throws core::Error of the kind the recorder named; core::Error{kRunFailed} when it died
std::string ask_recorder(const RecorderCall& call, const std::string& about = {});

/// As above, of any program, which may say more on our stderr. An answer is what it gave even where
/// it did not end well.
/// @throws core::Error{kUsage} when it cannot be started, core::Error{kInterrupted}
std::string ask_aloud(const RecorderCall& call);

}  // namespace repro_check::cmd
