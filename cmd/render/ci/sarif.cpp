// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "cmd/render/ci/findings.h"
#include "cmd/render/json/json_form.h"
#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/render/words.h"
#include "comparators/compare.h"
#include "core/digest/digest.h"

namespace repro_check::cmd {
namespace {

// GitHub takes 25,000 results a run and shows 5,000.
constexpr std::size_t kMostResults = 5000;
constexpr std::size_t kMostMessage = 4096;

Json text_object(std::string_view text) {
  return Json{{"text", shorten_bytes(sarif_text(text), kMostMessage)}};
}

std::string_view level_of(RuleId id) { return id == RuleId::kExpected ? "note" : "error"; }

Json json_rule_list() {
  Json out = Json::array();
  for (const Rule& each : rules()) {
    const bool is_excused = each.rule == RuleId::kExpected;
    out.push_back({{"id", each.id},
                   {"name", each.name},
                   {"shortDescription", text_object(each.title)},
                   {"fullDescription", text_object(each.description)},
                   {"help", text_object(each.help)},
                   {"defaultConfiguration", {{"level", level_of(each.rule)}}},
                   {"properties",
                    {{"tags", Json::array({"determinism"})},
                     {"precision", "very-high"},
                     {"problem.severity", is_excused ? "recommendation" : "error"}}}});
  }
  return out;
}

/// The results of one operator at one line, in however many modules.
struct Group {
  const Finding* first = nullptr;
  SourcePlace place;
  std::string subject;  ///< operator, or what the finding is about
  std::string module_class;
  std::vector<std::string> modules;  ///< the first few of them
  std::size_t count = 0;
};

/// By Subject.
constexpr std::array kSubjects{"inputs",
                               "weights",
                               "runs",
                               "operators",
                               "error",
                               "repeats",
                               "runs",
                               "runs",
                               "runs",
                               "baseline",
                               "runs"};

Json json_location(const SourcePlace& place) {
  Json region{{"startLine", place.line}, {"endLine", place.line}};
  return Json{{"physicalLocation",
               Json{{"artifactLocation", Json{{"uri", uri_path(place.file)}}},
                    {"region", std::move(region)}}}};
}

class Run {
 public:
  explicit Run(const CiReport& view) : view_(view), report_(view.report) {}

  [[nodiscard]] Json json() const {
    const std::string id = fmt::format("repro-check/{}/{}/", view_.subject, view_.platform);
    return {{"tool",
             {{"driver",
               {{"name", "repro-check"},
                {"semanticVersion", REPRO_CHECK_VERSION},
                {"rules", json_rule_list()}}}}},
            {"automationDetails", {{"id", id}}},
            {"invocations", Json::array({invocation()})},
            {"columnKind", "utf16CodeUnits"},
            {"results", is_judged() ? results() : Json::array()}};
  }

 private:
  [[nodiscard]] bool is_judged() const {
    const core::ExitCode code = comparators::exit_code_of(report_);
    return code == core::ExitCode::kReproducible || code == core::ExitCode::kDivergence;
  }

  [[nodiscard]] Json invocation() const {
    Json out;
    out["executionSuccessful"] = is_judged();
    out["exitCode"] = static_cast<int>(comparators::exit_code_of(report_));
    for (const RunSummary& run : report_.runs) {
      if (run.signal.empty() || is_judged()) continue;
      out["exitSignalName"] = escape_name(run.signal);
      break;
    }
    Json notes = notifications();
    if (!notes.empty() || !is_judged()) out["toolExecutionNotifications"] = std::move(notes);
    return out;
  }

  /// What is to be known in every case, and what kept it from being judged.
  [[nodiscard]] Json notifications() const {
    Json out = Json::array();
    for (const std::string& note : report_.non_finite) {
      out.push_back(Json{{"level", "warning"}, {"message", text_object(note)}});
    }
    for (const Finding& finding : view_.findings) {
      if (is_judged() || !is_trouble(finding.rule)) continue;
      std::string text = finding.message;
      if (!finding.detail.empty()) text += "\n" + finding.detail;
      Json item;
      item["level"] = "error";
      item["message"] = text_object(text);
      item["associatedRule"] =
          Json{{"id", rule(finding.rule).id}, {"index", static_cast<std::size_t>(finding.rule)}};
      const SourcePlace place = view_.place_of(finding);
      if (place.is_file) item["locations"] = Json::array({json_location(place)});
      out.push_back(std::move(item));
    }
    return out;
  }

