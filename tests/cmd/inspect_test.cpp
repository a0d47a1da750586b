// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "cmd/inspect/inspect_list.h"
#include "cmd/inspect/inspect_tensor.h"
#include "cmd/inspect/inspect_view.h"
#include "cmd/render/json_form.h"
#include "core/error.h"
#include "core/tensor/npy.h"
#include "tests/support/memory_source.h"
#include "tests/support/temp_directory.h"

namespace repro_check::cmd {
namespace {

constexpr const char* kDump = R"({
  "run": "baseline",
  "tensors": {
    "x": {"dtype": "float32", "shape": [2, 2], "values": [1, "nan", "-inf", 0]},
    "y": {"dtype": "float32", "shape": [2, 2], "values": [2, "nan", "-inf", 0]},
    "big": {"dtype": "int64", "shape": [1], "values": [9007199254740993]}
  },
  "ops": [
    {"operator": "aten::mul.Scalar", "module": "encoder.0", "module_type": "Scale",
     "source": "model.py:12", "inputs": {"self": "x"}, "scalars": {"other": 2.0}, "outputs": ["y"]},
    {"operator": "aten::sum", "module": "encoder.1", "inputs": {"self": "y"}, "outputs": ["big"]},
    {"operator": "aten::size.int", "module": "", "inputs": {"self": "x"},
     "scalars": {"dim": 0}, "results": [2]}
  ]})";

struct Listed {
  std::string text;
  ListOutcome outcome;
};

std::string look(const core::DumpSource& dump,
                 std::uint64_t op,
                 std::string slot,
                 bool stats,
                 std::optional<std::uint64_t> values,
                 std::optional<std::string> export_to,
                 Form form) {
  TensorQuery query;
  query.slot = std::move(slot);
  query.stats = stats;
  query.values = values;
  query.export_to = std::move(export_to);
  return tensor_view(dump, op, query, form);
}

Listed listed(const core::DumpSource& dump,
              const OpSelection& selection = {},
              Form form = Form::kTabs) {
  Listed list;
  list.outcome =
      list_operators(dump, selection, form, [&](std::string_view piece) { list.text += piece; });
  return list;
}

}  // namespace

TEST_CASE("a list has a heading and indices; behind these no source, so that two can be diffed") {
  const auto dump = test_support::source_from_json(kDump);
  const std::string text = listed(*dump).text;
  CHECK(
      text.starts_with("op\toperator\tmodule\toutputs\n"
                       "0\taten::mul.Scalar\tencoder.0\tfloat32 [2, 2] "));
  CHECK(text.ends_with("2\taten::size.int\t\t2\n"));
  CHECK(text.find("model.py") == std::string::npos);
  const std::string columns = listed(*dump, {}, Form::kColumns).text;
  CHECK(columns.starts_with("    op  operator "));
  CHECK(columns.find("model.py:12") != std::string::npos);
}

TEST_CASE("operators are selected by name, with or without overload, by module and by range") {
  const auto dump = test_support::source_from_json(kDump);
  const auto shown = [&](const OpSelection& selection) {
    return listed(*dump, selection).outcome.shown;
  };
  OpSelection by_name;
  by_name.operators.emplace("aten::mul");
  CHECK(shown(by_name) == 1);
  by_name.operators.emplace("*.Scalar");
  CHECK(shown(by_name) == 1);
  by_name.operators.emplace("/aten::(mul|size).*/");
  CHECK(shown(by_name) == 2);
  by_name.operators.emplace("/mul/");  // whole names only
  CHECK(shown(by_name) == 0);
  CHECK_THROWS_AS(NameSelector("/(/"), core::Error);
  OpSelection by_module;
  by_module.modules.emplace("encoder.*");
  CHECK(shown(by_module) == 2);
  by_module.modules.emplace("");
  CHECK(shown(by_module) == 1);
  OpSelection by_range;
  parse_range("1:2", by_range);
  CHECK(shown(by_range) == 1);
  parse_range("1:", by_range);
  CHECK(shown(by_range) == 2);
  parse_range("7:9", by_range);
  CHECK(shown(by_range) == 0);
  for (const char* wrong : {"", "5", "2:2", "3:1", "a:b", "-1:2", "1:2:3", "1: 2"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_range(wrong, by_range), core::Error);
  }
}

