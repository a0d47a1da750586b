// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/trace/program_records.h"

namespace repro_check::core {
namespace {

/// As placed_names.py makes it of the same example.
std::string holders_of(const nlohmann::json& example) {
  std::string text;
  for (const auto& holder : example.value("holders", nlohmann::json::array())) {
    text += (text.empty() ? kHoldersMark : ',') + holder.get<std::string>();
  }
  return text;
}

TEST_CASE("the name of what a rank holds is read as the table of records has it") {
  std::ifstream file(REPRO_CHECK_RECORDS);
  const auto examples = nlohmann::json::parse(file).at("placed").at("examples");
  for (const auto& example : examples) {
    const auto text = example.at("text").get<std::string>();
    CAPTURE(text);
    const PlacedName placed = placed_name(text);
    CHECK(placed.whole == example.at("name").get<std::string>());
    CHECK(placed.ranks == holders_of(example));
    CHECK(placed.part.empty() != example.contains("parts"));
    CHECK(std::string(placed.whole) + std::string(placed.part) + std::string(placed.ranks) == text);
    nlohmann::json parts = nlohmann::json::array();
    for (const auto& [dimension, place, count] : placed.parts) {
      parts.push_back({dimension, place, count});
    }
    CHECK(parts == example.value("parts", nlohmann::json::array()));
  }
}

TEST_CASE("what only looks like a part belongs to the name") {
  for (const char* text : {"w@",
                           "w@0",
                           "w@x:0/2",
                           "w@0:1/2/3",
                           "w@0:1/2,",
                           "w@0:/2",
                           "w@:1/2",
                           "w|0;1",
                           "w@0:1/2.step"}) {
    CAPTURE(text);
    const PlacedName placed = placed_name(text);
    CHECK(placed.whole == text);
    CHECK(placed.part.empty());
    CHECK(placed.ranks.empty());
  }
}

}  // namespace
}  // namespace repro_check::core
