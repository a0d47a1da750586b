// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "cmd/render/escape.h"
#include "cmd/render/findings.h"
#include "cmd/render/formats.h"
#include "cmd/render/source_place.h"
#include "cmd/render/text.h"
#include "cmd/render/words.h"
#include "comparators/compare.h"

namespace repro_check::cmd {
namespace {

using comparators::Report;

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

std::string annotation(const Finding& finding, const CiReport& view) {
  std::string text = finding.message;
  if (finding.op != nullptr) {
    const core::OpRecord& record = shown_record(*finding.op);
    if (finding.subject == Subject::kOperator) text = operator_text(record) + " " + text;
    const std::string where = raw_place_text(record.site.get());
    if (!where.empty()) text += "\n" + where;
  }
  if (!finding.detail.empty()) text += "\n" + finding.detail;
  return command(finding.is_excused() ? "notice" : "error",
                 place_properties(view.place_of(finding)),
                 std::string(rule(finding.rule).title),
                 text);
}

}  // namespace

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
    for (const Finding& finding : view.findings) {
      std::size_t& shown = finding.is_excused() ? notices : errors;
      const std::size_t most = finding.is_excused() ? kMostNotices : kMostErrors;
      if (finding.consequence || shown == most) {
        if (!finding.is_excused()) ++left;
        continue;
      }
      ++shown;
      out += annotation(finding, view);
    }
    for (const std::string& note : non_finite_notes(report)) {
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

}  // namespace repro_check::cmd
