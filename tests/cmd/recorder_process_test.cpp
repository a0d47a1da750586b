// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/recorder_process.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "cmd/recording/kit.h"
#include "tests/cmd/scripts.h"

namespace repro_check::cmd {
namespace {

struct Seen {
  RecorderOutcome outcome;
  std::vector<std::string> phases;
  RecorderProgress last;
};

Seen run_script(const TempDirectory& folder,
                const std::string& body,
                std::optional<std::chrono::seconds> timeout = {}) {
  const RecorderCall call{{write_script(folder, "recorder", body), {"record", "request.json"}},
                          timeout};
  Seen seen;
  seen.outcome = run_recorder(
      call,
      folder.path() / "run.log",
      [&](const RecorderProgress& progress) {
        if (!progress.phase.empty() &&
            (seen.phases.empty() || seen.phases.back() != progress.phase)) {
          seen.phases.push_back(progress.phase);
        }
        seen.last = progress;
      },
      std::chrono::milliseconds(10));
  return seen;
}

constexpr const char* kGoodRun =
    "echo '{\"type\":\"phase\",\"name\":\"loading\"}' >&3\n"
    "echo '{\"type\":\"phase\",\"name\":\"recording\"}' >&3\n"
    "echo '{\"type\":\"progress\",\"operators\":312,\"bytes\":1100}' >&3\n"
    "echo '{\"type\":\"done\",\"operators\":491,\"tensors\":1204,\"bytes\":1500,\"seconds\":4.5}' "
    ">&3\n";

}  // namespace

TEST_CASE("a recorder that succeeds gives its totals, and an empty log is removed") {
  const TempDirectory folder;
  const Seen seen = run_script(folder, kGoodRun);
  REQUIRE(seen.outcome.totals);
  CHECK_FALSE(seen.outcome.failure);
  CHECK(seen.outcome.totals->operators == 491);
  CHECK(seen.outcome.totals->tensors == 1204);
  CHECK(seen.outcome.totals->bytes == 1500);
  CHECK(seen.outcome.totals->seconds == 4.5);
  CHECK(seen.phases == std::vector<std::string>{"loading", "recording"});
  CHECK(seen.last.operators == 312);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "run.log"));
}

TEST_CASE("a recorder that hangs is killed when its time is over, as is what it started") {
  const TempDirectory folder;
  const auto start = std::chrono::steady_clock::now();
  const Seen seen = run_script(folder,
                               "echo '{\"type\":\"phase\",\"name\":\"recording\"}' >&3\n"
                               "sleep 600 & sleep 600\n",
                               std::chrono::seconds(1));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
  REQUIRE(seen.outcome.failure);
  CHECK(seen.outcome.failure->kind == core::ErrorKind::kRunFailed);
  CHECK(seen.outcome.failure->message == "was killed after 1 s, its timeout,");
  CHECK(seen.outcome.signal == "SIGKILL");
  CHECK(seen.last.phase == "recording");
}

TEST_CASE("a recorder that hangs when all is recorded has failed, and no operator is to blame") {
  const TempDirectory folder;
  const Seen seen =
      run_script(folder, std::string(kGoodRun) + "sleep 600\n", std::chrono::seconds(1));
  REQUIRE(seen.outcome.failure);
  CHECK(seen.outcome.failure->message ==
        "was killed after 1 s, its timeout, after the recording was complete");
  CHECK(seen.outcome.signal.empty());
  CHECK_FALSE(seen.outcome.totals);
}

TEST_CASE("a recorder that is in time is not touched") {
  const TempDirectory folder;
  CHECK(run_script(folder, kGoodRun, std::chrono::seconds(600)).outcome.totals);
}

TEST_CASE("what a run returned is kept in order, and a line without all of it is passed over") {
  const TempDirectory folder;
  const Seen seen = run_script(
      folder,
      std::string(
          "echo '{\"type\":\"output\",\"name\":\"0.1\",\"what\":\"Float [2]\",\"digest\":\"ab\"}' "
          ">&3\n"
          "echo '{\"type\":\"output\",\"name\":\"0.2\"}' >&3\n"
          "echo '{\"type\":\"output\",\"name\":\"0.0\",\"what\":\"Int\",\"digest\":\"\"}' "
          ">&3\n") +
          kGoodRun);
  CHECK(seen.outcome.outputs ==
        std::vector<RecorderOutput>{{"0.1", "Float [2]", "ab"}, {"0.0", "Int", ""}});
}