TEST_CASE("a condition is asked of operators, and what a call returned is none") {
  const auto dump = test_support::source_from_json(R"({"run": "r",
    "tensors": {"y": {"dtype": "float32", "shape": [1], "values": ["nan"]}},
    "ops": [{"operator": "aten::x", "outputs": ["y"]}, {"returned": {"out": "y"}}]})");
  CHECK(listed(*dump).outcome.shown == 2);
  OpSelection selection;
  selection.where.emplace("elements=1");
  CHECK(listed(*dump, selection).outcome.shown == 1);
}

TEST_CASE("the list as JSON can be filtered for NaN, once statistics are there") {
  const auto dump = test_support::source_from_json(kDump);
  const Json json = Json::parse(listed(*dump, {}, Form::kJson).text);
  CHECK(json["format"] == "repro-check-inspect");
  CHECK(json["total"] == 3);
  CHECK(json["ops"][0]["outputs"][0].contains("nan"));
  CHECK(json["ops"][2]["results"][0] == 2);
}

TEST_CASE("the rows of a document are the same text whether it is pretty or not") {
  for (const std::uint64_t rows : {0U, 1U, 3U}) {
    Json array = Json::array();
    for (std::uint64_t i = 0; i < rows; ++i)
      array.push_back({{"name", "a\n\"b"}, {"list", {1, {2}}}});
    const Json head{{"dump", "memory"}};
    Json expected = head;
    expected["rows"] = array;
    expected["shown"] = rows;
    for (const Form form : {Form::kJson, Form::kPrettyJson}) {
      CAPTURE(rows);
      std::string text;
      RowDocument document(head, "rows", form, [&](std::string_view piece) { text += piece; });
      for (const Json& row : array) document.add(row.dump());
      document.finish({{"shown", rows}});
      CHECK(text == to_document(expected, form == Form::kPrettyJson));
    }
  }
}

TEST_CASE("a sentence says the members of its model, and leaves out what is not there") {
  const Json model{{"name", "a\x1b"},
                   {"shape", Json::array({2, 3})},
                   {"scalar", Json::array()},
                   {"slots", {"in:0", "out:0"}},
                   {"none", nullptr},
                   {"no", false},
                   {"zero", 0},
                   {"size", 1500},
                   {"mean", "nan"},
                   {"inner", {{"count", 1}}}};
  CHECK(say("{name} {shape} {scalar} {slots}", model) == "a\\x1b [2, 3] [] in:0, out:0");
  CHECK(say("{inner/count:operator}, {slots:tensor}, {zero:count}, {size:bytes}, {mean:number}",
            model) == "1 operator, 2 tensors, 0, 1.5 kB, nan");
  CHECK(say("[a {none}][b {no}][c {scalar}][d {missing}][e {zero}]", model) == "e 0");
  CHECK(say("{none}{missing/deeper}.", model) == ".");
  CHECK(say("[a[, b {none}][, {name}]][c[d {none}] {none}]", model) == "a, a\\x1b");
  CHECK_THROWS_AS(say("[a [b]", model), core::Error);
  const std::array lines{ViewLine{"name", "{name}"},
                         ViewLine{"{}", "{}!", "slots"},
                         ViewLine{"count", "{count}", "inner"},
                         ViewLine{"none", "{}", "none"}};
  CHECK(say_lines(lines, model, 2) ==
        "  name       a\\x1b\n  in:0       in:0!\n  out:0      out:0!\n  count      1\n");
}

