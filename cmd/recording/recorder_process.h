// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"

namespace repro_check::cmd {

/// How a recorder is started and what it says. Its verbs:
///   record REQUEST.json --status-fd N   records one run; speaks JSON lines on descriptor N
///   describe MODEL --method NAME        one JSON object on stdout: what `init` needs
///   replay REQUEST.json                 one JSON object on stdout: see cmd/recorder/replay_verb.h
///   weights MODEL OTHER                 one JSON object on stdout: see cmd/recorder/answers.h
///   environment                         one JSON object on stdout: what the machine is
/// Before any of them --extension LIBRARY, repeatable: loaded first.
/// Lines of the status channel, one object each:
///   {"type":"phase","name":"loading"}                  loading | recording | finishing
///   {"type":"progress","operators":N,"bytes":N}
///   {"type":"done","operators":N,"tensors":N,"bytes":N,"seconds":S,"dump":D}
///                                                      D the digest of the manifest; null for none
///   {"type":"output","name":N,"what":W,"digest":D}     a returned value, if the request asks
///   {"type":"error","kind":K,"message":M,"hint":H}     K as core::error_kind_name has it

/// What one line of the status channel said.
struct RecorderProgress {
  std::string phase;  ///< empty before the first phase line
  std::uint64_t operators = 0;
  std::uint64_t bytes = 0;
};

struct RecorderTotals {
  std::uint64_t operators = 0;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::optional<core::Digest> dump;  ///< of the manifest; none where nothing was recorded
};

/// A tensor or another value inside what the method returned.
struct RecorderOutput {
  std::string name;
  std::string what;    ///< dtype, shape and strides
  std::string digest;  ///< hexadecimal
  bool operator==(const RecorderOutput&) const = default;
};

struct RecorderFailure {
  core::ErrorKind kind = core::ErrorKind::kRunFailed;
  std::string message;
  std::string hint;
};

/// How a recorder ended: exactly one of `totals` and `failure` is set.
struct RecorderOutcome {
  std::optional<RecorderTotals> totals;
  std::optional<RecorderFailure> failure;
  std::vector<RecorderOutput> outputs;  ///< when the request asks for them
  std::string signal;                   ///< `SIGSEGV` when a signal killed it
  std::string last_phase;
  double seconds = 0;
};

struct RecorderLaunch {
  std::filesystem::path recorder;
  std::vector<std::string> arguments;              ///< `--status-fd N` is added
  std::map<std::string, std::string> environment;  ///< set over the inherited one
  std::vector<std::string> unset;                  ///< taken out of the inherited one
  std::filesystem::path log;  ///< stdout and stderr of the process; removed when it stays empty
  std::optional<std::chrono::seconds> timeout = {};  ///< it is killed then, and the run has failed
};

/// Starts a recorder in a process group of its own and waits for it. SIGINT and SIGTERM to this
/// process kill the whole group.
/// @param on_progress  called on every status line, and at least every `tick` while waiting
/// @throws core::Error{kUsage} when it cannot be started, core::Error{kInterrupted}
RecorderOutcome run_recorder(const RecorderLaunch& launch,
                             const std::function<void(const RecorderProgress&)>& on_progress,
                             std::chrono::milliseconds tick = std::chrono::milliseconds(100));

/// A recorder that answers on stdout.
struct RecorderQuestion {
  std::filesystem::path recorder;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment = {};  ///< set over the inherited one
  std::vector<std::string> unset = {};                  ///< taken out of the inherited one
  std::optional<std::chrono::seconds> timeout = {};     ///< it is killed then
  std::string about = {};  ///< what is said to have been killed; empty = the recorder
};

/// Runs it and gives the answer.
/// @throws core::Error of the kind the recorder named; core::Error{kRunFailed} when it died
std::string ask_recorder(const RecorderQuestion& question);

}  // namespace repro_check::cmd
