// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "configs/spec/run_config.h"
#include "tests/configs/fixture_files.h"

namespace repro_check::configs {
namespace {

using Json = nlohmann::ordered_json;

Json schema() {
  return test::read_json(test::source_directory() / "configs" / "repro-check-config.schema.json");
}

/// Values count from 0; the schema must have their names in the same order.
template <typename Enum>
void check_names(const Json& words) {
  int value = 0;
  for (const Json& word : words) {
    if (word == "auto" && words.size() == 4) continue;  // the level that no recorder is told
    CHECK(word == std::string(name_of(static_cast<Enum>(value++))));
  }
}

TEST_CASE("the schema has the names of every value, in order") {
  const Json top = schema();
  const Json& defs = top["$defs"];
  const Json& dump = top["properties"]["dump"]["properties"];
  const Json& compare = top["properties"]["compare"]["properties"];
  check_names<DeterminismMode>(defs["determinism"]["enum"]);
  check_names<RngMode>(defs["rng"]["enum"]);
  check_names<GradMode>(defs["grad"]["enum"]);
  check_names<ModelMode>(defs["model"]["anyOf"][1]["properties"]["mode"]["enum"]);
  check_names<DumpLevel>(dump["level"]["enum"]);
  check_names<DumpDepth>(dump["depth"]["enum"]);
  check_names<BrowseMode>(dump["browse"]["enum"]);
  check_names<PolicyKind>(defs["policy_kind"]["enum"]);
  check_names<Unmatched>(compare["unmatched"]["enum"]);
  for (const char* key : {"strides", "device", "alias"}) {
    check_names<AttributeRule>(compare[key]["enum"]);
  }
  check_names<AlignMode>(compare["align"]["enum"]);
  check_names<OperatorOrder>(compare["order"]["enum"]);
  check_names<NumberKind>(compare["numbers"]["anyOf"][1]["items"]["enum"]);
  check_names<EqualNan>(defs["equal_nan"]["enum"]);
  Json generated;
  for (const Json& form : defs["input"]["anyOf"]) {
    if (!form.contains("properties") || !form["properties"].contains("generate")) continue;
    for (const Json& word : form["properties"]["generate"]["enum"]) generated.push_back(word);
  }
  CHECK(generated.size() == 6);
  check_names<Distribution>(generated);
  // Two words that stand for false and true.
  CHECK(compare["dtype"]["enum"] == Json{"strict", "promote"});
  CHECK(defs["signed_zero"]["enum"] == Json{"same", "distinct"});
  CHECK(defs["subnormals"]["enum"] == Json{"exact", "flush"});
  const Json& happens = top["properties"]["expected"]["items"]["properties"]["happens"]["enum"];
  CHECK(happens == Json{"always", "sometimes"});
}

TEST_CASE("defaults of the schema are those of the structs") {
  const Json top = schema();
  const Json run = Json::parse(to_json_text(RunSpec{}));
  for (const auto& [key, value] : run.items()) {
    CAPTURE(key);
    if (!top["$defs"].contains(key) || !top["$defs"][key].contains("default")) continue;
    CHECK(top["$defs"][key]["default"] == value);
  }
  for (const auto& [key, value] : run["dump"].items()) {
    CAPTURE(key);
    const Json& property = top["properties"]["dump"]["properties"][key];
    if (property.contains("default")) CHECK(property["default"] == value);
  }
  const Json& model = top["$defs"]["model"]["anyOf"][1]["properties"];
  CHECK(model["method"]["default"] == run["model"]["method"]);
  CHECK(model["mode"]["default"] == run["model"]["mode"]);
}

/// Keys and values of a schema, those of everything in it.
void collect(const Json& node, std::set<std::string>& names) {
  if (!node.is_structured()) return;
  for (const auto& [key, value] : node.items()) {
    if (node.is_object() && key == "properties") {
      for (const auto& property : value.items()) names.insert(property.key());
    } else if (node.is_object() && key == "enum" && value.size() <= 8) {  // dtypes are torch's
      for (const Json& word : value) names.insert(word.get<std::string>());
    }
    collect(value, names);
  }
}

TEST_CASE("the documentation names every key, every value and every variable pinned") {
  const std::string text = test::read_file(test::source_directory() / "docs" / "CONFIGURATION.md");
  std::set<std::string> names;
  collect(schema(), names);
  CHECK(names.size() > 120);
  RunSpec run;
  run.threads = 1;
  run.determinism = DeterminismMode::kError;
  for (const auto& [name, value] : pinned_environment(run)) {
    const bool is_of_the_run =
        name.find("NUM_THREADS") != std::string::npos || name == "PYTHONHASHSEED";
    names.insert(value && !is_of_the_run ? name + "=" + *value : name);
  }
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(text.find("`" + name + "`") != std::string::npos);
  }
}

}  // namespace
}  // namespace repro_check::configs
