// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "core/error.h"
#include "tests/configs/random_request.h"

namespace repro_check::configs {
namespace {

TEST_CASE("a request reads back exactly, whatever is in it") {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    const RecordRequest request = test::RandomRequest(seed).make();
    const std::string text = to_json_text(request);
    const RecordRequest back = record_request_from_json_text(text, "request.json");
    CHECK(back == request);
    CHECK(to_json_text(back) == text);
  }
}

TEST_CASE("numbers that JSON lacks survive") {
  RecordRequest request = test::RandomRequest(1).make();
  const auto send = [&](double value) {
    InputSpec input;
    input.source = ValueInput{value};
    request.run.calls = {{input}};
    const auto back = record_request_from_json_text(to_json_text(request), "request.json");
    return std::get<double>(std::get<ValueInput>(back.run.calls[0][0].source).value);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(std::isnan(send(std::numeric_limits<double>::quiet_NaN())));
  CHECK(send(infinity) == infinity);
  CHECK(send(-infinity) == -infinity);
  CHECK(std::signbit(send(-0.0)));
  CHECK(send(5e-324) == 5e-324);
}

TEST_CASE("a path that is not UTF-8 is refused, not bent") {
  RecordRequest request = test::RandomRequest(1).make();
  request.dump = "/tmp/\xff";
  CHECK_THROWS_AS(to_json_text(request), core::Error);
}

TEST_CASE("a request cut short at any byte, or with any byte changed, never crashes") {
  const std::string text = to_json_text(test::RandomRequest(7).make());
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {
    CHECK_THROWS_AS(record_request_from_json_text(text.substr(0, length), "r"), core::Error);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string changed = text;
    changed[random() % changed.size()] = static_cast<char>(random());
    try {
      record_request_from_json_text(changed, "r");
    } catch (const core::Error& error) {
      CHECK(error.kind() == core::ErrorKind::kUsage);
    }
  }
}

TEST_CASE("another format, or a request without its parts, is refused") {
  const auto refusal = [](const std::string& text) {
    try {
      record_request_from_json_text(text, "r.json");
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  CHECK(refusal("[]") == "r.json: expected an object, got an empty list");
  CHECK(refusal(R"({"format": "other"})").starts_with("r.json: /format: expected"));
  CHECK(refusal(R"({"format": "repro-check-request-1", "run": {}, "dump_directory": "/x",
                    "replace_existing": false})") ==
        "r.json: /run: \"name\" is missing\n"
        "r.json: /run: \"model\" is missing\n"
        "r.json: /run: \"calls\" is missing");
}

TEST_CASE("operators to keep must be ranges that ascend") {
  RecordRequest request = test::RandomRequest(3).make();
  request.run.dump.keep_ops = {{77, 78}};
  const std::string text = to_json_text(request);
  CHECK(record_request_from_json_text(text, "r.json").run.dump.keep_ops ==
        core::OpRanges{{77, 78}});
  for (const char* wrong : {"-1", "\"77\"", "79", "77, 77", "77], [78"}) {
    std::string changed = text;
    changed.replace(changed.find("77"), 2, wrong);
    CAPTURE(wrong);
    CHECK_THROWS_AS(record_request_from_json_text(changed, "r.json"), core::Error);
  }
}

TEST_CASE("the run of a manifest is the run, without where its inputs stood") {
  const RecordRequest request = test::RandomRequest(3).make();
  const std::string text = to_json_text(request.run);
  CHECK(text.find("\"pointer\"") == std::string::npos);
  CHECK(text.find("\"name\": \"" + request.run.name + "\"") != std::string::npos);
  CHECK(text.ends_with("}\n"));
}

}  // namespace
}  // namespace repro_check::configs
