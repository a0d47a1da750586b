// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "cmd/render/ci/alerts.h"
#include "cmd/render/json_form.h"
#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/finding_words.h"
#include "cmd/words/report_words.h"
#include "comparators/compare.h"
#include "core/digest/digest.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

// GitHub takes 25,000 results a run and shows 5,000.
constexpr std::size_t kMostResults = 5000;
constexpr std::size_t kMostMessage = 4096;

std::string_view level_of(RuleId id) { return id == RuleId::kExpected ? "note" : "error"; }

Json json_rule_list() {
  Json out = Json::array();
  for (const RuleRow& each : catalogue().rules) {
    const auto id = static_cast<RuleId>(out.size());
    const bool is_excused = id == RuleId::kExpected;
    out.push_back({{"id", each.id},
                   {"name", each.name},
                   {"shortDescription", sarif_message(each.title)},
                   {"fullDescription", sarif_message(each.description)},
                   {"help", sarif_message(each.help)},
                   {"defaultConfiguration", {{"level", level_of(id)}}},
                   {"properties",
                    {{"tags", Json::array({"determinism"})},
                     {"precision", "very-high"},
                     {"problem.severity", is_excused ? "recommendation" : "error"}}}});
  }
  return out;
}

/// The results of one operator at one line, in however many modules.
struct Group {
  const Alert* first = nullptr;
  SourcePlace place;
  std::string subject;  ///< operator, or what the alert is about
  std::string module_class;
  std::vector<std::string> modules;  ///< the first few of them
  std::size_t count = 0;
};

/// By Subject.
constexpr std::string_view kSubjects =
    "inputs|weights|runs|operators|error|repeats|runs|runs|runs|baseline|runs";

bool is_judged(const CiReport& view) {
  const core::ExitCode code = comparators::exit_code_of(view.report);
  return code == core::ExitCode::kReproducible || code == core::ExitCode::kDivergence;
}

/// What is to be known in every case, and what kept it from being judged.
Json notifications(const CiReport& view) {
  Json out = Json::array();
  for (const std::string& note : non_finite_of(view.report)) {
    out.push_back(Json{{"level", "warning"}, {"message", sarif_message(note)}});
  }
  for (const Alert& alert : view.alerts) {
    if (is_judged(view) || !is_trouble(alert.rule)) continue;
    std::string text = alert.message;
    if (!alert.detail.empty()) text += "\n" + alert.detail;
    Json item{{"level", "error"},
              {"message", sarif_message(text)},
              {"associatedRule",
               {{"id", rule(alert.rule).id}, {"index", static_cast<std::size_t>(alert.rule)}}}};
    const SourcePlace place = view.place_of(alert);
    if (place.is_file) item["locations"] = Json::array({sarif_location(place)});
    out.push_back(std::move(item));
  }
  return out;
}

Json invocation(const CiReport& view) {
  Json out{{"executionSuccessful", is_judged(view)},
           {"exitCode", static_cast<int>(comparators::exit_code_of(view.report))}};
  for (const RunSummary& run : view.report.runs) {
    if (run.signal.empty() || is_judged(view)) continue;
    out["exitSignalName"] = escape_name(run.signal);
    break;
  }
  Json notes = notifications(view);
  if (!notes.empty() || !is_judged(view)) out["toolExecutionNotifications"] = std::move(notes);
  return out;
}

std::string full_name(const OpDivergence& op) {
  const core::OpRecord& record = shown_record(op);
  return record.op == nullptr ? operator_text(record) : record.op->full_name();
}

std::string subject_text(const Alert& alert) {
  if (alert.subject == Subject::kOperator) return full_name(*alert.op);
  if (alert.entry != nullptr) return alert.entry->match;
  return std::string(core::word_at(kSubjects, static_cast<std::size_t>(alert.subject)));
}

