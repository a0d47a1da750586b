// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "cmd/render/ci/alerts.h"
#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/causes.h"
#include "comparators/compare.h"
#include "core/text/text.h"
#include "tests/cmd/render_builders.h"
#include "tests/cmd/render_reports.h"

namespace repro_check::cmd::render_documents_test {
namespace {

using comparators::Report;
using comparators::Status;

constexpr std::uint32_t kRandomReports = 60;

DocumentOptions bert() {
  DocumentOptions options;
  options.subject = "bert";
  options.source_root = "/home/ann/project";
  return options;
}

std::vector<Report> every_report() {
  std::vector<Report> out;
  for (const tests::NamedReport& each : tests::handmade_reports()) out.push_back(each.report);
  for (std::uint32_t seed = 0; seed < kRandomReports; ++seed) {
    out.push_back(tests::random_report(seed));
  }
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

/// What a terminal or a runner obeys, or nobody can see.
bool is_clean(std::string_view text) {
  for (std::string_view rest = text; !rest.empty();) {
    const core::Utf8Char character = core::first_char(rest);
    const bool is_line_feed = character.value == '\n';
    if (!character.valid || (!is_line_feed && core::is_hostile(character.value))) return false;
    rest.remove_prefix(character.bytes);
  }
  return text.find("##[") == std::string_view::npos &&
         text.find("##vso[") == std::string_view::npos;
}

TEST_CASE("every format has a name of its own and is found by it") {
  std::set<std::string_view> names;
  for (const ReportFormat& format : report_formats()) {
    CHECK(names.insert(format.name).second);
    CHECK(find_format(format.name) == &format);
    CHECK(static_cast<bool>(format.render));
  }
  CHECK(find_format("tap") == nullptr);
}

TEST_CASE("no name steers what reads a document, and a document ends in a line feed") {
  for (const ReportFormat& format : report_formats()) {
    CAPTURE(format.name);
    for (const Report& report : every_report()) {
      const std::string text = format.render({&report, 1}, bert());
      REQUIRE_FALSE(text.empty());
      CHECK(text.back() == '\n');
      // A page is for a browser, not for a terminal or a runner; tests/cmd/html reads it in one.
      if (format.name != "html") CHECK(is_clean(text));
    }
  }
}

TEST_CASE("a document is the same twice, whatever the verbosity") {
  for (const ReportFormat& format : report_formats()) {
    if (format.name == "text") continue;
    CAPTURE(format.name);
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      const Report report = tests::random_report(seed);
      DocumentOptions loud = bert();
      loud.verbosity = 2;
      loud.color = true;
      loud.all = true;
      CHECK(format.render({&report, 1}, bert()) == format.render({&report, 1}, loud));
    }
  }
}

TEST_CASE("alerts are empty on a pass and hold a cause otherwise") {
  for (const Report& report : every_report()) {
    const std::vector<Alert> alerts = alerts_of(report, nullptr);
    if (comparators::exit_code_of(report) == core::ExitCode::kReproducible) {
      CHECK(alerts.empty());
    } else {
      CHECK(std::ranges::any_of(alerts, [](const Alert& each) { return !each.consequence; }));
    }
  }
}

TEST_CASE(
    "an operator that was given other weights or inputs is no origin, whatever its relation") {
  using comparators::CauseKind;
  using comparators::Relation;
  for (const CauseKind cause :
       {CauseKind::kWeights, CauseKind::kInputData, CauseKind::kConstant, CauseKind::kArgument}) {
    for (const Relation relation :
         {Relation::kOrigin, Relation::kPropagated, Relation::kMismatch}) {
      CAPTURE(comparators::cause_id(cause));
      Report report = tests::base(Status::kDiverged, comparators::DivergenceKind::kOrigin);
      report.first_divergence = tests::first_origin();
      report.first_divergence->relation = relation;
      report.first_divergence->cause.kind = cause;
      report.divergences_total = 1;
      const std::vector<Alert> alerts = alerts_of(report, nullptr);
      REQUIRE(alerts.size() == 1);
      CHECK(alerts.front().rule == RuleId::kInherited);
      CHECK_FALSE(alerts.front().consequence);
      CHECK(alerts.front().message.find("origin") == std::string::npos);
      report.first_divergence->producers = {7};
      report.divergences.push_back(*report.first_divergence);
      report.first_divergence->producers.clear();
      CHECK(alerts_of(report, nullptr).back().consequence);
    }
  }
}

TEST_CASE("a stale or missing baseline has a rule of its own") {
  for (const Status status : {Status::kStaleBaseline, Status::kNoBaseline}) {
    Report report = tests::base(status, comparators::DivergenceKind::kNone);
    report.reasons = {as_said("it is about something else")};
    const std::vector<Alert> alerts = alerts_of(report, nullptr);
    REQUIRE(alerts.size() == 1);
    CHECK(alerts.front().rule == RuleId::kStaleBaseline);
    CHECK(render_junit({&report, 1}, bert()).find("type=\"repro_check.stale_baseline\"") !=
          std::string::npos);
  }
}

TEST_CASE("an annotation names no file that is not there") {
  Report report = tests::base(Status::kNothingCompared, comparators::DivergenceKind::kNone);
  for (comparators::RunSummary& run : report.runs) run.manifest.model_path.clear();
  CHECK(render_github({&report, 1}, bert()).starts_with("::error title="));
  DocumentOptions options = bert();
  options.fallback_file = "/home/ann/project/ci/gate.json";
  CHECK(
      render_github({&report, 1}, options).starts_with("::error file=ci/gate.json,line=1,title="));
}

TEST_CASE("what is not judged stays in the sum of a pass") {
  Report report = tests::base(Status::kReproducible, comparators::DivergenceKind::kNone);
  report.coverage.not_judged = 2;
  report.coverage.compared = report.coverage.equal = 489;
  CHECK(headline(report).starts_with(
      "REPRODUCIBLE: 489 of 491 operators bit-identical, 2 not judged ("));
}

TEST_CASE("what only its type is known of is not said to be bit-identical") {
  Report report = tests::base(Status::kReproducible, comparators::DivergenceKind::kNone);
  report.coverage = {};
  report.returned.compared = report.returned.equal = report.returned.tensors = 1;
  report.returned.opaque = {"out[1]"};
  CHECK(headline(report).starts_with(
      "REPRODUCIBLE: what the model returns, but for out[1] whose type alone was compared, is "
      "bit-identical, 1 tensor; no operator was compared ("));
}

TEST_CASE("JUnit fails where the exit code does, and passes a case where it does not") {
  for (const Report& report : every_report()) {
    const std::string text = render_junit({&report, 1}, bert());
    const std::size_t bad = count(text, "<failure ") + count(text, "<error ");
    if (comparators::exit_code_of(report) == core::ExitCode::kReproducible) {
      CHECK(bad == 0);
      CHECK(count(text, "time=\"0.000\"/>\n") >= 4);
    } else {
      CHECK(bad >= 1);
    }
    CHECK(text.find("CDATA") == std::string::npos);
  }
}

TEST_CASE("names of JUnit cases hold nothing that moves") {
  Report report = tests::base(Status::kDiverged, comparators::DivergenceKind::kOrigin);
  report.first_divergence = tests::first_origin();
  report.divergences_total = 1;
  const std::string before = render_junit({&report, 1}, bert());
  comparators::OpDivergence& op = *report.first_divergence;
  op.baseline_index = op.candidate_index = 97;
  op.outputs.front().metrics->n_diff = 4;
  const std::string after = render_junit({&report, 1}, bert());
  const std::regex names("<testcase classname=\"[^\"]*\" name=\"[^\"]*\"");
  const auto all = [&](const std::string& text) {
    return std::vector<std::string>(std::sregex_token_iterator(text.begin(), text.end(), names),
                                    std::sregex_token_iterator());
  };
  CHECK(all(before) == all(after));
  CHECK(before != after);
  CHECK(before.find("classname=\"repro_check.bert.encoder.layers.3.linear1\" "
                    "name=\"aten::addmm.default#0 forward\"") != std::string::npos);
  CHECK(before.find("file=\"model.py\" line=\"123\"") != std::string::npos);
  DocumentOptions strict = bert();
  strict.strict_junit = true;
  CHECK(render_junit({&report, 1}, strict).find(" line=\"") == std::string::npos);
}

TEST_CASE("the text of a JUnit case stays below 64 KiB, whatever becomes of its characters") {
  Report report = tests::base(Status::kDiverged, comparators::DivergenceKind::kOrigin);
  report.first_divergence = tests::first_origin();
  report.first_divergence->cause.evidence = {tests::told(std::string(200'000, '\''))};
  const std::string text = render_junit({&report, 1}, bert());
  const std::size_t start = text.find('>', text.find("<failure")) + 1;
  CHECK(text.find("</failure>") - start <= (64U << 10U));
  CHECK(text.find("</failure>") - start > (16U << 10U));
}

TEST_CASE("every line of the GitHub format is one workflow command") {
  const std::regex command("::(error|notice|warning) ([a-z]+=[^,:\r\n]*,?)+::[^\r\n]*");
  for (const Report& report : every_report()) {
    const std::vector<std::string> lines = lines_of(render_github({&report, 1}, bert()));
    CHECK(lines.size() <= 10);
    for (const std::string& line : lines) {
      CAPTURE(line.substr(0, 300));
      CHECK(line.starts_with("::"));
      if (line.size() < 2000) CHECK(std::regex_match(line, command));
    }
  }
}

TEST_CASE("JSON Lines are objects, from the header to the verdict") {
  for (const Report& report : every_report()) {
    const std::vector<std::string> lines = lines_of(render_jsonl({&report, 1}, bert()));
    REQUIRE(lines.size() >= 2);
    std::size_t operators = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const nlohmann::json line = nlohmann::json::parse(lines[i]);
      CHECK((line.at("type") == "header") == (i == 0));
      CHECK((line.at("type") == "verdict") == (i + 1 == lines.size()));
      if (line.at("type") == "op") ++operators;
    }
    CHECK(operators == report.divergences.size() + (report.first_divergence ? 1 : 0));
  }
}

TEST_CASE("a job summary stays below its limit") {
  for (Report report : every_report()) {
    CHECK(render_markdown({&report, 1}, bert()).size() <= 60'000);
    const std::vector<Report> many(40, report);
    CHECK(render_markdown(many, bert()).size() <= 60'000);
  }
}

TEST_CASE("ids of rules are in order and never twice") {
  std::set<std::string_view> ids;
  CHECK(catalogue().rules.size() == static_cast<std::size_t>(RuleId::kRunFailed) + 1);
  CHECK(rule(RuleId::kRunFailed).id == "RC5001");
  CHECK(std::ranges::is_sorted(catalogue().rules, {}, &RuleRow::id));
  for (const RuleRow& each : catalogue().rules) {
    CHECK(ids.insert(each.id).second);
    CHECK_FALSE(each.help.empty());
    CHECK(each.description.size() <= 1024);
  }
}

TEST_CASE("characters that a format gives a meaning to") {
  CHECK(xml_text("<a b='\"'>&\x1b\xEF\xBF\xBE") ==
        "&lt;a b=&apos;&quot;&apos;&gt;&amp;\\x1b\\ufffe");
  CHECK(xml_text("]]>\nb") == "]]&gt;\nb");
  CHECK(annotation_text("100%\nb\rc") == "100%25%0Ab\\x0dc");
  CHECK(annotation_property("aten::a, b") == "aten%3A%3Aa%2C b");
  CHECK(markdown_code("a|b") == "`a\\|b`");
  CHECK(markdown_code("a\\|b") == "`a\\x7cb`");
  CHECK(markdown_code("``x`") == "``` ``x` ```");
  CHECK(markdown_code("") == "-");
  CHECK(markdown_block("a\n```\nb") == "````text\na\n```\nb\n````\n");
  CHECK(sarif_text("[a](b) {0}") == "[a\\](b) {{0}}");
  CHECK(uri_path("a b/c:d?e#f%\xff") == "a%20b/c%3Ad%3Fe%23f%25%FF");
  CHECK(identifier("a b/<c>.d-e_f") == "a_b__c_.d-e_f");
  CHECK(shorten_bytes("\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 7) == "\xC3\xA9 ...");
}

TEST_CASE("a source line is named from the root, and never outside of it") {
  const Report report = tests::base(Status::kReproducible, comparators::DivergenceKind::kNone);
  core::CallSite site;
  site.frames = {{"/home/ann/project/.venv/lib/site-packages/x.py", 3, "f"},
                 {"/home/ann/project/sub/../model.py", 12, "forward"},
                 {"/home/ann/project/main.py", 40, "main"}};
  SourcePlace place = source_place(&site, report, bert());
  CHECK(place.file == "model.py");
  CHECK(place.line == 12);
  CHECK(place.is_call);
  DocumentOptions elsewhere = bert();
  elsewhere.source_root = "/srv";
  elsewhere.fallback_file = "/srv/ci/config.json";
  place = source_place(&site, report, elsewhere);
  CHECK(place.file == "ci/config.json");
  CHECK(place.line == 1);
  CHECK_FALSE(place.is_call);
  site.frames = {{"../outside.py", 3, "f"}};
  CHECK_FALSE(source_place(&site, report, bert()).is_call);
  CHECK_FALSE(source_place(nullptr, report, bert()).file.empty());
}

}  // namespace
}  // namespace repro_check::cmd::render_documents_test
