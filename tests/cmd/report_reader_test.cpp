// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <string_view>

#include "cmd/render/json/report_json.h"
#include "cmd/render/render.h"
#include "core/error.h"
#include "tests/cmd/render_reports.h"

namespace repro_check::cmd::report_reader_test {
namespace {

using Json = nlohmann::ordered_json;
using comparators::Report;

DocumentOptions document_options(const RenderOptions& options) {
  DocumentOptions document{options, "bert", "/home/ann/project", "", false};
  document.verbosity = 0;
  document.color = false;
  document.link_host.clear();
  document.logs.clear();
  return document;
}

std::string document_of(std::string_view format,
                        const Report& report,
                        const DocumentOptions& options) {
  return find_format(format)->render({&report, 1}, options);
}

/// A JSON report does not say whether its dumps hold values, so other commands may be proposed.
std::string without_commands(const std::string& document) {
  std::string kept;
  std::istringstream lines(document);
  for (std::string line; std::getline(lines, line);) {
    // With the commands goes the block of Markdown that holds nothing else.
    if (line.empty() || line.starts_with("```")) continue;
    if (line.find("repro-check run -c") == std::string::npos &&
        line.find("repro-check inspect ") == std::string::npos) {
      kept += line + "\n";
    }
  }
  return kept;
}

std::string refusal_of(const std::string& document) {
  try {
    read_reports(document, "r.json");
  } catch (const core::Error& error) {
    CHECK(error.kind() == core::ErrorKind::kUsage);
    return error.what();
  }
  return {};
}

TEST_CASE("a report that was read gives the documents that it gave before") {
  for (const tests::NamedReport& each : tests::handmade_reports()) {
    // What is hostile is spelled out in JSON, and stays so.
    if (each.name == "hostile") continue;
    CAPTURE(each.name);
    RenderOptions options = each.options;
    const Report& whole = each.report;
    const std::string json = render_json(whole, options);
    const ReadReports read = read_reports(json, "r.json");
    REQUIRE(read.reports.size() == 1);
    options.gate = read.gate ? &*read.gate : nullptr;
    options.hdf5_version = read.hdf5_version;
    const DocumentOptions before = document_options(each.options);
    const DocumentOptions after = document_options(options);
    for (const std::string_view format : {"text", "markdown", "sarif", "github", "codequality"}) {
      CAPTURE(format);
      CHECK(without_commands(document_of(format, read.reports[0], after)) ==
            without_commands(document_of(format, whole, before)));
    }
  }
}

TEST_CASE("a pretty document and a list of reports are read as well") {
  const auto samples = tests::handmade_reports();
  RenderOptions options;
  options.pretty_json = true;
  const std::string one = render_json(samples[0].report, options);
  const std::string two = render_json(samples[1].report, options);
  const ReadReports read = read_reports("[\n" + one + "," + two + "]\n", "r.json");
  REQUIRE(read.reports.size() == 2);
  CHECK(headline(read.reports[0]) == headline(samples[0].report));
  CHECK(headline(read.reports[1]) == headline(samples[1].report));
}

TEST_CASE("what is no report of this version is refused, saying why") {
  const std::string json = render_json(tests::handmade_reports()[0].report, {});
  CHECK(refusal_of(json).empty());
  CHECK(refusal_of("").find("it is not JSON, or not complete") != std::string::npos);
  CHECK(refusal_of(json.substr(0, json.size() / 2)).find("not complete") != std::string::npos);
  CHECK(refusal_of("[]").find("it holds no report") != std::string::npos);
  CHECK(refusal_of("{}").find("it is not a JSON report") != std::string::npos);
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  CHECK(refusal_of(deep).find("nested too deeply") != std::string::npos);
  CHECK(refusal_of("3").find("it is not a JSON report") != std::string::npos);
  Json other = Json::parse(json);
  other["version"] = "1.6";
  CHECK(refusal_of(other.dump()).find("it is of version 1.6, and this") != std::string::npos);
  other = Json::parse(json);
  other.erase("coverage");
  CHECK(refusal_of(other.dump()).find("missing or of another type") != std::string::npos);
}

TEST_CASE("a verdict that was changed by hand is refused") {
  Json json;
  for (const tests::NamedReport& each : tests::handmade_reports()) {
    if (each.report.status != comparators::Status::kDiverged) continue;
    json = Json::parse(render_json(each.report, each.options));
    break;
  }
  REQUIRE(json.is_object());
  json["verdict"]["status"] = "reproducible";
  CHECK(refusal_of(json.dump()).find("/verdict/") != std::string::npos);
  json["verdict"]["exit_code"] = 0;
  CHECK(refusal_of(json.dump()).find("/verdict/headline does not agree") != std::string::npos);
}

TEST_CASE("hostile and damaged documents are read, or refused with a reason") {
  std::mt19937 random(17);
  std::uint64_t taken = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    const Report report = tests::random_report(seed);
    std::string json = render_json(report, {});
    taken += refusal_of(json).empty() ? 1U : 0U;
    constexpr std::string_view kBytes = "0{}[],:\"x-e";
    for (int change = 0; change < 3; ++change) json[random() % json.size()] = kBytes[random() % 11];
    refusal_of(json);
  }
  CHECK(taken > 20);
}

}  // namespace
}  // namespace repro_check::cmd::report_reader_test