TEST_CASE("what a recorder prints goes to its log and nowhere else") {
  const TempDirectory folder;
  const Seen seen = run_script(folder, std::string("echo out; echo err >&2\n") + kGoodRun);
  CHECK(seen.outcome.totals);
  CHECK(read_file(folder.path() / "run.log") == "out\nerr\n");
}

TEST_CASE("arguments end in the status descriptor, stdin is empty, signals are the default ones") {
  const TempDirectory folder;
  run_script(folder,
             "echo \"$@\"; cat; grep SigIgn /proc/self/status; grep SigBlk /proc/self/status\n");
  CHECK(read_file(folder.path() / "run.log") ==
        "record request.json --status-fd 3\n"
        "SigIgn:\t0000000000000000\nSigBlk:\t0000000000000000\n");
}

TEST_CASE("an error line is the outcome, with kind and hint") {
  const TempDirectory folder;
  const Seen seen = run_script(
      folder,
      "echo '{\"type\":\"error\",\"kind\":\"usage\",\"message\":\"no model\",\"hint\":\"name "
      "one\"}' >&3\nexit 2\n");
  REQUIRE(seen.outcome.failure);
  CHECK_FALSE(seen.outcome.totals);
  CHECK(seen.outcome.failure->kind == core::ErrorKind::kUsage);
  CHECK(seen.outcome.failure->message == "no model");
  CHECK(seen.outcome.failure->hint == "name one");
}

TEST_CASE("an error line outweighs a done line") {
  const TempDirectory folder;
  const Seen seen =
      run_script(folder,
                 std::string(kGoodRun) +
                     "echo '{\"type\":\"error\",\"kind\":\"io\",\"message\":\"disk full\"}' >&3\n");
  REQUIRE(seen.outcome.failure);
  CHECK_FALSE(seen.outcome.totals);
  CHECK(seen.outcome.failure->kind == core::ErrorKind::kIo);
}

TEST_CASE("death by a signal names it") {
  const TempDirectory folder;
  const Seen seen = run_script(folder, "kill -SEGV $$\n");
  REQUIRE(seen.outcome.failure);
  CHECK(seen.outcome.signal == "SIGSEGV");
  CHECK(seen.outcome.failure->message == "was killed by SIGSEGV");
  CHECK(seen.outcome.failure->kind == core::ErrorKind::kRunFailed);

  const Seen killed = run_script(folder, std::string(kGoodRun) + "kill -KILL $$\n");
  REQUIRE(killed.outcome.failure);
  CHECK(killed.outcome.failure->message ==
        "was killed by SIGKILL after the recording was complete");
  CHECK(killed.outcome.failure->hint.find("memory") != std::string::npos);
}

TEST_CASE("an exit without a word is a failure, whatever the status") {
  const TempDirectory folder;
  const Seen quiet = run_script(folder, "exit 0\n");
  REQUIRE(quiet.outcome.failure);
  CHECK(quiet.outcome.failure->message == "the recorder ended without finishing the run");
  const Seen loud = run_script(folder, "exit 7\n");
  REQUIRE(loud.outcome.failure);
  CHECK(loud.outcome.failure->message == "the recorder ended with status 7 and gave no reason");
  const Seen late = run_script(folder, std::string(kGoodRun) + "exit 1\n");
  CHECK(late.outcome.failure);
  CHECK_FALSE(late.outcome.totals);
}

TEST_CASE("lines that make no sense are passed over") {
  const TempDirectory folder;
  const Seen seen =
      run_script(folder,
                 std::string("echo 'not json' >&3; echo '[1]' >&3\n"
                             "echo '{\"type\":7}' >&3\n"
                             "echo '{\"type\":\"progress\",\"operators\":\"x\"}' >&3\n"
                             "echo '{\"type\":\"news\"}' >&3\n") +
                     kGoodRun);
  CHECK(seen.outcome.totals);
}

