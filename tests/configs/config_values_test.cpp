// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <variant>

#include "core/error.h"
#include "tests/configs/fixture_files.h"

namespace repro_check::configs {
namespace {

using core::Dtype;

const InputSpec& only_input(const Config& config) {
  REQUIRE(config.runs.at(0).calls.size() == 1);
  REQUIRE(config.runs[0].calls[0].size() == 1);
  return config.runs[0].calls[0][0];
}

Config with_input(const std::string& input) {
  return test::parse(R"({"model": "files/model.pt", "inputs": [)" + input + "]}");
}

TEST_CASE("the configuration of the documentation, value by value") {
  const Config config = load_config(test::fixture_directory() / "good" / "issue.json", {});
  REQUIRE(config.runs.size() == 2);
  const RunSpec& run = config.runs[0];
  CHECK(config.file == test::fixture_directory() / "good" / "issue.json");
  CHECK(run.name == "baseline");
  ModelSpec model;
  model.path = test::fixture_directory() / "files" / "model.pt";
  CHECK(run.model == model);
  CHECK(run.seed == 1234);
  CHECK(run.threads == 2);
  CHECK(run.env.at("MKL_CBWR") == "COMPATIBLE");
  CHECK(run.dump.directory == test::fixture_directory() / "good" / "repro-check-out");
  CHECK(config.dump_directory(run) == run.dump.directory / "baseline");
  REQUIRE(run.calls.size() == 1);
  REQUIRE(run.calls[0].size() == 3);
  const auto& tokens = std::get<GeneratedInput>(run.calls[0][0].source);
  CHECK(run.calls[0][0].name == "tokens");
  CHECK(run.calls[0][0].pointer == "/inputs/0");
  CHECK(tokens.distribution == Distribution::kRandint);
  CHECK(tokens.shape == std::vector<std::int64_t>{2, 16});
  CHECK(tokens.dtype == Dtype::kInt64);
  CHECK(tokens.seed == 7);
  CHECK(tokens.high == 1000);
  CHECK(std::get<FileInput>(run.calls[0][1].source).path ==
        test::fixture_directory() / "files" / "mask.npy");
  CHECK(std::get<double>(std::get<ValueInput>(run.calls[0][2].source).value) == 0.5);
  CHECK(config.report.formats == std::vector<std::string>{"text", "json"});
  RunSpec candidate = run;
  candidate.name = "candidate";
  candidate.threads = 1;
  CHECK(config.runs[1] == candidate);
  RunSpec base = run;
  base.name = "run";
  CHECK(config.base == base);
}

TEST_CASE("reports are written to files below the configuration") {
  const Config config = test::parse_with(
      R"("report": {"format": "json", "files": {"html": "out/r.html", "junit": "/tmp/j.xml"}})");
  CHECK(config.report.formats == std::vector<std::string>{"json"});
  CHECK(config.report.files ==
        std::map<std::string, std::filesystem::path>{
            {"html", test::fixture_directory() / "out" / "r.html"}, {"junit", "/tmp/j.xml"}});
}

TEST_CASE("defaults") {
  const Config config = test::parse_with("");
  REQUIRE(config.runs.size() == 2);
  RunSpec expected;
  expected.name = "baseline";
  expected.model.path = test::fixture_directory() / "files" / "model.pt";
  expected.calls = {CallSpec{}};
  expected.dump.directory = test::fixture_directory() / "repro-check-out";
  CHECK(config.runs[0] == expected);
  expected.name = "candidate";
  CHECK(config.runs[1] == expected);
  CHECK(config.compare.policy.kind == PolicyKind::kBitwise);
  CHECK_FALSE(config.compare.policy.rtol);
  CHECK_FALSE(config.compare.policy.equal_nan);
  CHECK(config.report.formats == std::vector<std::string>{"text"});
  CHECK(config.report.files.empty());
}

TEST_CASE("a run merges env, settings and model key by key and replaces the rest") {
  const Config config = test::parse_with(R"(
      "env": {"A": "1", "B": "2"}, "settings": {"x": 1, "y": true}, "threads": 4, "dtype": "half",
      "runs": [{"name": "a"},
               {"name": "b", "env": {"B": null, "C": "3"}, "settings": {"x": null, "z": "on"},
                "model": {"mode": "train"}, "threads": null, "dtype": null, "inputs": [1]}])");
  const RunSpec& run = config.runs[1];
  CHECK(run.env == decltype(run.env){{"A", "1"}, {"B", std::nullopt}, {"C", "3"}});
  CHECK(run.settings == decltype(run.settings){{"y", "on"}, {"z", "on"}});
  CHECK(run.model.path == test::fixture_directory() / "files" / "model.pt");
  CHECK(run.model.mode == ModelMode::kTrain);
  CHECK_FALSE(run.threads);
  CHECK_FALSE(run.dtype);
  CHECK(run.calls[0].size() == 1);
  CHECK(run.calls[0][0].pointer == "/runs/1/inputs/0");
  CHECK(config.runs[0].settings == decltype(run.settings){{"x", "1"}, {"y", "on"}});
}

TEST_CASE("model and inputs may stand in the runs alone; then there is no base to record") {
  const Config config = test::parse(R"({"runs": [
      {"name": "a", "model": "files/model.pt", "inputs": []},
      {"name": "b", "model": "files/other.pt", "calls": [{"inputs": []}, {"inputs": [1]}]}]})");
  CHECK_FALSE(config.base);
  CHECK(config.runs[1].model.path.filename() == "other.pt");
  CHECK(config.runs[1].calls.size() == 2);
}

