// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "cmd/render/ci/alerts.h"
#include "cmd/render/json_form.h"
#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/words/finding_words.h"
#include "cmd/words/report_words.h"
#include "comparators/compare.h"
#include "core/digest/digest.h"

namespace repro_check::cmd {
namespace {

// A step shows ten errors and ten warnings, and drops the rest without a word.
constexpr std::size_t kMostErrors = 8;
constexpr std::size_t kMostNotices = 8;
// Of the runner, for one message.
constexpr std::size_t kMostAnnotation = 4096;

std::string command(std::string_view level,
                    const std::string& place,
                    const std::string& title,
                    const std::string& message) {
  const std::string text = shorten_bytes(escape_lines(message), kMostAnnotation);
  return fmt::format("::{} {}title={}::{}\n",
                     level,
                     place,
                     annotation_property("repro-check: " + title),
                     annotation_text(text));
}

std::string place_properties(const SourcePlace& place) {
  if (!place.is_file) return {};
  return fmt::format("file={},line={},", annotation_property(place.file), place.line);
}

std::string annotation(const Alert& alert, const CiReport& view) {
  std::string text = alert.message;
  if (alert.op != nullptr) {
    const core::OpRecord& record = shown_record(*alert.op);
    if (alert.subject == Subject::kOperator) text = operator_text(record) + " " + text;
    const std::string where = core::place_of(record.site.get());
    if (!where.empty()) text += "\n" + where;
  }
  if (!alert.detail.empty()) text += "\n" + alert.detail;
  return command(alert.is_excused() ? "notice" : "error",
                 place_properties(view.place_of(alert)),
                 std::string(rule(alert.rule).title),
                 text);
}

constexpr std::size_t kMostIssues = 1000;
constexpr std::size_t kMostDescription = 1024;

/// Without an op index or a line, so that GitLab knows the issue again when code has moved.
std::string fingerprint(const Alert& alert, const SourcePlace& place) {
  std::string text = fmt::format("{}|{}", rule(alert.rule).id, static_cast<int>(alert.subject));
  if (alert.subject == Subject::kExpected && alert.entry != nullptr) {
    text += "|" + alert.entry->match;
  } else if (alert.op == nullptr) {
    text += fmt::format("|{}", alert.run);
  } else {
    const core::OpRecord& record = shown_record(*alert.op);
    text += fmt::format(
        "|{}|{}|{}|{}", operator_text(record), module_of(record), alert.op->occurrence, place.file);
  }
  return core::to_hex(core::digest_bytes(text));
}

std::string description(const Alert& alert) {
  if (alert.subject != Subject::kOperator) return alert.message;
  return operator_in_module(*alert.op) + ": " + alert.message;
}

}  // namespace

std::string github_annotation(std::string_view level,
                              const std::optional<SourcePlace>& place,
                              const std::string& title,
                              const std::string& message) {
  return command(level, place ? place_properties(*place) : std::string(), title, message);
}

std::string render_github(std::span<const Report> reports, const DocumentOptions& options) {
  std::string out;
  std::size_t errors = 0;
  std::size_t notices = 0;
  std::size_t left = 0;
  for (const CiReport& view : ci_reports(reports, options)) {
    const Report& report = view.report;
    if (comparators::exit_code_of(report) == core::ExitCode::kReproducible) {
      out += command("notice", "", "passed", verdict_line(report).raw());
    }
    for (const Alert& alert : view.alerts) {
      std::size_t& shown = alert.is_excused() ? notices : errors;
      const std::size_t most = alert.is_excused() ? kMostNotices : kMostErrors;
      if (alert.consequence || shown == most) {
        if (!alert.is_excused()) ++left;
        continue;
      }
      ++shown;
      out += annotation(alert, view);
    }
    for (const std::string& note : non_finite_of(report)) {
      out += command("warning", "", "NaN or infinity", note);
    }
    const std::uint64_t listed = report.divergences.size() + (report.first_divergence ? 1 : 0);
    left += report.divergences_total - std::min<std::uint64_t>(report.divergences_total, listed);
  }
  if (left > 0) {
    out += command("notice",
                   "",
                   "more",
                   fmt::format("{} more operators or runs are not fine; the report lists them",
                               format_count(left)));
  }
  return out;
}

std::string render_codequality(std::span<const Report> reports, const DocumentOptions& options) {
  Json out = Json::array();
  std::set<std::string> known;
  for (const CiReport& view : ci_reports(reports, options)) {
    for (const Alert& alert : view.alerts) {
      if (alert.consequence || alert.is_excused() || out.size() == kMostIssues) continue;
      const SourcePlace place = view.place_of(alert);
      const std::string print = fingerprint(alert, place);
      // Several candidates may show the same; GitLab takes equal fingerprints for one issue.
      if (!known.insert(print).second) continue;
      out.push_back(
          {{"description", shorten_bytes(escape_lines(description(alert)), kMostDescription)},
           {"check_name", rule(alert.rule).id},
           {"fingerprint", print},
           {"severity", is_trouble(alert.rule) ? "blocker" : "major"},
           {"location", {{"path", escape_name(place.file)}, {"lines", {{"begin", place.line}}}}}});
    }
  }
  return to_document(out, options.pretty_json);
}

}  // namespace repro_check::cmd
