// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "configs/parser/config_parser.h"
#include "core/error.h"
#include "dumpers/store/dump_reader.h"
#include "fixtures.h"
#include "tests/support/files.h"

namespace repro_check {
namespace {

using nlohmann::json;
using test::contains;
using test::make_module;
using test_support::read_file;
using test_support::TempDirectory;

struct Outcome {
  int exit_code = -1;
  int signal = 0;
  std::vector<json> lines;  ///< of the status channel
  std::string out;
  std::string err;

  [[nodiscard]] json last(const std::string& type) const {
    json found;
    for (const json& line : lines) {
      if (line.at("type") == type) found = line;
    }
    return found;
  }
};

/// Runs the recorder with its status channel on descriptor 3.
/// @param meanwhile  called with the process id while it runs
Outcome run_recorder(const TempDirectory& dir,
                     std::vector<std::string> arguments,
                     const std::function<void(pid_t)>& meanwhile = {}) {
  arguments.insert(arguments.begin(), REPRO_CHECK_RECORDER);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const std::vector<std::string> names = {
      (dir / "out").string(), (dir / "err").string(), (dir / "status").string()};
  for (int i = 0; i < 3; ++i) {
    posix_spawn_file_actions_addopen(&files,
                                     i + 1,
                                     names[static_cast<std::size_t>(i)].c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_APPEND,
                                     0600);
  }
  pid_t pid = 0;
  DOCTEST_REQUIRE(posix_spawn(&pid, argv[0], &files, nullptr, argv.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&files);
  if (meanwhile) meanwhile(pid);
  int status = 0;
  waitpid(pid, &status, 0);

  Outcome outcome;
  outcome.out = read_file(names[0]);
  outcome.err = read_file(names[1]);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  std::ifstream lines(names[2]);
  for (std::string line; std::getline(lines, line);) outcome.lines.push_back(json::parse(line));
  return outcome;
}

Outcome record(const TempDirectory& dir,
               const configs::RunSpec& run,
               const std::function<void(pid_t)>& meanwhile = {},
               configs::RecordRequest request = {}) {
  request.run = run;
  request.dump = dir / "dump";
  test_support::write_file(dir / "request.json", configs::to_json_text(request));
  return run_recorder(
      dir, {"record", (dir / "request.json").string(), "--status-fd", "3"}, meanwhile);
}

configs::RunSpec run_with_model(const TempDirectory& dir, const std::string& code) {
  make_module("Net", {}, code).save((dir / "m.pt").string());
  configs::RunSpec run = test::run_of(dir / "m.pt");
  run.calls[0].push_back(test::generated({2, 4}));
  return run;
}

core::Error refusal(const std::filesystem::path& dump) {
  try {
    store::open_dump(dump);
  } catch (const core::Error& error) {
    return error;
  }
  throw std::runtime_error("the dump was opened");
}

DOCTEST_TEST_CASE("a variable is found as the user's shell had it") {
  const TempDirectory dir;
  configs::RecordRequest request;
  request.found_environment = {{"PYTHONHASHSEED", "17"}, {"MKL_DYNAMIC", std::nullopt}};
  const Outcome outcome = record(dir,
                                 run_with_model(dir,
                                                "def forward(self, x: Tensor) -> Tensor:\n"
                                                "  return torch.neg(x)\n"),
                                 {},
                                 request);
  DOCTEST_CHECK_MESSAGE(outcome.exit_code == 0, outcome.err);
  const auto dump = store::open_dump(dir / "dump");
  const auto setting = [&](const char* name) {
    const auto& all = dump->manifest().settings;
    return *std::ranges::find(all, name, &core::Setting::name);
  };
  DOCTEST_CHECK(setting("env.PYTHONHASHSEED").found == "17");
  DOCTEST_CHECK(setting("env.MKL_DYNAMIC").found == "unset");
}

DOCTEST_TEST_CASE("a run that succeeds leaves a whole dump and says so") {
  const TempDirectory dir;
  const Outcome outcome = record(dir,
                                 run_with_model(dir,
                                                "def forward(self, x: Tensor) -> Tensor:\n"
                                                "  print(\"hello\")\n"
                                                "  return torch.add(torch.neg(x), 1)\n"));
  DOCTEST_CHECK_MESSAGE(outcome.exit_code == 0, outcome.err);
  DOCTEST_CHECK(outcome.out == "hello\n");
  std::vector<std::string> phases;
  for (const json& line : outcome.lines) {
    if (line.at("type") == "phase") phases.push_back(line.at("name"));
  }
  DOCTEST_CHECK(phases == std::vector<std::string>{"loading", "recording", "finishing"});
  DOCTEST_CHECK(outcome.last("done").at("operators") == 2);
  const auto dump = store::open_dump(dir / "dump");
  DOCTEST_CHECK(dump->op_count() == 3);
  DOCTEST_CHECK(dump->op(0).op->name == "aten::neg");
  DOCTEST_CHECK(core::is_returned(dump->op(2)));
  DOCTEST_CHECK(dump->manifest().trace.operator_calls() == 2);
}

DOCTEST_TEST_CASE("what the configuration got wrong ends in 2 and leaves nothing") {
  const TempDirectory dir;
  configs::RunSpec run =
      run_with_model(dir, "def forward(self, x: Tensor) -> Tensor:\n  return x\n");
  run.calls[0].clear();
  Outcome outcome = record(dir, run);
  DOCTEST_CHECK(outcome.exit_code == 2);
  DOCTEST_CHECK(outcome.last("error").at("kind") == "usage");
  DOCTEST_CHECK(contains(outcome.last("error").at("message"), "no input for argument \"x\""));
  DOCTEST_CHECK_FALSE(std::filesystem::exists(dir / "dump"));

  std::filesystem::remove(dir / "m.pt");
  outcome = record(dir, run);
  DOCTEST_CHECK(outcome.exit_code == 2);
  DOCTEST_CHECK(contains(outcome.last("error").at("message"), "m.pt"));

  outcome = run_recorder(dir, {"record", (dir / "no.json").string(), "--status-fd", "3"});
  DOCTEST_CHECK(outcome.exit_code == 2);
  DOCTEST_CHECK(run_recorder(dir, {"recrod"}).exit_code == 2);
}

DOCTEST_TEST_CASE("an exception in the middle ends in 5 and the dump says why") {
  const TempDirectory dir;
  const Outcome outcome = record(dir,
                                 run_with_model(dir,
                                                "def forward(self, x: Tensor) -> Tensor:\n"
                                                "  y = torch.neg(x)\n"
                                                "  return torch.matmul(y, x)\n"));
  DOCTEST_CHECK(outcome.exit_code == 5);
  DOCTEST_CHECK(outcome.last("error").at("kind") == "run_failed");
  DOCTEST_CHECK(contains(outcome.last("error").at("message"), "op 1 aten::matmul"));
  const core::Error error = refusal(dir / "dump");
  DOCTEST_CHECK(error.kind() == core::ErrorKind::kDumpIncomplete);
  DOCTEST_CHECK(contains(error.what(), "aten::matmul"));
}

DOCTEST_TEST_CASE("memory that runs out ends in 5 with the operator") {
  const TempDirectory dir;
  const Outcome outcome = record(dir,
                                 run_with_model(dir,
                                                "def forward(self, x: Tensor) -> Tensor:\n"
                                                "  return torch.zeros([1152921504606846976])\n"));
  DOCTEST_CHECK(outcome.exit_code == 5);
  DOCTEST_CHECK(contains(outcome.last("error").at("message"), "aten::zeros"));
  DOCTEST_CHECK(contains(outcome.last("error").at("hint"), "memory"));
}

/// What a run says it returned: (name, what, digest) of each value.
std::vector<std::vector<std::string>> returned(const Outcome& outcome) {
  std::vector<std::vector<std::string>> values;
  for (const json& line : outcome.lines) {
    if (line.at("type") != "output") continue;
    values.push_back({line.at("name"), line.at("what"), line.at("digest")});
  }
  return values;
}

DOCTEST_TEST_CASE("a bare run makes no dump and returns what a recorded one does") {
  const TempDirectory dir;
  configs::RunSpec run = run_with_model(
      dir,
      "def forward(self, x: Tensor) -> Tuple[Tensor, Dict[str, List[Tensor]], float, None]:\n"
      "  y = torch.rand_like(x) + x\n"
      "  return y.t(), {\"parts\": [y[0], y[1:]]}, float(y.sum()), None\n");
  configs::RecordRequest request;
  request.report_outputs = true;
  request.bare = true;
  const Outcome bare = record(dir, run, {}, request);
  DOCTEST_CHECK(bare.exit_code == 0);
  DOCTEST_CHECK(bare.last("done").at("operators") == 0);
  DOCTEST_CHECK_FALSE(std::filesystem::exists(dir / "dump"));
  const auto values = returned(bare);
  DOCTEST_REQUIRE(values.size() == 5);
  DOCTEST_CHECK(values[0][0] == "out[0]");
  DOCTEST_CHECK(contains(values[0][1], "[4, 2]"));
  DOCTEST_CHECK(contains(values[0][1], "strides [1, 4]"));
  DOCTEST_CHECK(values[2][0] == "out[1].parts[1]");
  DOCTEST_CHECK(values[4][0] == "out[3]");

  request.bare = false;
  for (const core::DumpLevel level : {core::DumpLevel::kDigest, core::DumpLevel::kTensor}) {
    const TempDirectory other;
    run.dump.level = level;
    DOCTEST_CHECK(returned(record(other, run, {}, request)) == values);
  }
  run.seed = 5;
  DOCTEST_CHECK(returned(record(dir, run, {}, request)) != values);
}

DOCTEST_TEST_CASE("a bare run that fails says so") {
  const TempDirectory dir;
  configs::RecordRequest request;
  request.bare = true;
  const Outcome outcome = record(dir,
                                 run_with_model(dir,
                                                "def forward(self, x: Tensor) -> Tensor:\n"
                                                "  return torch.matmul(x, x)\n"),
                                 {},
                                 request);
  DOCTEST_CHECK(outcome.exit_code == 5);
  DOCTEST_CHECK(outcome.last("error").at("kind") == "run_failed");
  DOCTEST_CHECK_FALSE(std::filesystem::exists(dir / "dump"));
}

/// A model that is still at work when a signal comes.
configs::RunSpec endless(const TempDirectory& dir) {
  configs::RunSpec run = run_with_model(dir,
                                        "def forward(self, x: Tensor) -> Tensor:\n"
                                        "  while True:\n"
                                        "    x = torch.neg(x)\n"
                                        "  return x\n");
  run.dump.level = core::DumpLevel::kDigest;
  return run;
}

void wait_for_progress(const TempDirectory& dir) {
  for (int i = 0; i < 600; ++i) {
    if (contains(read_file(dir / "status"), "\"progress\"")) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  DOCTEST_FAIL("the recorder made no progress");
}

DOCTEST_TEST_CASE("a crash in the middle leaves a dump that names the operator reached") {
  for (const int signal : {SIGSEGV, SIGKILL}) {
    const TempDirectory dir;
    const Outcome outcome = record(dir, endless(dir), [&](pid_t pid) {
      wait_for_progress(dir);
      kill(pid, signal);
    });
    DOCTEST_CHECK(outcome.signal == signal);
    const core::Error error = refusal(dir / "dump");
    DOCTEST_CHECK(error.kind() == core::ErrorKind::kDumpIncomplete);
    DOCTEST_CHECK(contains(error.what(), "aten::neg"));
  }
}

DOCTEST_TEST_CASE("an interruption ends in 130") {
  for (const int signal : {SIGINT, SIGTERM}) {
    const TempDirectory dir;
    const Outcome outcome = record(dir, endless(dir), [&](pid_t pid) {
      wait_for_progress(dir);
      kill(pid, signal);
    });
    DOCTEST_CHECK(outcome.exit_code == 130);
    DOCTEST_CHECK(outcome.last("error").at("kind") == "interrupted");
    DOCTEST_CHECK(refusal(dir / "dump").kind() == core::ErrorKind::kDumpIncomplete);
  }
}

DOCTEST_TEST_CASE("questions are answered on stdout, as one JSON object") {
  const TempDirectory dir;
  run_with_model(dir, "def forward(self, x: Tensor, n: int = 2) -> Tensor:\n  return x\n");
  Outcome outcome = run_recorder(dir, {"describe", (dir / "m.pt").string()});
  DOCTEST_CHECK(outcome.exit_code == 0);
  const json description = json::parse(outcome.out);
  DOCTEST_CHECK(description.at("arguments").at(0).at("type") == "Tensor");
  DOCTEST_CHECK(description.at("arguments").at(1).at("default_value") == "2");

  outcome = run_recorder(dir, {"environment"});
  DOCTEST_CHECK(outcome.exit_code == 0);
  DOCTEST_CHECK(json::parse(outcome.out).at("settings").size() > 10);
  DOCTEST_CHECK(json::parse(run_recorder(dir, {"version"}).out).at("libtorch") != "unknown");

  outcome = run_recorder(dir, {"describe", (dir / "no.pt").string()});
  DOCTEST_CHECK(outcome.exit_code == 2);
  DOCTEST_CHECK(outcome.out.empty());
  DOCTEST_CHECK(contains(outcome.err, "no such file"));
}

}  // namespace
}  // namespace repro_check