TEST_CASE("numbers keep their kind and every bit") {
  const auto value = [](const std::string& text) {
    return std::get<ValueInput>(only_input(with_input(text)).source).value;
  };
  CHECK(std::get<std::int64_t>(value("3")) == 3);
  CHECK(std::get<double>(value("3.0")) == 3.0);
  CHECK(std::signbit(std::get<double>(value("-0.0"))));
  CHECK(std::get<double>(value("0.1")) == 0.1);
  CHECK(std::get<std::int64_t>(value("9223372036854775807")) == INT64_MAX);
  CHECK(std::get<std::int64_t>(value("-9223372036854775808")) == INT64_MIN);
  CHECK(std::get<std::string>(value(R"({"value": "a\u0000b"})")) == std::string("a\0b", 3));
  CHECK(std::holds_alternative<std::nullptr_t>(value("null")));
  CHECK(std::get<bool>(value("false")) == false);
}

TEST_CASE("what generated inputs default to") {
  const auto generated = [](const std::string& members) {
    return std::get<GeneratedInput>(only_input(with_input("{" + members + "}")).source);
  };
  CHECK(generated(R"("generate": "zeros", "shape": [])").dtype == Dtype::kFloat32);
  CHECK(generated(R"("generate": "arange", "shape": [3])").dtype == Dtype::kInt64);
  CHECK(generated(R"("generate": "randint", "shape": [3], "high": 2)").dtype == Dtype::kInt64);
  const GeneratedInput normal = generated(R"("generate": "normal", "shape": [3])");
  CHECK(normal.mean == 0);
  CHECK(normal.std == 1);
  const GeneratedInput uniform = generated(R"("generate": "uniform", "shape": [3])");
  CHECK(uniform.low == 0);
  CHECK(uniform.high == 1);
}

TEST_CASE("random inputs without a seed differ from each other, and call by call count anew") {
  const Config config = test::parse(R"({"model": "files/model.pt", "calls": [
      {"inputs": [{"generate": "normal", "shape": [1]},
                  {"list": [{"generate": "normal", "shape": [1]}]}]},
      {"inputs": [{"generate": "normal", "shape": [1]}]}]})");
  const auto& calls = config.runs[0].calls;
  CHECK(std::get<GeneratedInput>(calls[0][0].source).seed == 0);
  const auto& list = std::get<ContainerInput>(calls[0][1].source);
  CHECK(std::get<GeneratedInput>(list.items[0].source).seed == 1);
  CHECK(list.items[0].pointer == "/calls/0/inputs/1/list/0");
  CHECK(std::get<GeneratedInput>(calls[1][0].source).seed == 0);
}

TEST_CASE("dictionaries and inputs by name keep their order") {
  const Config config = test::parse(
      R"({"model": "files/model.pt", "inputs": {"z": {"dict": {"y": 1, "a/b": 2}}, "b": null}})");
  const CallSpec& call = config.runs[0].calls[0];
  REQUIRE(call.size() == 2);
  CHECK(call[0].name == "z");
  CHECK(call[1].name == "b");
  const auto& entries = std::get<ContainerInput>(call[0].source).items;
  CHECK(entries[0].name == "y");
  CHECK(entries[1].name == "a/b");
  CHECK(entries[1].pointer == "/inputs/z/dict/a~1b");
}

TEST_CASE("paths: relative ones to the configuration, absolute ones as they are") {
  const auto absolute = test::fixture_directory() / "files" / "other.pt";
  const Config config = test::parse_with(R"("dump": {"directory": "../out/./x"},
      "runs": [{"name": "a"}, {"name": "b", "model": ")" +
                                         absolute.string() + R"("}])");
  CHECK(config.runs[0].dump.directory == test::fixture_directory().parent_path() / "out" / "x");
  CHECK(config.runs[1].model.path == absolute);
}

