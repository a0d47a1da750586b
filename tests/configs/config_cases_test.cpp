// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/configs/fixture_files.h"

namespace repro_check::configs {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::string::size_type begin = 0;
  while (begin < text.size()) {
    const auto end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// The table's paths begin with {base}: where the repository is, is nobody's business.
std::string with_base(std::string line) {
  const std::string kBase = "{base}";
  const auto at = line.find(kBase);
  if (at != std::string::npos) line.replace(at, kBase.size(), test::fixture_directory().string());
  return line;
}

std::string text_of(const Json& table, const Json& entry) {
  return (entry.contains("document") ? entry["document"] : table["base"]).dump();
}

std::vector<ConfigOverride> overrides_of(const Json& entry) {
  std::vector<ConfigOverride> overrides;
  if (!entry.contains("set")) return overrides;
  for (const auto& [pointer, value] : entry["set"].items()) {
    overrides.push_back({pointer, value.dump()});
  }
  return overrides;
}

std::vector<std::string> problems_of(const std::string& text,
                                     const std::filesystem::path& base,
                                     const std::vector<ConfigOverride>& overrides,
                                     const std::string& origin) {
  try {
    parse_config(text, origin, base, overrides);
    return {};
  } catch (const core::Error& error) {
    return lines_of(error.what());
  }
}

TEST_CASE("the table of good configurations is taken") {
  const Json table = test::read_json(test::fixture_directory() / "cases.json");
  REQUIRE(table["good"].size() > 20);
  for (const Json& entry : table["good"]) {
    CAPTURE(entry["name"].get<std::string>());
    const auto problems = problems_of(
        text_of(table, entry), test::fixture_directory(), overrides_of(entry), "config.json");
    CHECK(problems == std::vector<std::string>{});
    CHECK_NOTHROW(parse_config(
        text_of(table, entry), "config.json", test::fixture_directory(), overrides_of(entry)));
  }
}

TEST_CASE("every mistake of the table is one line, and all of them are there") {
  const Json table = test::read_json(test::fixture_directory() / "cases.json");
  REQUIRE(table["bad"].size() > 100);
  for (const Json& entry : table["bad"]) {
    CAPTURE(entry["name"].get<std::string>());
    std::vector<std::string> expected;
    for (const Json& line : entry["problems"]) expected.push_back(with_base(line));
    REQUIRE_FALSE(expected.empty());
    CHECK(problems_of(text_of(table, entry),
                      test::fixture_directory(),
                      overrides_of(entry),
                      "config.json") == expected);
    try {
      parse_config(
          text_of(table, entry), "config.json", test::fixture_directory(), overrides_of(entry));
      FAIL("taken");
    } catch (const core::Error& error) {
      CHECK(error.kind() == core::ErrorKind::kUsage);
      CHECK(lines_of(error.what()) == expected);
      CHECK_FALSE(error.hint().empty());
    }
  }
}

TEST_CASE("whole files that are good") {
  for (const auto& entry :
       std::filesystem::directory_iterator(test::fixture_directory() / "good")) {
    CAPTURE(entry.path().string());
    CHECK_NOTHROW(load_config(entry.path(), {}));
  }
}

TEST_CASE("whole files that are not: what the text itself has wrong") {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::fixture_directory() / "bad")) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    CAPTURE(entry.path().string());
    auto beside = entry.path();
    const auto expected = lines_of(test::read_file(beside.replace_extension(".problems")));
    const auto found = problems_of(test::read_file(entry.path()),
                                   entry.path().parent_path(),
                                   {},
                                   entry.path().filename().string());
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      // What follows "not JSON:" is the library's, and changes with its version.
      const bool prefix = expected[i].ends_with("not JSON:");
      CHECK((prefix ? found[i].substr(0, expected[i].size()) : found[i]) == expected[i]);
    }
    CHECK_THROWS_AS(load_config(entry.path(), {}), core::Error);
  }
  CHECK(files >= 10);
}

TEST_CASE("whatever bytes a file holds, they are taken or told, never thrown") {
  const std::string good = test::read_file(test::fixture_directory() / "good" / "issue.json");
  std::mt19937 random(1);
  std::size_t taken = 0;
  for (int i = 0; i < 3000; ++i) {
    const bool cut = i % 3 == 0;
    std::string text = good.substr(0, cut ? random() % good.size() : good.size());
    for (std::uint32_t edits = random() % 4; edits > 0 && !text.empty(); --edits) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const auto lines = problems_of(text, test::fixture_directory() / "good", {}, "config.json");
    if (lines.empty()) ++taken;
    for (const std::string& line : lines) {
      CHECK(std::ranges::none_of(line, [](unsigned char c) { return c < 0x20 || c == 0x7f; }));
    }
  }
  CHECK(taken > 0);
}

TEST_CASE("files that cannot be read at all") {
  CHECK_THROWS_AS(load_config(test::fixture_directory() / "nope.json", {}), core::Error);
  CHECK_THROWS_AS(load_config(test::fixture_directory(), {}), core::Error);
}

TEST_CASE("the number of lines is bounded, the count is not lost") {
  std::string text = R"({"model": "files/model.pt", "inputs": [])";
  for (int i = 0; i < 150; ++i) text += R"(, "unknown)" + std::to_string(i) + R"(": 1)";
  try {
    test::parse(text + "}");
    FAIL("taken");
  } catch (const core::Error& error) {
    const auto lines = lines_of(error.what());
    CHECK(lines.size() == 101);
    CHECK(lines.back() == "config.json: and 50 more");
  }
}

}  // namespace
}  // namespace repro_check::configs
