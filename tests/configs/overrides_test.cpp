// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "core/error.h"
#include "tests/configs/fixture_files.h"

namespace repro_check::configs {
namespace {

constexpr const char* kText = R"({"model": "files/model.pt", "inputs": [1, 2], "seed": 1,
    "runs": [{"name": "a"}, {"name": "b", "threads": 2}]})";

TEST_CASE("values are JSON, or text where they are no JSON") {
  const Config config = test::parse(kText,
                                    {{"/seed", "7"},
                                     {"/device", "cuda:0"},
                                     {"/disable_dropout", "false"},
                                     {"/runs/1/threads", "null"},
                                     {"/inputs/0", R"({"value": "7"})"}});
  CHECK(config.runs[0].seed == 7);
  CHECK(config.runs[0].device == "cuda:0");
  CHECK_FALSE(config.runs[0].disable_dropout);
  CHECK_FALSE(config.runs[1].threads);
  CHECK(std::get<std::string>(std::get<ValueInput>(config.runs[0].calls[0][0].source).value) ==
        "7");
}

TEST_CASE("missing objects are made, lists grow at their end, keys are unescaped") {
  const Config config = test::parse(kText,
                                    {{"/env/A", "x"},
                                     {"/inputs/2", "3"},
                                     {"/inputs/-", "4"},
                                     {"/runs/-", R"({"name": "c"})"},
                                     {"/runs/2/settings/x.y", "true"},
                                     {"/inputs/0", R"({"dict": {}})"},
                                     {"/inputs/0/dict/a~1b~0c", "5"}});
  CHECK(config.runs[0].env.at("A") == "x");
  CHECK(config.runs[0].calls[0].size() == 4);
  REQUIRE(config.runs.size() == 3);
  CHECK(config.runs[2].settings.at("x.y") == "on");
  CHECK(std::get<ContainerInput>(config.runs[0].calls[0][0].source).items.at(0).name == "a/b~c");
}

TEST_CASE("what is short for an object takes keys like one") {
  const Config config = test::parse(
      R"({"model": "files/model.pt", "inputs": [1], "compare": {"policy": "bitwise"},
          "runs": [{"name": "a"}, {"name": "b", "model": "files/model.pt"}]})",
      {{"/runs/1/model/path", R"("files/other.pt")"},
       {"/model/method", "generate"},
       {"/compare/policy/equal_nan", "never"},
       {"/inputs/0/name", "scale"}});
  CHECK(config.runs[0].model.path.filename() == "model.pt");
  CHECK(config.runs[0].model.method == "generate");
  CHECK(config.runs[1].model.path.filename() == "other.pt");
  CHECK(config.compare.policy.equal_nan == EqualNan::kNever);
  CHECK(config.runs[0].calls[0][0].name == "scale");
}

TEST_CASE("later ones see what earlier ones did") {
  CHECK(test::parse(kText, {{"/seed", "7"}, {"/seed", "8"}}).runs[0].seed == 8);
}

TEST_CASE("an override wins over a preset and can name one") {
  const Config config =
      test::parse(kText, {{"/preset", "bitwise"}, {"/threads", "3"}, {"/runs/1/threads", "3"}});
  CHECK(config.runs[0].threads == 3);
  CHECK(config.runs[0].interop_threads == 1);
}

TEST_CASE("what does not belong changes nothing else, and every one is told") {
  try {
    test::parse(kText,
                {{"/seed/deeper/x", "1"},
                 {"/runs/01/threads", "1"},
                 {"/runs/3", "{}"},
                 {"nonsense", "1"},
                 {"/env", R"({"A": "1", "A": "2"})"},
                 {"/device", "\xff"}});
    FAIL("taken");
  } catch (const core::Error& error) {
    const std::string text = error.what();
    CHECK(std::ranges::count(text, '\n') == 5);
    std::size_t at = 0;
    for (const char* pointer :
         {"/seed/deeper/x", "/runs/01/threads", "/runs/3", "nonsense", "/env/A", "/device"}) {
      const std::string line = std::string("config.json: ") + pointer + ": ";
      CHECK(text.substr(at, line.size()) == line);
      at = text.find('\n', at) + 1;
    }
    CHECK(text.ends_with("--set: the value is not UTF-8"));
  }
}

}  // namespace
}  // namespace repro_check::configs
