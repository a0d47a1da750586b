// SPDX-License-Identifier: Apache-2.0
// An audit in the formats that CI systems read, and as a page.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "cmd/audit/audit_view.h"
#include "cmd/render/ci/alerts.h"
#include "cmd/render/html/html_page.h"
#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"
#include "core/digest/digest.h"

namespace repro_check::cmd {
namespace {

using comparators::AuditFinding;
using Weight = comparators::Finding::Weight;

std::string_view level_of(const AuditFinding& finding) {
  return finding.finding.weight == Weight::kProof ? "error" : "warning";
}

std::optional<SourcePlace> place_of(const AuditFinding& finding, const DocumentOptions& options) {
  return source_place(finding.site.get(), options);
}

/// Where readers drop what has no file.
SourcePlace some_place(const AuditFinding& finding, const DocumentOptions& options) {
  return place_of(finding, options).value_or(SourcePlace{"repro-check", 1, false, false});
}

std::string message_of(const Json& finding) {
  return finding["text"].get<std::string>() + "\n" + finding["fix"].get<std::string>();
}

/// Without an op index or a line, so that a reader knows it again when code has moved.
std::string print_of(const AuditFinding& finding, const SourcePlace& place) {
  const std::string module = finding.site ? finding.site->module_path : std::string();
  return core::to_hex(core::digest_bytes(
      fmt::format("{}|{}|{}", comparators::finding_id(finding.finding.id), module, place.file)));
}

Json sarif_rule(comparators::FindingId id) {
  const FindingRow& row = row_of(id);
  return {{"id", comparators::finding_id(id)},
          {"shortDescription", sarif_message(row.when)},
          {"help", sarif_message("docs/AUDIT.md#rules")},
          {"defaultConfiguration", {{"level", row.weight == "proof" ? "error" : "warning"}}},
          {"properties", {{"tags", Json::array({"audit"})}}}};
}

Json sarif_result(const AuditFinding& finding, const Json& said, const SourcePlace& place) {
  return {{"ruleId", comparators::finding_id(finding.finding.id)},
          {"level", level_of(finding)},
          {"message", sarif_message(message_of(said))},
          {"locations", Json::array({sarif_location(place)})},
          {"partialFingerprints", {{"reproCheckAudit/v1", print_of(finding, place)}}}};
}

}  // namespace

std::string audit_sarif(const Audited& audited,
                        const AuditSaid& said,
                        const DocumentOptions& options) {
  Json rules = Json::array();
  std::set<comparators::FindingId> known;
  for (const auto& rule : comparators::audit_rules()) {
    known.insert(rule.id);
    rules.push_back(sarif_rule(rule.id));
  }
  Json results = Json::array();
  for (const AuditFinding& each : audited.report.open()) {
    if (known.insert(each.finding.id).second) rules.push_back(sarif_rule(each.finding.id));
    const SourcePlace place = some_place(each, options);
    results.push_back(sarif_result(each, said.document["findings"].at(results.size()), place));
  }
  for (const Json& excused : said.document["excused"]) {
    const AuditFinding& each = audited.report.findings[results.size()];
    const SourcePlace place = some_place(each, options);
    results.push_back(sarif_result(each, excused, place));
    results.back()["suppressions"] = Json::array(
        {{{"kind", "external"}, {"status", "accepted"}, {"justification", excused["reason"]}}});
  }
  Json notes = Json::array();
  for (const Json& open : said.document["not_audited"]) {
    notes.push_back(
        {{"level", "note"},
         {"message",
          sarif_message(fmt::format("not audited: {}: {}",
                                    joined(open["rules"].get<std::vector<std::string>>(), ", "),
                                    open["why"].get<std::string>()))}});
  }
  const bool was_audited = !audited.report.audited.empty();
  Json run{{"tool",
            {{"driver",
              {{"name", "repro-check"},
               {"semanticVersion", REPRO_CHECK_VERSION},
               {"rules", std::move(rules)}}}}},
           {"automationDetails", {{"id", "repro-check/audit/"}}},
           {"invocations",
            Json::array({{{"executionSuccessful", was_audited},
                          {"exitCode", static_cast<int>(audited.exit_code)},
                          {"toolExecutionNotifications", std::move(notes)}}})},
           {"columnKind", "utf16CodeUnits"},
           {"results", std::move(results)}};
  return sarif_document(Json::array({std::move(run)}), options.pretty_json);
}

std::string audit_github(const Audited& audited,
                         const AuditSaid& said,
                         const DocumentOptions& options) {
  std::string out;
  std::size_t at = 0;
  for (const AuditFinding& each : audited.report.open()) {
    const Json& finding = said.document["findings"].at(at++);
    out += github_annotation(level_of(each),
                             place_of(each, options),
                             finding["id"].get<std::string>(),
                             message_of(finding));
  }
  return out.empty() ? github_annotation("notice", {}, "audit", said.headline) : out;
}

std::string audit_codequality(const Audited& audited,
                              const AuditSaid& said,
                              const DocumentOptions& options) {
  Json out = Json::array();
  std::set<std::string> known;
  std::size_t at = 0;
  for (const AuditFinding& each : audited.report.open()) {
    const Json& finding = said.document["findings"].at(at++);
    const SourcePlace place = some_place(each, options);
    const std::string print = print_of(each, place);
    if (!known.insert(print).second) continue;
    out.push_back(
        {{"description", escape_lines(finding["text"].get<std::string>())},
         {"check_name", finding["id"]},
         {"fingerprint", print},
         {"severity", each.finding.weight == Weight::kProof ? "major" : "minor"},
         {"location", {{"path", escape_name(place.file)}, {"lines", {{"begin", place.line}}}}}});
  }
  return to_document(out, options.pretty_json);
}

std::string audit_junit(const Audited& audited,
                        const AuditSaid& said,
                        const DocumentOptions& options) {
  std::string cases;
  std::size_t tests = 0;
  std::size_t failures = 0;
  std::size_t skipped = 0;
  const auto attribute = [](std::string_view name, std::string_view value) {
    return fmt::format(" {}=\"{}\"", name, xml_text(escape_name(value)));
  };
  const auto put = [&](const std::string& rule, const std::string& outcome) {
    ++tests;
    cases += "<testcase classname=\"audit\"" + attribute("name", rule) + " time=\"0.000\">" +
             outcome + "</testcase>\n";
  };
  std::set<std::string> found;
  std::size_t at = 0;
  for (const AuditFinding& each : audited.report.open()) {
    const Json& finding = said.document["findings"].at(at++);
    found.insert(finding["rule"]);
    // A suspicion fails nothing unless it was asked to.
    const bool fails =
        audited.exit_code == core::ExitCode::kDivergence &&
        (each.finding.weight == Weight::kProof || audited.report.count(Weight::kProof) == 0);
    failures += fails ? 1 : 0;
    const auto place = options.strict_junit ? std::nullopt : place_of(each, options);
    const std::string where = place ? fmt::format("{}:{}\n", place->file, place->line) : "";
    const std::string body = xml_text(escape_lines(where + message_of(finding)));
    put(finding["id"],
        fails ? "<failure" + attribute("message", finding["title"].get<std::string>()) +
                    " type=\"repro_check.audit\">" + body + "</failure>"
              : "<system-out>" + body + "</system-out>");
  }
  for (const auto* rule : audited.report.audited) {
    if (!found.contains(std::string(rule->name()))) put(std::string(rule->name()), "");
  }
  for (const Json& open : said.document["not_audited"]) {
    for (const Json& rule : open["rules"]) {
      ++skipped;
      put(rule, "<skipped" + attribute("message", open["why"].get<std::string>()) + "/>");
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"repro-check\">\n<testsuite "
      "name=\"audit\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" "
      "time=\"0.000\">\n{}</testsuite>\n</testsuites>\n",
      tests,
      failures,
      skipped,
      cases);
}

std::string audit_markdown(const AuditSaid& said) {
  std::string out = "<!-- repro-check: audit -->\n**" + said.headline + "**\n\n";
  if (!said.document["findings"].empty()) {
    out += "| | finding | line | what to do |\n|---|---|---|---|\n";
    for (const Json& finding : said.document["findings"]) {
      out += fmt::format("| {} | {} | {} | {} |\n",
                         finding["weight"].get<std::string>(),
                         markdown_code(finding["id"].get<std::string>() + ": " +
                                       finding["text"].get<std::string>()),
                         markdown_code(finding["code"].get<std::string>()),
                         markdown_code(finding["fix"].get<std::string>()));
    }
  }
  if (said.document.contains("sweep")) {
    out += "\n" +
           say("{judged:count} of {calls:call} executed again with {settings}.",
               said.document["sweep"]) +
           "\n";
  }
  for (const Json& open : said.document["not_audited"]) {
    out += fmt::format("\nNot audited, {}: {}\n",
                       markdown_code(open["why"].get<std::string>()),
                       joined(open["rules"].get<std::vector<std::string>>(), ", "));
  }
  return out;
}

namespace {

/// Where in its recording a finding was seen first, and how often in all.
std::string html_place(const Json& finding) {
  const Json& where = finding["where"];
  const auto number = [](const Json& of, const char* name) {
    return of.contains(name) ? format_count(of[name].get<std::uint64_t>()) : std::string();
  };
  std::string op = number(where, "op");
  std::string bar;
  if (!op.empty()) {
    constexpr double kWidth = 1000;
    const double of = std::max(1.0, finding["of"].get<double>());
    op += " of " + number(finding, "of");
    bar = fmt::format(
        "<svg width=\"100%\" height=\"12\" viewBox=\"0 0 {0} 12\" preserveAspectRatio=\"none\" "
        "role=\"img\" aria-label=\"operator {1}\"><rect width=\"{0}\" height=\"12\" "
        "fill=\"currentColor\" opacity=\"0.15\"/><rect x=\"{2:.0f}\" width=\"8\" height=\"12\" "
        "fill=\"currentColor\"/></svg>\n",
        kWidth,
        html_text(op),
        (kWidth - 8) * where["op"].get<double>() / of);
  }
  std::string ranks;
  for (const Json& rank : finding["ranks"]) {
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank.get<std::uint32_t>());
  }
  const std::string facts = html_facts({{"step", number(where, "step")},
                                        {"operator", op},
                                        {"module", finding["module"].get<std::string>()},
                                        {"tensor", where.value("tensor", "")},
                                        {"line", where.value("line", "")},
                                        {"times", number(finding, "times")},
                                        {"ranks", ranks}});
  return "<section class=\"card values\"><h2>Where it was seen first</h2>\n" + bar + facts +
         "</section>\n";
}

}  // namespace

std::string audit_html(const AuditSaid& said) {
  const Json& document = said.document;
  const int code = document["verdict"]["exit_code"];
  // `PROOF untied at step 3`, but `NO PROOF: 3 of 22 rules`
  const bool is_proof = said.headline.starts_with("PROOF ");
  const std::size_t end = said.headline.find(is_proof ? ' ' : ':');
  HtmlPage page{said.headline, "", "", {}};
  page.main = fmt::format(
      "<article class=\"{}\"><header>{}</header>\n",
      code == 0   ? "good"
      : code == 1 ? "bad"
                  : "trouble",
      html_heading(html_text(said.headline.substr(0, end)), said.headline.substr(end + 1)));
  for (const Json& finding : document["findings"]) {
    HtmlAnswers answers;
    answers.title =
        finding["id"].get<std::string>() + " (" + finding["weight"].get<std::string>() + ")";
    answers.why = finding["text"];
    answers.code = finding["code"];
    answers.fix = finding["fix"];
    page.main += html_answers(answers, html_place(finding));
  }
  std::string rows;
  for (const Json& open : document["not_audited"]) {
    for (const Json& rule : open["rules"]) rows += html_row({rule, open["why"], open["fix"]}, true);
  }
  for (const Json& known : document["expected"]) {
    rows += html_row(
        {known["match"],
         known["outcome"],
         known["reason"].get<std::string>() + "; until " + known["expires"].get<std::string>()},
        true);
  }
  for (const Json& rule : document["audited"]) rows += html_row({rule, "audited", ""}, true);
  page.main += "<section class=\"card text\"><h2>Rules</h2>\n" +
               html_table({"rule", "", "what to do"}, rows) + "</section>\n" +
               html_full_text(escape_lines(audit_text(said, DocumentOptions()))) +
               std::string(kHtmlEnd);
  return html_page(page);
}

}  // namespace repro_check::cmd
