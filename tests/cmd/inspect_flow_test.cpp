// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "cmd/inspect/inspect_list.h"
#include "cmd/inspect/inspect_view.h"
#include "tests/support/memory_source.h"

namespace repro_check::cmd {
namespace {

/// A dump of `count` operators, of which each reads what the first wrote.
std::string fan_out(int count) {
  std::string tensors = R"("a": {"dtype": "float32", "shape": [1], "values": [1]})";
  std::string ops = R"({"operator": "aten::ones", "outputs": ["a"]})";
  for (int i = 0; i < count; ++i) {
    tensors +=
        fmt::format(R"(, "b{}": {{"dtype": "float32", "shape": [1], "values": [{}]}})", i, i + 2);
    ops +=
        fmt::format(R"(, {{"operator": "aten::neg", "module": "m.{}.x", "inputs": {{"self": "a"}},)"
                    R"( "outputs": ["b{}"]}})",
                    i,
                    i);
  }
  return R"({"run": "r", "tensors": {)" + tensors + R"(}, "ops": [)" + ops + "]}";
}

std::string modules_text(const core::DumpSource& dump, Form form) {
  std::string text;
  list_modules(dump, form, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace

TEST_CASE("of many readers twenty are shown, and how many more there are") {
  const auto dump = test_support::source_from_json(fan_out(30));
  const Json json = Json::parse(op_view(*dump, 0, Form::kJson));
  CHECK(json["consumers"].size() == 30);
  CHECK(json["producers"].empty());
  const std::string some = op_view(*dump, 0, Form::kTabs);
  CHECK(some.find("read by    op 20 aten::neg in:self, which is out:0\n") != std::string::npos);
  CHECK(some.find("op 21 ") == std::string::npos);
  CHECK(some.find("... and 10 more: -v\n") != std::string::npos);
  const std::string all = op_view(*dump, 0, Form::kTabs, 1);
  CHECK(all.find("op 30 ") != std::string::npos);
  CHECK(all.find("more") == std::string::npos);
}

TEST_CASE("a module counts what those inside it call, and paths may be anything") {
  const auto dump = test_support::source_from_json(fan_out(3));
  CHECK(modules_text(*dump, Form::kTabs) ==
        "(root)\t\t4\t1\t0\t0\n"
        "m\t\t3\t0\t0\t0\n"
        "m.0\t\t1\t0\t0\t0\n"
        "m.0.x\t\t1\t1\t0\t0\n"
        "m.1\t\t1\t0\t0\t0\n"
        "m.1.x\t\t1\t1\t0\t0\n"
        "m.2\t\t1\t0\t0\t0\n"
        "m.2.x\t\t1\t1\t0\t0\n");
  for (const std::string& path :
       {std::string("."), std::string(".."), std::string(100'000, '.'), std::string("a..b")}) {
    const auto odd = test_support::source_from_json(
        R"({"run": "r", "tensors": {}, "ops": [{"operator": "aten::x", "module": ")" + path +
        R"(", "results": [1]}]})");
    const auto json = Json::parse(modules_text(*odd, Form::kJson));
    CHECK(json["modules"].back()["path"] == path);
    CHECK(json["modules"][0]["operators"] == 1);
    CHECK(json["modules"].size() <= 257);
  }
}

}  // namespace repro_check::cmd