TEST_CASE("text is wrapped behind its label, and rows for other programs are not") {
  const std::string text =
      "  input      self = float32 [2, 3] on cpu, of a name with many words, storage 3\n"
      "DIVERGED op 3 aten::mul.Tensor out:0, float32 [6]: 2 of 6 elements differ\n"
      "[1]\ta row that is longer than the width but has a tab, so that it stays whole\n";
  CHECK(wrapped(text, 0) == text);
  CHECK(wrapped(text, 100) == text);
  CHECK(wrapped(text, 44) ==
        "  input      self = float32 [2, 3] on cpu,\n"
        "             of a name with many words,\n"
        "             storage 3\n"
        "DIVERGED op 3 aten::mul.Tensor out:0,\n"
        "  float32 [6]: 2 of 6 elements differ\n"
        "[1]\ta row that is longer than the width but has a tab, so that it stays whole\n");
  CHECK(wrapped("  label      " + std::string(50, 'x') + "\n", 40) ==
        "  label      " + std::string(27, 'x') + "\n             " + std::string(23, 'x') + "\n");
}

TEST_CASE("one operator shows its arguments, tensors and source") {
  const auto dump = test_support::source_from_json(kDump);
  const std::string text = op_view(*dump, 0, Form::kTabs);
  CHECK(text.starts_with("op 0 aten::mul.Scalar\n"));
  for (const char* part :
       {"encoder.0 (Scale)", "model.py:12", "other = 2", "self = float32 [2, 2]"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  const Json json = Json::parse(op_view(*dump, 0, Form::kJson))["op"];
  CHECK(json["arguments"][0]["value"]["tensor"] == 0);
  CHECK(json["inputs"][0]["slot"] == "self");
}

TEST_CASE("values of a tensor keep NaN, infinities and integers that a double cannot hold") {
  const auto dump = test_support::source_from_json(kDump);
  const std::string text = look(*dump, 0, "in:self", false, 3, {}, Form::kTabs);
  CHECK(text.find("[0, 1]\tnan\n[1, 0]\t-inf\n... and 1 more: --values=4\n") != std::string::npos);
  const Json json = Json::parse(look(*dump, 0, "in:0", true, 10, {}, Form::kJson));
  CHECK(json["values"].size() == 4);
  CHECK(json["values"][0]["value"] == 1.0);
  CHECK(json["values"][0]["bits"] == "3f800000");
  CHECK(json["values"][1]["value"] == "nan");
  CHECK(json["tensor"]["stats"]["nan"] == 1);
  CHECK(json["tensor"]["stats"]["max"] == 1.0);
  CHECK(json["tensor"]["stats"]["mean"] == 0.5);
  const Json big = Json::parse(look(*dump, 1, "out:0", false, 1, {}, Form::kJson));
  CHECK(big["values"][0]["value"] == "9007199254740993");
}

TEST_CASE("an exported tensor reads back") {
  const auto dump = test_support::source_from_json(kDump);
  const test_support::TempDirectory folder;
  const std::string file = (folder / "y.npy").string();
  look(*dump, 0, "out:0", false, {}, file, Form::kTabs);
  const core::HostTensor tensor = core::read_npy(file);
  CHECK(tensor.dtype == core::Dtype::kFloat32);
  CHECK(tensor.shape == std::vector<std::int64_t>{2, 2});
  CHECK(tensor.bytes.size() == 16);
}

TEST_CASE("a slot that is not there is exit 4 and says what is") {
  const auto dump = test_support::source_from_json(kDump);
  try {
    look(*dump, 0, "out:7", false, {}, {}, Form::kTabs);
    FAIL("nothing was thrown");
  } catch (const core::Error& error) {
    CHECK(error.kind() == core::ErrorKind::kNotComparable);
    CHECK(error.hint() == "it has in:self, out:0");
  }
  CHECK_THROWS_AS(look(*dump, 0, "self", false, {}, {}, Form::kTabs), core::Error);
}

TEST_CASE("the summary names run, model, counts and inputs") {
  const auto dump = test_support::source_from_json(kDump);
  const std::string text = summary_view(*dump, Form::kTabs, 0);
  CHECK(text.find("run        baseline") != std::string::npos);
  CHECK(text.find("3 operators") != std::string::npos);
  const Json json = Json::parse(summary_view(*dump, Form::kJson, 0));
  CHECK(json["manifest"].is_object());
  CHECK(verified_view(*dump, Form::kTabs).starts_with("VERIFIED"));
}

}  // namespace repro_check::cmd