/// One a rule, operator and line, causes only: what follows from them would bury them.
std::vector<Group> groups(const CiReport& view) {
  constexpr std::size_t kNamedModules = 5;
  std::vector<Group> out;
  std::map<std::tuple<RuleId, std::string, std::string, std::uint32_t>, std::size_t> known;
  for (const Alert& alert : view.alerts) {
    if (alert.consequence) continue;
    const core::CallSite* site = site_of(alert, view.report);
    SourcePlace place = view.place_of(alert);
    std::string subject = subject_text(alert);
    const auto [found, is_new] =
        known.try_emplace({alert.rule, subject, place.file, place.line}, out.size());
    if (is_new) {
      Group& group = out.emplace_back();
      group.first = &alert;
      group.place = std::move(place);
      group.subject = std::move(subject);
      if (site != nullptr) {
        group.module_class = site->module_type.empty() ? site->module_path : site->module_type;
      }
    }
    Group& group = out[found->second];
    ++group.count;
    if (site != nullptr && group.modules.size() < kNamedModules &&
        std::ranges::find(group.modules, site->module_path) == group.modules.end()) {
      group.modules.push_back(site->module_path);
    }
  }
  return out;
}

std::string message_of(const Group& group) {
  const Alert& alert = *group.first;
  std::string text = alert.subject == Subject::kOperator
                         ? fmt::format("{}: {}", group.subject, alert.message)
                         : alert.message;
  const std::string& module = group.modules.empty() ? "" : group.modules.front();
  if (alert.op != nullptr && !module.empty()) text += ", " + module;
  if (group.count > 1) {
    text += fmt::format(" and {} more calls of this line", group.count - 1);
  }
  text += ".";
  return alert.detail.empty() ? text : text + "\n" + alert.detail;
}

Json result(const Group& group, const std::string& print, std::size_t n) {
  const RuleId id = group.first->rule;
  Json location = sarif_location(group.place);
  Json logical = Json::array();
  for (const std::string& module : group.modules) {
    if (module.empty()) continue;
    logical.push_back(Json{{"fullyQualifiedName", escape_name(module)}, {"kind", "module"}});
  }
  if (!logical.empty()) location["logicalLocations"] = std::move(logical);
  Json out{
      {"ruleId", rule(id).id},
      {"ruleIndex", static_cast<std::size_t>(id)},
      {"level", level_of(id)},
      {"message", sarif_message(message_of(group))},
      {"locations", Json::array({std::move(location)})},
      {"partialFingerprints",
       {{"primaryLocationLineHash", fmt::format("{}:{}", print, n)}, {"reproCheck/v1", print}}}};
  if (group.first->is_excused()) {
    const std::string why =
        group.first->entry == nullptr ? "expected" : entry_text(*group.first->entry);
    out["suppressions"] = Json::array(
        {Json{{"kind", "external"}, {"status", "accepted"}, {"justification", escape_name(why)}}});
  }
  return out;
}

Json results(const CiReport& view) {
  Json out = Json::array();
  std::map<std::string, std::size_t> occurrences;
  for (const Group& group : groups(view)) {
    if (out.size() == kMostResults) break;
    const std::string text =
        fmt::format("{}|{}|{}", rule(group.first->rule).id, group.subject, group.module_class);
    const core::Digest digest = core::digest_bytes(text);
    const std::string print = fmt::format("{:016x}", digest.high);
    out.push_back(result(group, print, ++occurrences[print]));
  }
  return out;
}

Json json_run(const CiReport& view) {
  const std::string id = fmt::format("repro-check/{}/{}/", view.subject, view.platform);
  return {{"tool",
           {{"driver",
             {{"name", "repro-check"},
              {"semanticVersion", REPRO_CHECK_VERSION},
              {"rules", json_rule_list()}}}}},
          {"automationDetails", {{"id", id}}},
          {"invocations", Json::array({invocation(view)})},
          {"columnKind", "utf16CodeUnits"},
          {"results", is_judged(view) ? results(view) : Json::array()}};
}

}  // namespace

Json sarif_message(std::string_view text) {
  return Json{{"text", shorten_bytes(sarif_text(text), kMostMessage)}};
}

Json sarif_location(const SourcePlace& place) {
  Json region{{"startLine", place.line}, {"endLine", place.line}};
  return Json{{"physicalLocation",
               Json{{"artifactLocation", Json{{"uri", uri_path(place.file)}}},
                    {"region", std::move(region)}}}};
}

std::string sarif_document(Json runs, bool pretty) {
  return to_document({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                      {"version", "2.1.0"},
                      {"runs", std::move(runs)}},
                     pretty);
}

std::string render_sarif(std::span<const Report> reports, const DocumentOptions& options) {
  Json runs = Json::array();
  for (const CiReport& view : ci_reports(reports, options)) runs.push_back(json_run(view));
  return sarif_document(std::move(runs), options.pretty_json);
}

}  // namespace repro_check::cmd
