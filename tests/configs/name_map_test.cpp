// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "configs/spec/name_pattern.h"

namespace repro_check::configs {
namespace {

std::vector<std::string> problems_of(const std::string& text) {
  std::vector<std::string> problems;
  parse_name_map(text, "names.map", problems);
  return problems;
}

TEST_CASE("a map holds operators and modules, in order, with their lines") {
  std::vector<std::string> problems;
  const NameMap map = parse_name_map(
      "# two versions\n\nmodule backbone\\.(.*)\t->  encoder.\\1\r\n"
      "operator custom::gelu -> aten::gelu\nmodule -> model",
      "names.map",
      problems);
  CHECK(problems.empty());
  CHECK(map.file == "names.map");
  REQUIRE(map.entries.size() == 3);
  CHECK(map.entries[0].kind == NameRewrite::Kind::kModule);
  CHECK(map.entries[0].line == 3);
  CHECK(map.entries[0].pattern.rewrite("backbone.0.q", map.entries[0].replacement) ==
        "encoder.0.q");
  CHECK_FALSE(map.entries[0].pattern.rewrite("my.backbone.0", map.entries[0].replacement));
  CHECK(map.entries[1].kind == NameRewrite::Kind::kOperator);
  CHECK(map.entries[1].line == 4);
  CHECK(map.entries[1].replacement == "aten::gelu");
  CHECK(map.entries[2].pattern.text().empty());
  CHECK(map.entries[2].replacement == "model");
}

TEST_CASE("every mistake is told with its line") {
  const std::vector<std::string> problems = problems_of(
      "operator aten::a -> aten::b\nmodul a -> b\nmodule a b\nmodule a->b\nmodule (a -> b\n"
      "module (a) -> \\2\noperator -> aten::b\noperator aten::a ->\nrename a -> b\n");
  REQUIRE(problems.size() == 8);
  CHECK(
      problems[0] ==
      "names.map:2: expected \"operator\" or \"module\", got \"modul\"; did you mean \"module\"?");
  CHECK(problems[1].starts_with("names.map:3: expected \"module PATTERN -> NAME\""));
  CHECK(problems[2].starts_with("names.map:4: expected \"module PATTERN -> NAME\""));
  CHECK(problems[3].starts_with("names.map:5: \"(a\" is no regular expression: "));
  CHECK(problems[4].starts_with("names.map:6: \"\\2\" cannot replace it: "));
  CHECK(problems[5] == "names.map:7: an operator has a name on both sides of the arrow");
  CHECK(problems[6] == "names.map:8: an operator has a name on both sides of the arrow");
  CHECK(problems[7].starts_with("names.map:9: expected \"operator\" or \"module\""));
  CHECK(problems_of("").size() == 1);
  CHECK(problems_of("# nothing\n").front() == "names.map: holds no names");
}

TEST_CASE("another kind of file does not give a sentence a line") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "{\"a\": 1}\n";
  CHECK(problems_of(text).size() == 100);
}

}  // namespace
}  // namespace repro_check::configs
