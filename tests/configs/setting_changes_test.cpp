// SPDX-License-Identifier: Apache-2.0
#include "configs/setting_changes.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "configs/parser/config_parser.h"
#include "tests/configs/fixture_files.h"
#include "tests/configs/pointers.h"

namespace repro_check::configs {
namespace {

Config two_runs() {
  return test::parse(R"({
    "model": "files/model.pt", "inputs": [1], "threads": 2,
    "env": {"SAME": "1", "OTHER": "1", "GONE": "1"}, "settings": {"x": 1, "y": "on"},
    "runs": [
      {"name": "a"},
      {"name": "b", "model": {"path": "files/other.pt", "mode": "train", "weights_from": "files/model.pt", "weights": ["w"]},
       "inputs": [{"npy": "files/mask.npy"}],
       "seed": 7, "determinism": "error", "disable_dropout": false, "rng": "host",
       "grad": "enabled", "device": "cuda:1", "dtype": "float16", "threads": 1,
       "interop_threads": 3, "optimize_executor": true,
       "env": {"OTHER": "2", "GONE": null, "NEW": "3"}, "settings": {"x": null, "y": "off", "z": 4},
       "recorder": "files/recorder", "extensions": ["files/mask.npy"]}]})");
}

TEST_CASE("every setting that can differ is found, each by itself") {
  const Config config = two_runs();
  const auto changes = setting_changes(config.runs[0], config.runs[1]);
  CHECK(pointers(changes) ==
        std::vector<std::string>{"/model/path",    "/model/mode",      "/model/weights_from",
                                 "/model/weights", "/calls",           "/seed",
                                 "/determinism",   "/disable_dropout", "/rng",
                                 "/grad",          "/device",          "/dtype",
                                 "/threads",       "/interop_threads", "/optimize_executor",
                                 "/env/GONE",      "/env/NEW",         "/env/OTHER",
                                 "/settings/x",    "/settings/y",      "/settings/z",
                                 "/recorder",      "/extensions"});
  CHECK(setting_changes(config.runs[0], config.runs[0]).empty());
}

TEST_CASE("all changes make the other run, and each of them one difference less") {
  const Config config = two_runs();
  const auto changes = setting_changes(config.runs[0], config.runs[1]);
  RunSpec run = config.runs[0];
  for (std::size_t i = 0; i < changes.size(); ++i) {
    changes[i].apply(run);
    CHECK(setting_changes(run, config.runs[1]).size() == changes.size() - i - 1);
  }
  run.name = config.runs[1].name;
  CHECK(run == config.runs[1]);
}

TEST_CASE("a change says what it was and what it is") {
  const Config config = two_runs();
  for (const SettingChange& change : setting_changes(config.runs[0], config.runs[1])) {
    if (change.pointer == "/threads") {
      CHECK(change.baseline == "2");
      CHECK(change.candidate == "1");
    } else if (change.pointer == "/env/NEW") {
      CHECK(change.baseline == "unset");
      CHECK(change.candidate == "\"3\"");
    } else if (change.pointer == "/env/GONE") {
      CHECK(change.candidate == "null");
    } else if (change.pointer == "/dtype") {
      CHECK(change.baseline == "null");
      CHECK(change.candidate == "\"float16\"");
    }
  }
}

TEST_CASE("values of calls are told by their places, and tensors, names and silence are not") {
  const auto run = [](const std::string& inputs) {
    return R"({"calls": [{"inputs": [)" + inputs + "]}]}";
  };
  const std::string from = run(
      R"({"generate": "ones", "shape": [2], "name": "x"}, {"value": 1, "name": "n"}, {"list": [{"value": "a"}]})");
  const std::string to =
      run(R"({"npy": "x.npy"}, {"value": 0}, {"list": [{"value": "a"}, {"value": 2.5}]})");
  const auto changes = recorded_values(from, to);
  CHECK(pointers(changes) ==
        std::vector<std::string>{"/calls/0/inputs/1/value", "/calls/0/inputs/2/list/1/value"});
  CHECK(changes.front().baseline == "1");
  CHECK(changes.front().candidate == "0");
  CHECK(changes.back().baseline == "unset");
  CHECK(recorded_values(from, from).empty());
  CHECK(recorded_values("{}", to).empty());
  CHECK(recorded_values("not JSON", to).empty());
}

TEST_CASE("the files of a run are its models, inputs and recorder") {
  const Config config = two_runs();
  std::vector<std::string> names;
  for (const auto& file : files_of(config.runs[1])) names.push_back(file.filename().string());
  CHECK(names == std::vector<std::string>{"other.pt", "model.pt", "mask.npy", "recorder"});
}

TEST_CASE("no member of a run is forgotten") {
  // A new member makes this fail: it belongs into setting_changes(), or it is no setting.
  const Config config = two_runs();
  const auto text = nlohmann::ordered_json::parse(to_json_text(config.runs[0]));
  std::vector<std::string> members;
  for (const auto& [key, value] : text.items()) members.push_back(key);
  CHECK(members == std::vector<std::string>{"name",
                                            "model",
                                            "calls",
                                            "seed",
                                            "determinism",
                                            "disable_dropout",
                                            "rng",
                                            "grad",
                                            "device",
                                            "dtype",
                                            "threads",
                                            "interop_threads",
                                            "optimize_executor",
                                            "env",
                                            "settings",
                                            "recorder",
                                            "dump"});
}

}  // namespace
}  // namespace repro_check::configs
