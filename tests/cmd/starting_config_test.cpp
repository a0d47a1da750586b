// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/starting_config.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace repro_check::cmd {
namespace {

struct Argument {
  std::string name;
  std::string type;
  bool has_default = false;
  std::string default_value = {};
};

StartingConfig config_for(const std::vector<Argument>& arguments) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Argument& argument : arguments) {
    list.push_back({{"name", argument.name},
                    {"type", argument.type},
                    {"has_default", argument.has_default},
                    {"default_value", argument.default_value}});
  }
  return starting_config("m.pt", "forward", {{"arguments", list}});
}

nlohmann::json inputs_for(const std::vector<Argument>& arguments) {
  return nlohmann::json::parse(config_for(arguments).text).at("inputs");
}

}  // namespace

TEST_CASE("an input is suggested for every type a configuration can express") {
  const auto inputs = inputs_for({{"x", "Tensor"},
                                  {"n", "int"},
                                  {"scale", "float"},
                                  {"flag", "bool"},
                                  {"mode", "str"},
                                  {"mask", "Optional[Tensor]"},
                                  {"xs", "List[Tensor]"},
                                  {"state", "Tuple[Tensor, List[int]]"},
                                  {"named", "Dict[str, Tensor]"}});
  REQUIRE(inputs.size() == 9);
  CHECK(inputs[0]["generate"] == "normal");
  CHECK(inputs[0]["shape"] == nlohmann::json::array({1, 1}));
  CHECK(inputs[1]["value"] == 1);
  CHECK(inputs[2]["value"].is_number_float());
  CHECK(inputs[3]["value"] == false);
  CHECK(inputs[4]["value"] == "");
  CHECK(inputs[5]["value"].is_null());
  CHECK(inputs[6]["list"][0]["generate"] == "normal");
  CHECK(inputs[7]["tuple"].size() == 2);
  CHECK(inputs[7]["tuple"][1]["list"][0]["value"] == 1);
  CHECK(inputs[8]["dict"]["key"]["generate"] == "normal");
}

TEST_CASE("no two tensors are given the same numbers, wherever they are") {
  const auto inputs = inputs_for(
      {{"pair", "Tuple[Tensor, Tensor]"}, {"n", "int"}, {"xs", "List[Tensor]"}, {"x", "Tensor"}});
  CHECK(inputs[0]["tuple"][0]["seed"] == 1);
  CHECK(inputs[0]["tuple"][1]["seed"] == 2);
  CHECK(inputs[2]["list"][0]["seed"] == 3);
  CHECK(inputs[3]["seed"] == 4);
}

TEST_CASE("defaults are written where JSON can say them, and left to the model where not") {
  const auto inputs = inputs_for({{"a", "int", true, "3"},
                                  {"b", "float", true, "0.5"},
                                  {"c", "bool", true, "True"},
                                  {"d", "Optional[Tensor]", true, "None"},
                                  {"e", "str", true, "\"mean\""},
                                  {"f", "List[int]", true, "[1, 2]"}});
  REQUIRE(inputs.size() == 5);
  CHECK(inputs[0]["value"] == 3);
  CHECK(inputs[1]["value"] == 0.5);
  CHECK(inputs[2]["value"] == true);
  CHECK(inputs[3]["value"].is_null());
  CHECK(inputs[4]["value"] == "mean");
}

TEST_CASE("what to edit is told, and what cannot be expressed as well") {
  const auto config =
      config_for({{"x", "Tensor"}, {"rng", "Generator"}, {"d", "Dict[int, Tensor]"}});
  REQUIRE(config.edits.size() == 3);
  CHECK(config.edits[0].text.find("set its shape") != std::string::npos);
  CHECK(config.edits[1].text.find("cannot express") != std::string::npos);
  CHECK(config.edits[2].text.find("cannot express") != std::string::npos);
  CHECK(nlohmann::json::parse(config.text).at("inputs").size() == 1);
}

TEST_CASE("what the weights tell of an input is taken, and what they leave open is asked for") {
  const auto described = nlohmann::ordered_json::parse(R"({"dtype": "bfloat16", "arguments": [
      {"name": "tokens", "type": "Tensor", "dtype": "int64", "layer": "embed.weight",
       "shape": [-1, -1], "rows": 30},
      {"name": "x", "type": "Tensor", "dtype": "float64", "layer": "fc.weight", "shape": [1, 8]},
      {"name": "image", "type": "Tensor", "dtype": "float32", "layer": "conv.weight",
       "shape": [1, 3, -1, -1]},
      {"name": "mask", "type": "Tensor"}]})");
  const StartingConfig config = starting_config("m.pt", "forward", described);
  const auto inputs = nlohmann::json::parse(config.text).at("inputs");
  CHECK(inputs[0]["generate"] == "randint");
  CHECK(inputs[0]["dtype"] == "int64");
  CHECK(inputs[0]["high"] == 30);
  CHECK(inputs[1]["generate"] == "normal");
  CHECK(inputs[1]["dtype"] == "float64");
  CHECK(inputs[1]["shape"] == nlohmann::json::array({1, 8}));
  CHECK(inputs[2]["shape"] == nlohmann::json::array({1, 3, 1, 1}));
  CHECK(inputs[3]["dtype"] == "bfloat16");
  REQUIRE(config.edits.size() == 4);
  CHECK(config.edits[0].pointer == "/inputs/0/shape");
  CHECK(config.edits[0].text ==
        "input \"tokens\" (Tensor): set its shape: int64 from 0 to 29, rows of embed.weight; -1 is "
        "any size");
  CHECK(config.edits[1].pointer.empty());
  CHECK(config.edits[1].text == "input \"x\" (Tensor): float64 of [1, 8], as fc.weight takes it");
  CHECK(config.edits[2].text ==
        "input \"image\" (Tensor): set its shape: float32 of [1, 3, -1, -1], as conv.weight takes "
        "it; -1 is any size");
  CHECK(config.edits[3].pointer == "/inputs/3/shape");
}

TEST_CASE("a type that never ends and a name that is not UTF-8 do no harm") {
  std::string type;
  for (int i = 0; i < 50; ++i) type += "List[";
  type += "Tensor";
  for (int i = 0; i < 50; ++i) type += "]";
  CHECK(inputs_for({{"deep", type}}).empty());
  CHECK(inputs_for({{"a\xff", "Tensor"}}).size() == 1);
}

TEST_CASE("what presets decide is left to them") {
  const auto config = nlohmann::json::parse(config_for({{"x", "Tensor"}}).text);
  for (const char* key : {"determinism", "disable_dropout", "rng", "grad", "threads", "compare"}) {
    CHECK_FALSE(config.contains(key));
  }
}

}  // namespace repro_check::cmd