TEST_CASE("compare and dump sections") {
  const Config config = test::parse_with(R"(
      "compare": {"policy": "tolerance", "rtol": 1e-3, "atol": 0, "equal_nan": "never",
                  "signed_zero": "distinct", "max_growth": 50, "threads": 3,
                  "numbers": ["losses", "state"]},
      "dump": {"level": "stats", "depth": "all", "browse": "always", "verify_inputs": true,
               "include": ["aten::*"], "exclude": ["*dropout*"],
               "memory": "64MiB", "max_bytes": 1000,
               "slice": {"elements": 1000, "above": "1MiB"},
               "reference": "kept/baseline"})");
  CHECK(config.compare.policy.kind == PolicyKind::kTolerance);
  CHECK(config.compare.policy.rtol == 1e-3);
  CHECK(config.compare.policy.atol == 0.0);
  CHECK(config.compare.policy.equal_nan == EqualNan::kNever);
  CHECK(config.compare.policy.signed_zero_distinct == true);
  CHECK(config.compare.max_growth == 50.0);
  CHECK(config.compare.threads == 3U);
  CHECK(config.compare.numbers == std::vector{NumberKind::kLosses, NumberKind::kState});
  const DumpSpec& dump = config.runs[1].dump;
  CHECK(dump.level == DumpLevel::kStats);
  CHECK(dump.depth == DumpDepth::kAll);
  CHECK(dump.browse == BrowseMode::kAlways);
  CHECK(dump.verify_inputs);
  CHECK(dump.include == std::vector<std::string>{"aten::*"});
  CHECK(dump.exclude == std::vector<std::string>{"*dropout*"});
  CHECK(dump.memory == std::uint64_t{64} << 20U);
  CHECK(dump.max_bytes == 1000U);
  CHECK(dump.slice == core::SliceRule{1000, 1, std::uint64_t{1} << 20U});
  CHECK(dump.reference == test::fixture_directory() / "kept" / "baseline");
}

TEST_CASE("numbers of bytes") {
  const auto memory = [](const std::string& text) {
    return test::parse_with("\"dump\": {\"memory\": " + text + "}").runs[0].dump.memory;
  };
  CHECK(memory("8388608") == kLeastDumpMemory);
  CHECK(memory("\"8192KiB\"") == kLeastDumpMemory);
  CHECK(memory("\"3GiB\"") == std::uint64_t{3} << 30U);
  CHECK(memory("\"1TiB\"") == std::uint64_t{1} << 40U);
  for (const char* wrong : {"8388607",
                            "-1",
                            "1e9",
                            "true",
                            "\"\"",
                            "\"many\"",
                            "\"256 MiB\"",
                            "\"256MB\"",
                            "\"-1GiB\"",
                            "\"16777216TiB\"",
                            "\"99999999999999999999\"",
                            "18446744073709551615"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(memory(wrong), core::Error);
  }
}

TEST_CASE("the level is given, or for the command to choose") {
  const auto plan = [](const std::string& dump) {
    return test::parse_with(R"("dump": {)" + dump + "}").recording;
  };
  CHECK(plan("").level == LevelChoice::kDefault);
  CHECK(plan("").window == 8);
  CHECK(plan(R"("level": "digest")").level == LevelChoice::kFixed);
  const RecordingPlan automatic = plan(R"("level": "auto", "window": 0)");
  CHECK(automatic.level == LevelChoice::kAuto);
  CHECK(automatic.window == 0);
}

TEST_CASE("a program is seeded where that was asked for, and where settings are compared") {
  const auto seed_of = [](const std::string& members, ProgramSeed default_seed, std::size_t run) {
    const std::string text =
        R"({"program": {"command": ["true"]})" + (members.empty() ? "" : ", " + members) + "}";
    return parse_config(text, "config.json", test::fixture_directory(), {}, default_seed)
        .runs.at(run)
        .seed;
  };
  const std::string runs = R"("runs": [{"name": "a"}, {"name": "b", "threads": 1}])";
  CHECK(seed_of("", ProgramSeed::kNone, 1) == std::nullopt);
  CHECK(seed_of("", ProgramSeed::kZero, 1) == 0);
  CHECK(seed_of(runs, ProgramSeed::kNone, 1) == 0);
  CHECK(seed_of(R"("seed": 3, )" + runs, ProgramSeed::kNone, 1) == 3);
  CHECK(seed_of(R"("seed": null, )" + runs, ProgramSeed::kNone, 1) == std::nullopt);
  for (const ProgramSeed each : {ProgramSeed::kNone, ProgramSeed::kZero}) {
    CHECK(seed_of(R"("seed": 0)", each, 0) == 0);
    CHECK(seed_of(R"("seed": null)", each, 0) == std::nullopt);
  }
  const Config of_runs = test::parse(
      R"({"runs": [{"name": "a", "program": {"command": ["true"]}},
                   {"name": "b", "program": {"command": ["true"]}, "seed": null}]})");
  CHECK(of_runs.runs[0].seed == 0);
  CHECK(of_runs.runs[1].seed == std::nullopt);
  CHECK_FALSE(of_runs.names_seed);
  CHECK(test::parse(R"({"program": {"command": ["true"]}, "seed": null})").names_seed);
  // A model has no line that could seed it.
  CHECK(test::parse_with("").runs[0].seed == 0);
}

}  // namespace
}  // namespace repro_check::configs
