// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/words/causes.h"
#include "comparators/compare.h"
#include "core/text/text.h"
#include "tests/cmd/render_reports.h"

namespace repro_check::cmd::render_json_test {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kRandomReports = 80;

// Fails on a duplicate key, which a plain parse would swallow.
Json parse_strictly(const std::string& text) {
  std::vector<std::set<std::string>> keys;
  bool has_duplicate = false;
  const auto note = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key) {
      has_duplicate = has_duplicate || !keys.back().insert(value.get<std::string>()).second;
    }
    return true;
  };
  Json json = Json::parse(text, note);
  CHECK_FALSE(has_duplicate);
  return json;
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) {
    keys.push_back(item.key());
  }
  return keys;
}

bool has_hostile_character(std::string_view text) {
  while (!text.empty()) {
    const core::Utf8Char character = core::first_char(text);
    if (!character.valid || (core::is_hostile(character.value) && character.value != '\n')) {
      return true;
    }
    text.remove_prefix(character.bytes);
  }
  return false;
}

tests::NamedReport handmade(const std::string& name) {
  for (tests::NamedReport& each : tests::handmade_reports()) {
    if (each.name == name) {
      return each;
    }
  }
  FAIL("no such report: ", name);
  return {};
}

TEST_CASE("the keys come in the documented order") {
  const Json json = parse_strictly(render_json(handmade("diverged_origin").report, {}));
  CHECK(keys_of(json) == std::vector<std::string>{"format",
                                                  "version",
                                                  "tool",
                                                  "verdict",
                                                  "returned",
                                                  "coverage",
                                                  "rules",
                                                  "screened",
                                                  "runs",
                                                  "differences",
                                                  "first_divergence",
                                                  "first_bit_difference",
                                                  "divergences",
                                                  "origins",
                                                  "growth",
                                                  "passes",
                                                  "repeat",
                                                  "control_flow",
                                                  "alignment",
                                                  "ranks",
                                                  "missing",
                                                  "modules",
                                                  "rng",
                                                  "replay",
                                                  "observer",
                                                  "expected",
                                                  "gate",
                                                  "findings",
                                                  "warnings",
                                                  "timing"});
  CHECK(json["format"] == "repro-check-report");
  CHECK(json["verdict"]["status"] == "diverged");
  CHECK(json["verdict"]["kind"] == "origin");
  CHECK(json["verdict"]["exit_code"] == 1);
  CHECK(json["divergences"]["shown"] == 4);
  CHECK(json["divergences"]["total"] == 431);
  const Json& op = json["first_divergence"];
  CHECK(op["key"]["operator"] == "aten::addmm");
  CHECK(op["source"]["file"] == "/home/ann/project/model.py");
  CHECK(op["source"]["line"] == 123);
  CHECK(op["outputs"][0]["samples"][0]["baseline"]["bits"] == "3faeec39");
  CHECK(op["outputs"][0]["metrics"]["max_abs"] == 2.384185791015625e-07);
  CHECK(json["runs"][0]["threads"] == 2);
  CHECK(json["runs"][0]["weights_digest"] != json["runs"][1]["weights_digest"]);
  CHECK(json["runs"][0]["inputs_digest"] == json["runs"][1]["inputs_digest"]);
}

TEST_CASE("numbers that JSON or a double cannot hold are text") {
  const Json nan = parse_strictly(render_json(handmade("diverged_nan").report, {}));
  const Json& metrics = nan["first_divergence"]["outputs"][0]["metrics"];
  CHECK(metrics["max_rel"] == "inf");
  CHECK(metrics["cosine"] == "nan");
  CHECK(metrics["max_abs"].is_null());
  CHECK(nan["first_divergence"]["outputs"][0]["samples"][2]["candidate"]["bits"] == "ffc00000");
  const Json whole = parse_strictly(render_json(handmade("diverged_int64").report, {}));
  const Json& output = whole["first_divergence"]["outputs"][0];
  CHECK(output["metrics"]["max_abs"] == "18446744073709551615");
  CHECK(output["samples"][0]["baseline"]["value"] == "-9223372036854775808");
}