TEST_CASE("a last line without its newline was cut off and does not count") {
  const TempDirectory folder;
  const Seen seen = run_script(folder, "printf '{\"type\":\"done\",\"operators\":1}' >&3\n");
  CHECK(seen.outcome.failure);
}

TEST_CASE("a process left behind holds nothing up and is killed") {
  const TempDirectory folder;
  const auto start = std::chrono::steady_clock::now();
  const Seen seen = run_script(folder, std::string("sleep 60 & echo $!\n") + kGoodRun);
  CHECK(seen.outcome.totals);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  const pid_t left = static_cast<pid_t>(std::stol(read_file(folder.path() / "run.log")));
  // It is reaped by init, so the number may live on for a moment as a zombie.
  bool gone = false;
  for (int i = 0; i < 200 && !gone; ++i) {
    const std::string status = read_file("/proc/" + std::to_string(left) + "/status");
    gone = status.empty() || status.find("State:\tZ") != std::string::npos;
    if (!gone) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(gone);
}

TEST_CASE("variables are set over the inherited ones, and taken away") {
  const TempDirectory folder;
  ::setenv("REPRO_CHECK_TEST_KEPT", "kept", 1);
  ::setenv("REPRO_CHECK_TEST_GONE", "gone", 1);
  RecorderCall call;
  call.program = write_script(
      folder,
      "recorder",
      "echo \"$REPRO_CHECK_TEST_KEPT|${REPRO_CHECK_TEST_GONE-unset}|$REPRO_CHECK_TEST_NEW\"\n");
  call.environment = {{"REPRO_CHECK_TEST_NEW", "a b=c"}, {"REPRO_CHECK_TEST_GONE", std::nullopt}};
  run_recorder(call, folder.path() / "run.log", {});
  CHECK(read_file(folder.path() / "run.log") == "kept|unset|a b=c\n");
}

TEST_CASE("a program that cannot be started is a usage error") {
  const TempDirectory folder;
  RecorderCall call;
  call.program = folder.path() / "missing";
  try {
    run_recorder(call, folder.path() / "run.log", {});
    FAIL("nothing was thrown");
  } catch (const core::Error& error) {
    CHECK(error.kind() == core::ErrorKind::kUsage);
    CHECK(std::string(error.what()).find("missing: No such file") != std::string::npos);
    CHECK_FALSE(error.hint().empty());
  }
}

TEST_CASE("ask_recorder gives stdout, and a failure with what stderr said") {
  const TempDirectory folder;
  const auto good = write_script(folder, "good", "echo noise >&2; echo \"{}$1\"\n");
  CHECK(ask_recorder({{good, {"describe"}}}) == "{}describe\n");

  const auto bad = write_script(folder, "bad", "echo 'no such method' >&2; exit 2\n");
  try {
    ask_recorder({{bad, {"describe"}}});
    FAIL("nothing was thrown");
  } catch (const core::Error& error) {
    CHECK(error.kind() == core::ErrorKind::kUsage);
    CHECK(std::string(error.what()) == "no such method");
  }
  const auto crash = write_script(folder, "crash", "kill -ABRT $$\n");
  CHECK_THROWS_WITH_AS(
      ask_recorder({{crash, {}}}), doctest::Contains("was killed by SIGABRT"), core::Error);
}

TEST_CASE("a recorder that is named must be there; the hint says what to do") {
  const TempDirectory folder;
  CHECK_THROWS_AS(require_recorder(folder.path() / "none"), core::Error);
  const auto good = write_script(folder, "good", "exit 0\n");
  CHECK(require_recorder(good) == good);
  ::setenv("REPRO_CHECK_RECORDER", (folder.path() / "nowhere").c_str(), 1);
  try {
    require_recorder(std::nullopt);
    FAIL("nothing was thrown");
  } catch (const core::Error& error) {
    CHECK(error.kind() == core::ErrorKind::kUsage);
    CHECK(std::string(error.what()).find("nowhere") != std::string::npos);
    CHECK(error.hint().find("REPRO_CHECK_WITH_TORCH") != std::string::npos);
  }
  ::setenv("REPRO_CHECK_RECORDER", good.c_str(), 1);
  CHECK(require_recorder(std::nullopt) == good);
  ::unsetenv("REPRO_CHECK_RECORDER");
}

}  // namespace repro_check::cmd
