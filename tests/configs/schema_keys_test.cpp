// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "configs/parser/keys.h"
#include "configs/spec/pinned_environment.h"
#include "tests/configs/fixture_files.h"

namespace repro_check::configs {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::set<std::string>;

Json schema() {
  return test::read_json(test::source_directory() / "configs" / "repro-check-config.schema.json");
}

Names keys_of(const Json& object) {
  Names names;
  for (const auto& [key, value] : object.items()) names.insert(key);
  return names;
}

Names names_of(std::span<const std::string_view> keys) { return {keys.begin(), keys.end()}; }

template <typename Enum, std::size_t N>
Names enum_names(const std::array<Enum, N>& values) {
  Names names;
  for (const Enum value : values) names.emplace(name_of(value));
  return names;
}

Names strings_of(const Json& list) {
  Names names;
  for (const Json& item : list) names.insert(item.get<std::string>());
  return names;
}

TEST_CASE("schema and parser know the same keys") {
  const Json top = schema();
  const Json& defs = top["$defs"];
  CHECK(keys_of(top["properties"]) == names_of(detail::kConfigKeys));
  CHECK(keys_of(defs["run"]["properties"]) == names_of(detail::kRunKeys));
  CHECK(keys_of(defs["model"]["anyOf"][1]["properties"]) == names_of(detail::kModelKeys));
  CHECK(keys_of(defs["calls"]["items"]["properties"]) == names_of(detail::kCallKeys));
  CHECK(keys_of(top["properties"]["dump"]["properties"]) == names_of(detail::kDumpKeys));
  CHECK(keys_of(top["properties"]["dump"]["properties"]["slice"]["properties"]) ==
        names_of(detail::kSliceKeys));
  CHECK(keys_of(top["properties"]["compare"]["properties"]) == names_of(detail::kCompareKeys));
  CHECK(keys_of(defs["policy"]["anyOf"][1]["properties"]) == names_of(detail::kPolicyKeys));
  CHECK(keys_of(defs["rule"]["properties"]) == names_of(detail::kRuleKeys));
  CHECK(keys_of(defs["rule"]["properties"]["match"]["properties"]) == names_of(detail::kMatchKeys));
  CHECK(keys_of(top["properties"]["report"]["properties"]) == names_of(detail::kReportKeys));
  const Json& baselines = top["properties"]["baselines"]["properties"];
  CHECK(keys_of(baselines) == names_of(detail::kBaselinesKeys));
  const Json& expected = top["properties"]["expected"]["items"]["properties"];
  CHECK(keys_of(expected) == names_of(detail::kExpectedKeys));
  CHECK(keys_of(expected["limit"]["properties"]) == names_of(detail::kLimitKeys));
  CHECK(strings_of(expected["happens"]["enum"]) == names_of(detail::kHappensNames));
}

TEST_CASE("schema and parser know the same kinds of inputs") {
  Names kinds;
  Names beside_generate;
  Names distributions;
  const Json top = schema();
  for (const Json& variant : top["$defs"]["input"]["anyOf"]) {
    if (!variant.contains("properties")) continue;
    const Names keys = keys_of(variant["properties"]);
    for (const std::string_view kind : detail::kSourceKeys) {
      if (keys.contains(std::string(kind))) kinds.emplace(kind);
    }
    if (!keys.contains("generate")) continue;
    distributions.merge(strings_of(variant["properties"]["generate"]["enum"]));
    beside_generate.insert(keys.begin(), keys.end());
  }
  beside_generate.erase("generate");
  beside_generate.erase("name");
  CHECK(kinds == names_of(detail::kSourceKeys));
  CHECK(beside_generate == names_of(detail::kGenerateKeys));
  CHECK(distributions == enum_names(detail::kDistributions));
}

TEST_CASE("schema and parser know the same values") {
  const Json top = schema();
  const Json& defs = top["$defs"];
  const Json& dump = top["properties"]["dump"]["properties"];
  const Json& compare = top["properties"]["compare"]["properties"];
  CHECK(strings_of(defs["determinism"]["enum"]) == enum_names(detail::kDeterminismModes));
  CHECK(strings_of(defs["rng"]["enum"]) == enum_names(detail::kRngModes));
  CHECK(strings_of(defs["grad"]["enum"]) == enum_names(detail::kGradModes));
  CHECK(strings_of(defs["model"]["anyOf"][1]["properties"]["mode"]["enum"]) ==
        enum_names(detail::kModelModes));
  CHECK(strings_of(dump["level"]["enum"]) == names_of(detail::kLevelNames));
  CHECK(strings_of(dump["depth"]["enum"]) == enum_names(detail::kDumpDepths));
  CHECK(strings_of(dump["browse"]["enum"]) == enum_names(detail::kBrowseModes));
  CHECK(strings_of(defs["policy_kind"]["enum"]) == enum_names(detail::kPolicyKinds));
  CHECK(strings_of(compare["unmatched"]["enum"]) == enum_names(detail::kUnmatchedRules));
  CHECK(strings_of(compare["strides"]["enum"]) == enum_names(detail::kAttributeRules));
  CHECK(strings_of(compare["device"]["enum"]) == enum_names(detail::kAttributeRules));
  CHECK(strings_of(compare["dtype"]["enum"]) == names_of(detail::kDtypeRuleNames));
  CHECK(strings_of(defs["equal_nan"]["enum"]) == enum_names(detail::kEqualNans));
  CHECK(strings_of(defs["signed_zero"]["enum"]) == names_of(detail::kSignedZeroNames));
  CHECK(strings_of(compare["align"]["enum"]) == enum_names(detail::kAlignModes));
  CHECK(strings_of(compare["order"]["enum"]) == enum_names(detail::kOperatorOrders));
  CHECK(strings_of(top["properties"]["report"]["properties"]["format"]["anyOf"][0]["enum"]) ==
        names_of(detail::kReportFormats));
  CHECK(keys_of(top["properties"]["report"]["properties"]["files"]["properties"]) ==
        names_of(detail::kReportFileFormats));
  const auto presets = preset_names();
  CHECK(strings_of(top["properties"]["preset"]["enum"]) == Names(presets.begin(), presets.end()));
}

TEST_CASE("the documentation names every key, every value and every variable pinned") {
  const std::string text = test::read_file(test::source_directory() / "docs" / "CONFIGURATION.md");
  Names names;
  for (const auto& keys : {names_of(detail::kConfigKeys),       names_of(detail::kRunKeys),
                           names_of(detail::kModelKeys),        names_of(detail::kCallKeys),
                           names_of(detail::kDumpKeys),         names_of(detail::kSliceKeys),
                           names_of(detail::kCompareKeys),      names_of(detail::kPolicyKeys),
                           names_of(detail::kRuleKeys),         names_of(detail::kMatchKeys),
                           enum_names(detail::kPolicyKinds),    enum_names(detail::kUnmatchedRules),
                           enum_names(detail::kAttributeRules), names_of(detail::kReportKeys),
                           names_of(detail::kBaselinesKeys),    names_of(detail::kExpectedKeys),
                           names_of(detail::kLimitKeys),        names_of(detail::kHappensNames),
                           names_of(detail::kSourceKeys),       names_of(detail::kGenerateKeys),
                           enum_names(detail::kDistributions),  enum_names(detail::kModelModes),
                           enum_names(detail::kBrowseModes)}) {
    names.insert(keys.begin(), keys.end());
  }
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