TEST_CASE("no verbosity and no flag of the text changes a byte") {
  for (const tests::NamedReport& each : tests::handmade_reports()) {
    CAPTURE(each.name);
    const std::string plain = render_json(each.report, {});
    for (const int verbosity : {-1, 0, 1, 2}) {
      RenderOptions options;
      options.verbosity = verbosity;
      options.color = verbosity > 0;
      options.all = verbosity > 1;
      options.top = 3;
      options.config_path = "config.json";
      CHECK(render_json(each.report, options) == plain);
    }
    RenderOptions pretty;
    pretty.pretty_json = true;
    CHECK(Json::parse(render_json(each.report, pretty)) == Json::parse(plain));
  }
}

TEST_CASE("only timing depends on the clock") {
  tests::NamedReport each = handmade("diverged_origin");
  Json before = Json::parse(render_json(each.report, {}));
  each.report.seconds = 99;
  Json after = Json::parse(render_json(each.report, {}));
  CHECK(before != after);
  before.erase("timing");
  after.erase("timing");
  CHECK(before == after);
}

TEST_CASE("very many named tensors are written in linear time") {
  comparators::Report report = handmade("diverged_weights").report;
  REQUIRE(report.runs.size() == 2);
  for (int i = 0; i < 100'000; ++i) {
    const std::string name = "weight" + std::to_string(i);
    for (comparators::RunSummary& run : report.runs) {
      core::NamedTensor& known = run.manifest.named_tensors.emplace_back();
      known.kind = core::NamedTensorKind::kParameter;
      known.name = name;
    }
    comparators::NamedTensorDifference& tensor = report.named_tensors.emplace_back();
    tensor.kind = core::NamedTensorKind::kParameter;
    tensor.name = name;
    tensor.candidate = {1, static_cast<std::uint64_t>(i)};
  }
  const std::clock_t begin = std::clock();  // of the processor: the machine may be busy
  const Json json = Json::parse(render_json(report, {}));
  CHECK(std::clock() - begin < 30 * CLOCKS_PER_SEC);
  CHECK(json["differences"].back()["candidate"] == "0000000000000001000000000001869f");
}

TEST_CASE("any report is one tame and valid document") {
  for (std::uint32_t seed = 0; seed < kRandomReports; ++seed) {
    CAPTURE(seed);
    const comparators::Report report = tests::random_report(seed);
    const std::string text = render_json(report, {});
    CHECK(text.find('\n') == text.size() - 1);
    CHECK_FALSE(has_hostile_character(text));
    CHECK(text.find("##[") == std::string::npos);
    const Json json = parse_strictly(text);
    CHECK(json["verdict"]["exit_code"] == static_cast<int>(comparators::exit_code_of(report)));
    CHECK(json["divergences"]["items"].size() == json["divergences"]["shown"]);
    const Json& c = json["coverage"];
    CHECK(c["equal"].get<int>() + c["within_policy"].get<int>() + c["diverged"].get<int>() +
              c["mismatched"].get<int>() ==
          c["compared"].get<int>());
    for (std::size_t i = 0; i < report.warnings.size(); ++i) {
      CHECK(json["warnings"][i] == clean_utf8(words_of(report.warnings[i])));
    }
  }
}

TEST_CASE("the headline in JSON carries names as they are") {
  const tests::NamedReport each = handmade("hostile");
  const Json json = parse_strictly(render_json(each.report, {}));
  const std::string line = json["verdict"]["headline"];
  CHECK(line.find("evil::op\r\n::warning::x") != std::string::npos);
  CHECK(line.find("encoder\x1b[31m") != std::string::npos);
  CHECK(headline(each.report).find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace repro_check::cmd::render_json_test
