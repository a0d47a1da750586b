// SPDX-License-Identifier: Apache-2.0
#include "cmd/gate/history.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/temp_directory.h"

namespace repro_check::cmd {
namespace {

using test_support::read_file;
using test_support::TempDirectory;

const std::string kHash(40, 'a');

HistoryEntry passed(const std::string& gate = "bert") {
  HistoryEntry entry;
  entry.time = "2026-01-31T12:00:00Z";
  entry.gate = gate;
  entry.commit = kHash;
  entry.platform = "3f9c";
  entry.status = "reproducible";
  entry.compared = 491;
  return entry;
}

HistoryEntry diverged(const std::string& module = "encoder.0") {
  HistoryEntry entry = passed();
  entry.commit = std::string(40, 'b');
  entry.status = "diverged";
  entry.exit_code = core::ExitCode::kDivergence;
  entry.origins = 2;
  entry.first = HistoryOperator{"forward", "aten::addmm", module, 0};
  entry.ulp_max = (std::uint64_t{1} << 63U) + 1;
  return entry;
}

std::string text_of(const std::vector<HistoryEntry>& entries) {
  std::string text;
  for (const HistoryEntry& entry : entries) text += to_line(entry);
  return text;
}

TEST_CASE("an entry is one line, and is read as it was written") {
  HistoryEntry hostile = diverged("::error::\n\x1b[2J");
  hostile.attempt = "GITHUB_RUN_ATTEMPT=2";
  hostile.commit.clear();
  hostile.platform.clear();
  for (const HistoryEntry& entry : {passed(), diverged(), hostile}) {
    const std::string line = to_line(entry);
    CHECK(line.find('\n') == line.size() - 1);
    const History history = parse_history(line);
    REQUIRE(history.entries.size() == 1);
    CHECK(history.entries[0] == entry);
    CHECK(history.damaged.empty());
  }
}

TEST_CASE("a line that is no entry is named and left out, and no other") {
  const std::string good = to_line(passed());
  const auto changed = [&](const char* key, const nlohmann::ordered_json& value) {
    auto json = nlohmann::ordered_json::parse(good);
    json[key] = value;
    return json.dump() + "\n";
  };
  const std::vector<std::string> bad{"nonsense\n",
                                     "[]\n",
                                     "{}\n",
                                     changed("format", "other"),
                                     changed("version", "2.0"),
                                     changed("version", 1),
                                     changed("exit_code", 2),
                                     changed("exit_code", "0"),
                                     changed("compared", -1),
                                     changed("compared", "12x"),
                                     changed("first", {{"phase", "forward"}}),
                                     changed("time", nullptr)};
  for (const std::string& line : bad) {
    CAPTURE(line);
    const History history = parse_history(good + "\n" + line + good);
    CHECK(history.entries.size() == 2);
    REQUIRE(history.damaged.size() == 1);
    CHECK(history.damaged[0].number == 3);
    CHECK_FALSE(history.damaged[0].why.empty());
  }
  const History cut = parse_history(good + good.substr(0, good.size() - 5));
  CHECK(cut.entries.size() == 1);
  CHECK(cut.damaged.at(0).why == "it is no JSON, or was not written to its end");
  CHECK(parse_history("").entries.empty());
}

TEST_CASE("any change of a byte costs its own line alone") {
  std::mt19937 random(5);
  const std::string whole = text_of({passed(), diverged(), passed()});
  for (int round = 0; round < 500; ++round) {
    std::string text = whole;
    text[random() % text.size()] = static_cast<char>(random() % 256);
    const History history = parse_history(text);
    CHECK(history.entries.size() + history.damaged.size() >= 2);
    CHECK(history.entries.size() >= 1);
  }
}

TEST_CASE("appending begins a file, and goes on behind a line that was cut") {
  const TempDirectory dir;
  const auto file = dir / "h.jsonl";
  append_history(file, passed());
  CHECK(read_file(file) == to_line(passed()));
  std::ofstream(file, std::ios::app) << R"({"format": "repro)";
  append_history(file, diverged());
  const History history = parse_history(read_file(file));
  REQUIRE(history.entries.size() == 2);
  CHECK(history.entries[1] == diverged());
  REQUIRE(history.damaged.size() == 1);
  CHECK(history.damaged[0].number == 2);
}

TEST_CASE("gates that run at once do not mix their lines") {
  const TempDirectory dir;
  const auto file = dir / "h.jsonl";
  std::vector<std::thread> gates;
  constexpr int kGates = 8;
  constexpr int kRuns = 25;
  for (int gate = 0; gate < kGates; ++gate) {
    gates.emplace_back([&file, gate] {
      const std::string name(1, static_cast<char>('a' + gate));
      for (int run = 0; run < kRuns; ++run) append_history(file, passed(name));
    });
  }
  for (std::thread& gate : gates) gate.join();
  const History history = parse_history(read_file(file));
  CHECK(history.damaged.empty());
  CHECK(history.entries.size() == kGates * kRuns);
  CHECK(trends_of(history, std::nullopt).size() == kGates);
}

TEST_CASE("a file that cannot be written is an error") {
  const TempDirectory dir;
  CHECK_THROWS_AS(append_history(dir / "none" / "h.jsonl", passed()), core::Error);
  std::ofstream(dir / "file") << "text";
  CHECK_THROWS_AS(require_appendable(dir / "file" / "h.jsonl"), core::Error);
  CHECK_THROWS_AS(require_appendable(dir / "."), core::Error);
  require_appendable(dir / "h.jsonl");
  require_appendable(dir / "new" / "h.jsonl");
  append_history(dir / "new" / "h.jsonl", passed());
  CHECK_THROWS_WITH_AS(append_history("/dev/full", passed()),
                       doctest::Contains("No space left on device"),
                       core::Error);
}

TEST_CASE("the commit is what HEAD of the repository names") {
  const TempDirectory dir;
  CHECK(commit_of_repository(dir / "").empty());
  std::filesystem::create_directories(dir / ".git/refs/heads");
  std::ofstream(dir / ".git/HEAD") << "ref: refs/heads/main\n";
  CHECK(commit_of_repository(dir / "").empty());
  std::ofstream(dir / ".git/packed-refs") << "# pack-refs\n" << kHash << " refs/heads/main\n";
  CHECK(commit_of_repository(dir / "") == kHash);
  const std::string loose(64, 'c');
  std::ofstream(dir / ".git/refs/heads/main") << loose << "\n";
  CHECK(commit_of_repository(dir / "") == loose);
  std::ofstream(dir / ".git/HEAD") << std::string(40, 'd') << "\n";
  CHECK(commit_of_repository(dir / "") == std::string(40, 'd'));
  std::ofstream(dir / ".git/HEAD") << "not a hash\n";
  CHECK(commit_of_repository(dir / "").empty());
}

TEST_CASE("a trend counts passes, streaks and what diverged first") {
  HistoryEntry undecided = diverged("encoder.1");
  undecided.commit = kHash;
  HistoryEntry broken = passed();
  broken.status = "run_failed";
  broken.exit_code = core::ExitCode::kRunFailed;
  const History history = parse_history(text_of({passed(),
                                                 passed(),
                                                 undecided,
                                                 diverged(),
                                                 diverged(),
                                                 broken,
                                                 passed("other"),
                                                 passed(),
                                                 passed(),
                                                 passed()}));
  const auto trends = trends_of(history, std::nullopt);
  REQUIRE(trends.size() == 2);
  const Trend& bert = trends[0];
  CHECK(bert.entries.size() == 9);
  CHECK(bert.passed == 5);
  CHECK(bert.diverged == 3);
  CHECK(bert.streak == 3);
  CHECK(bert.longest_passed == 3);
  CHECK(bert.longest_not_passed == 4);
  REQUIRE(bert.firsts.size() == 2);
  CHECK(bert.firsts[0].first.module == "encoder.0");
  CHECK(bert.firsts[0].runs == 2);
  CHECK(bert.undecided == std::vector<std::string>{kHash});
  CHECK(trends_of(history, "other").size() == 1);
  CHECK(trends_of(history, "none").empty());
}

TEST_CASE("one gate on two platforms has two trends") {
  HistoryEntry elsewhere = diverged();
  elsewhere.platform = "77ab";
  const auto trends = trends_of(parse_history(text_of({passed(), elsewhere, passed()})), "bert");
  REQUIRE(trends.size() == 2);
  CHECK(trends[0].streak == 2);
  CHECK(trends[1].passed == 0);
}

TEST_CASE("lines of a trend keep to their width, whatever stands in them") {
  std::vector<HistoryEntry> entries(30, diverged(std::string(300, 'm')));
  entries.push_back(diverged("\x1b[2J::error::"));
  const auto trends = trends_of(parse_history(text_of(entries)), std::nullopt);
  constexpr std::size_t kColumns = 80;
  RenderOptions options;
  options.columns = kColumns;
  const std::string text = trend_text({"h.jsonl", trends, {{7, "it is no JSON"}}}, options);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("line 7: it is no JSON") != std::string::npos);
  std::size_t begin = text.find('\n') + 1;
  for (std::size_t end = text.find('\n', begin); end != std::string::npos;
       end = text.find('\n', begin)) {
    CHECK(end - begin <= kColumns);
    begin = end + 1;
  }
}

}  // namespace
}  // namespace repro_check::cmd