  /// One a rule, operator and line, causes only: what follows from them would bury them.
  [[nodiscard]] std::vector<Group> groups() const {
    constexpr std::size_t kNamedModules = 5;
    std::vector<Group> out;
    std::map<std::tuple<RuleId, std::string, std::string, std::uint32_t>, std::size_t> known;
    for (const Finding& finding : view_.findings) {
      if (finding.consequence) continue;
      const core::CallSite* site = site_of(finding, report_);
      SourcePlace place = view_.place_of(finding);
      std::string subject = subject_text(finding);
      const auto [found, is_new] =
          known.try_emplace({finding.rule, subject, place.file, place.line}, out.size());
      if (is_new) {
        Group& group = out.emplace_back();
        group.first = &finding;
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

  static std::string subject_text(const Finding& finding) {
    if (finding.subject == Subject::kOperator) return full_name(*finding.op);
    if (finding.entry != nullptr) return finding.entry->match;
    return kSubjects.at(static_cast<std::size_t>(finding.subject));
  }

  static std::string full_name(const OpDivergence& op) {
    const core::OpRecord& record = shown_record(op);
    return record.op == nullptr ? operator_text(record) : record.op->full_name();
  }

  [[nodiscard]] Json results() const {
    Json out = Json::array();
    std::map<std::string, std::size_t> occurrences;
    for (const Group& group : groups()) {
      if (out.size() == kMostResults) break;
      const std::string text =
          fmt::format("{}|{}|{}", rule(group.first->rule).id, group.subject, group.module_class);
      const core::Digest digest = core::digest_bytes(std::as_bytes(std::span(text)));
      const std::string print = fmt::format("{:016x}", digest.high);
      out.push_back(result(group, print, ++occurrences[print]));
    }
    return out;
  }

  [[nodiscard]] static std::string message_of(const Group& group) {
    const Finding& finding = *group.first;
    std::string text = finding.subject == Subject::kOperator
                           ? fmt::format("{}: {}", group.subject, finding.message)
                           : finding.message;
    const std::string& module = group.modules.empty() ? "" : group.modules.front();
    if (finding.op != nullptr && !module.empty()) text += ", " + module;
    if (group.count > 1) {
      text += fmt::format(" and {} more calls of this line", group.count - 1);
    }
    text += ".";
    return finding.detail.empty() ? text : text + "\n" + finding.detail;
  }

  [[nodiscard]] Json result(const Group& group, const std::string& print, std::size_t n) const {
    const RuleId id = group.first->rule;
    Json location = json_location(group.place);
    Json logical = Json::array();
    for (const std::string& module : group.modules) {
      if (module.empty()) continue;
      logical.push_back(Json{{"fullyQualifiedName", escape_name(module)}, {"kind", "module"}});
    }
    if (!logical.empty()) location["logicalLocations"] = std::move(logical);
    Json out;
    out["ruleId"] = rule(id).id;
    out["ruleIndex"] = static_cast<std::size_t>(id);
    out["level"] = level_of(id);
    out["message"] = text_object(message_of(group));
    out["locations"] = Json::array({std::move(location)});
    out["partialFingerprints"] =
        Json{{"primaryLocationLineHash", fmt::format("{}:{}", print, n)}, {"reproCheck/v1", print}};
    if (group.first->is_excused()) {
      const std::string why =
          group.first->entry == nullptr ? "expected" : entry_text(*group.first->entry);
      out["suppressions"] = Json::array({Json{
          {"kind", "external"}, {"status", "accepted"}, {"justification", escape_name(why)}}});
    }
    return out;
  }

  const CiReport& view_;
  const Report& report_;
};

}  // namespace

std::string render_sarif(std::span<const Report> reports, const DocumentOptions& options) {
  Json runs = Json::array();
  for (const CiReport& view : ci_reports(reports, options)) runs.push_back(Run(view).json());
  return to_document({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                      {"version", "2.1.0"},
                      {"runs", std::move(runs)}},
                     options.pretty_json);
}

}  // namespace repro_check::cmd
