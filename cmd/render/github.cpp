// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "cmd/render/escape.h"
#include "cmd/render/findings.h"
#include "cmd/render/formats.h"
#include "cmd/render/source_place.h"
#include "cmd/render/text.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::Report;

// A step shows ten errors and ten warnings, and drops the rest without a word.
constexpr std::size_t kMostErrors = 8;
// Of the runner, for one message.
constexpr std::size_t kMostMessage = 4096;

std::string command(std::string_view level,
                    const std::string& place,
                    const std::string& title,
                    const std::string& message) {
  const std::string text = shorten_bytes(escape_lines(message), kMostMessage);
  return fmt::format("::{} {}title={}::{}\n",
                     level,
                     place,
                     annotation_property("repro-check: " + title),
                     annotation_text(text));
}

std::string place_properties(const SourcePlace& place) {
  return fmt::format("file={},line={},", annotation_property(place.file), place.line);
}

std::string error_for(const Finding& finding,
                      const Report& report,
                      const DocumentOptions& options) {
  if (finding.op == nullptr) {
    const SourcePlace place = source_place(nullptr, report, options);
    std::string text = finding.message;
    if (!finding.detail.empty()) text += "\n" + finding.detail;
    return command("error", place_properties(place), std::string(rule(finding.rule).title), text);
  }
  const core::OpRecord& record = shown_record(*finding.op);
  const SourcePlace place = source_place(record.site.get(), report, options);
  std::string text = fmt::format("{} {}", operator_text(record), finding.message);
  const std::string where = raw_place_text(record.site.get());
  if (!where.empty()) text += "\n" + where;
  text += "\n" + finding.detail;
  return command("error", place_properties(place), std::string(rule(finding.rule).title), text);
}

}  // namespace

std::string render_github(std::span<const Report> reports, const DocumentOptions& options) {
  std::string out;
  std::size_t errors = 0;
  std::size_t left = 0;
  for (const Report& report : reports) {
    const std::vector<Finding> findings = findings_of(report);
    if (findings.empty()) {
      out += command("notice", "", "passed", verdict_line(report).raw());
      continue;
    }
    for (const Finding& finding : findings) {
      if (finding.consequence || errors == kMostErrors) {
        ++left;
        continue;
      }
      ++errors;
      out += error_for(finding, report, options);
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
