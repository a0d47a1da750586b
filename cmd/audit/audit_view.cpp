// SPDX-License-Identifier: Apache-2.0
#include "cmd/audit/audit_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "cmd/recording/source_files.h"
#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/causes.h"
#include "cmd/words/finding_words.h"
#include "core/trace/op_record.h"

namespace repro_check::cmd {
namespace {

using comparators::AuditFinding;
using comparators::AuditReport;
using Weight = comparators::Finding::Weight;

/// `train.py:40: x = drop(x)`; empty where no line of the program is known.
std::string code_of(const AuditFinding& finding, const Audited& audited) {
  const auto* frame = finding.site ? core::display_frame(*finding.site) : nullptr;
  if (frame == nullptr) return finding.finding.where.line;
  const std::string code = source_line(audited.sources.at(finding.recording), *frame);
  return core::line_text(finding.site.get()) + (code.empty() ? "" : ": " + code);
}

Json finding_json(const AuditFinding& finding, const Audited& audited) {
  Json json{{"rule", finding.rule->name()}};
  json.update(json_of(finding.finding));
  json["times"] = json_integer(finding.times);
  json["ranks"] = finding.ranks;
  json["module"] = json_text(finding.site ? finding.site->module_path : std::string());
  json["code"] = json_text(code_of(finding, audited));
  if (finding.finding.where.op) {
    json["of"] = json_integer(audited.report.rows.at(finding.recording));
  }
  return json;
}

/// What was expected, with the findings that it excuses.
Json expected_json(const AuditReport& report) {
  constexpr std::string_view kOutcomes = "excused|absent|||open|expired|";
  Json list = Json::array();
  for (const comparators::ExpectedOutcome& each : report.expected) {
    const auto outcome = core::word_at(kOutcomes, static_cast<std::size_t>(each.what));
    list.push_back({{"match", json_text(each.match)},
                    {"outcome", outcome},
                    {"findings", json_integer(each.operators)},
                    {"reason", json_text(each.reason)},
                    {"issue", json_text(each.issue)},
                    {"owner", json_text(each.owner)},
                    {"expires", each.expires}});
  }
  return list;
}

/// Rules that are left out for the same reason, together.
Json open_json(const AuditReport& report) {
  Json list = Json::array();
  for (const comparators::NotAudited& each : report.not_audited) {
    const std::string why = texts_of({each.why}).front();
    auto same = std::ranges::find_if(list, [&](const Json& known) { return known["why"] == why; });
    if (same == list.end()) {
      list.push_back({{"rules", Json::array()}, {"why", why}, {"fix", phrase_fix(each.why.key)}});
      same = std::prev(list.end());
    }
    (*same)["rules"].push_back(each.rule->name());
  }
  return list;
}

Json sweep_json(const comparators::SweepCoverage& sweep) {
  Json made{{"judged", json_integer(sweep.judged)},
            {"calls", json_integer(sweep.calls())},
            {"settings", json_of(sweep.settings)},
            {"unrepeated", json_of(sweep.unrepeated)},
            {"unswept", json_of(sweep.unswept)}};
  if (sweep.batch) {
    made["batch"] = {{"items", json_integer(sweep.batch->items)},
                     {"told_apart", json_integer(sweep.batch->told_apart)},
                     {"without_items", json_integer(sweep.batch->without_items)},
                     {"mixing", json_of(sweep.batch->mixing)}};
  }
  return made;
}

const char* status_of(const AuditReport& report) {
  if (report.count(Weight::kProof) != 0) return "proof";
  if (report.count(Weight::kSuspicion) != 0) return "suspicion";
  return report.audited.empty() ? "not_audited" : "no_proof";
}

/// `2 more proofs, 1 suspicion`
std::string others(const AuditReport& report) {
  const std::size_t proofs = report.count(Weight::kProof);
  std::vector<std::string> texts;
  if (proofs > 1) texts.push_back(format_count(proofs - 1, "more proof"));
  if (const std::size_t suspicions = report.count(Weight::kSuspicion); suspicions != 0) {
    texts.push_back(format_count(suspicions, "suspicion"));
  }
  const std::size_t excused = report.findings.size() - report.open().size();
  if (excused != 0) texts.push_back(fmt::format("{} expected", excused));
  return texts.empty() ? std::string() : "; " + joined(texts, ", ");
}

std::string place_of(const Json& finding) {
  std::string text;
  if (finding["where"].contains("step")) {
    text += fmt::format(" at step {}", finding["where"]["step"].get<std::uint64_t>());
  }
  std::vector<std::string> parts{finding["module"].get<std::string>(),
                                 finding["where"].value("line", std::string())};
  std::erase(parts, "");
  return parts.empty() ? text : text + fmt::format(" ({})", escape_name(joined(parts, ", ")));
}

const char* sweep_headline(const AuditReport& report) {
  const bool is_invariant = report.sweep->batch && report.open().empty();
  return is_invariant ? "BATCH INVARIANT: {judged:count} of {calls:call} give an item alone what "
                        "they give it among {batch/items}"
                      : "NO PROOF: {judged:count} of {calls:call} judged under {settings}";
}

std::string headline_of(const AuditReport& report, const Json& document) {
  if (report.count(Weight::kProof) != 0) {
    const Json& first = document["findings"].front();
    return fmt::format(
        "PROOF {}{}{}", first["id"].get<std::string>(), place_of(first), others(report));
  }
  const std::size_t asked = report.audited.size() + report.not_audited.size();
  if (report.audited.empty() && !report.not_audited.empty()) {
    return fmt::format("NOT AUDITED: none of {}: {}",
                       format_count(asked, "rule"),
                       document["not_audited"].front()["why"].get<std::string>());
  }
  if (document.contains("sweep")) {
    return say(sweep_headline(report), document["sweep"]) + others(report);
  }
  return fmt::format("NO PROOF: {} of {} audited{}",
                     report.audited.size(),
                     format_count(asked, "rule"),
                     others(report));
}

constexpr std::array<std::string_view, 8> kAuditFormats{
    "text", "json", "markdown", "junit", "sarif", "html", "github", "codequality"};

std::string document_of(std::string_view format,
                        const Audited& audited,
                        const AuditSaid& said,
                        const DocumentOptions& options) {
  if (format == "json") return to_document(said.document, options.pretty_json);
  if (format == "sarif") return audit_sarif(audited, said, options);
  if (format == "github") return audit_github(audited, said, options);
  if (format == "codequality") return audit_codequality(audited, said, options);
  if (format == "junit") return audit_junit(audited, said, options);
  if (format == "markdown") return audit_markdown(said);
  if (format == "html") return audit_html(said);
  return audit_text(said, options);
}

}  // namespace

AuditSaid said_of(const Audited& audited) {
  const AuditReport& report = audited.report;
  Json document{{"format", "repro-check-audit"},
                {"version", "1.0"},
                {"dump", json_text(audited.dump)},
                {"verdict",
                 {{"status", status_of(report)},
                  {"exit_code", static_cast<int>(audited.exit_code)},
                  {"proofs", report.count(Weight::kProof)},
                  {"suspicions", report.count(Weight::kSuspicion)}}},
                {"recordings", report.recordings},
                {"operators", json_integer(report.operators)},
                {"constants", report.constants}};
  document["findings"] = Json::array();
  document["excused"] = Json::array();
  for (const AuditFinding& each : report.findings) {
    Json finding = finding_json(each, audited);
    if (!each.expected) {
      document["findings"].push_back(std::move(finding));
    } else {
      finding["reason"] = json_text(report.expected[*each.expected].reason);
      document["excused"].push_back(std::move(finding));
    }
  }
  document["expected"] = expected_json(report);
  document["audited"] = Json::array();
  for (const auto* rule : report.audited) document["audited"].push_back(rule->name());
  document["not_audited"] = open_json(report);
  if (report.sweep) document["sweep"] = sweep_json(*report.sweep);
  if (report.liveness) {
    document["liveness"] = {{"calls", report.liveness->calls},
                            {"results", report.liveness->results},
                            {"lines", report.liveness->lines},
                            {"alive", report.liveness->alive}};
  }
  document = cleaned(document);
  return {headline_of(report, document), std::move(document)};
}

std::string audit_text(const AuditSaid& said, const DocumentOptions& options) {
  std::string text = said.headline + "\n";
  if (options.verbosity < 0) return text;
  const Json& document = said.document;
  for (const Json& finding : document["findings"]) {
    text += say_lines(view_lines("audit-finding"), finding, 2);
  }
  Json rest{{"open", document["not_audited"]},
            {"expected", document["expected"]},
            {"audited", document["audited"].size()},
            {"operators", document["operators"]},
            {"constants", document["constants"]}};
  std::size_t asked = document["audited"].size();
  for (const Json& open : document["not_audited"]) asked += open["rules"].size();
  rest["asked"] = asked;
  if (document.contains("sweep")) {
    rest["sweep"] = document["sweep"];
    const auto tell = [&](const Json& of, const char* list) {
      if (!of[list].empty()) rest[list] = {{"calls", of[list]}};
    };
    tell(rest["sweep"], "unrepeated");
    tell(rest["sweep"], "unswept");
    if (rest["sweep"].contains("batch")) {
      rest["batch"] = rest["sweep"]["batch"];
      tell(rest["batch"], "mixing");
    }
  }
  if (document.contains("liveness")) {
    rest["liveness"] = document["liveness"];
    rest["liveness"]["quiet"] = document["liveness"]["lines"] == 0;
  }
  if (document["recordings"] != 1) rest["several"] = document["recordings"];
  text += say_lines(view_lines("audit"), rest, 2);
  const Json* shown = document["findings"].empty() ? nullptr : &document["findings"].front();
  if (shown != nullptr && (*shown)["where"].contains("op")) {
    std::string dump = document["dump"];
    if ((*shown)["where"].contains("rank") || !(*shown)["ranks"].empty()) {
      dump += fmt::format("/rank-{}", (*shown)["ranks"].front().get<std::uint32_t>());
    }
    text += fmt::format("next: repro-check inspect {} --op {}\n",
                        shell_quote(dump),
                        (*shown)["where"]["op"].get<std::uint64_t>());
  }
  return wrapped(text, options.columns);
}

void require_audit_formats(const ReportFlags& flags) {
  flags.require_formats(kAuditFormats, "what an audit finds");
}

core::ExitCode emit_audit(const Audited& audited,
                          const ReportFlags& flags,
                          const GlobalOptions& globals) {
  const AuditSaid said = said_of(audited);
  const auto produce = [&](std::string_view format, const auto& options, const TextSink& sink) {
    sink(document_of(format, audited, said, options));
  };
  flags.emit(flags.style(globals, "text"), produce);
  return audited.exit_code;
}

}  // namespace repro_check::cmd
