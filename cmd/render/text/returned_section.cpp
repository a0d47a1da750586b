// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::ReturnedValues;

std::string holdings(const ReturnedValues& returned) {
  std::vector<std::string> parts;
  if (returned.tensors != 0) parts.push_back(format_count(returned.tensors, "tensor"));
  if (returned.others != 0) parts.push_back(format_count(returned.others, "other value"));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string differing(const ReturnedValues& returned) {
  const std::uint64_t differ = returned.diverged + returned.missing;
  std::string text = escape_name(returned_amount(*returned.first));
  if (returned.first->relation == comparators::Relation::kPropagated) {
    text += "; " + escape_name(returned.first->cause.evidence);
  }
  if (returned.compared > 1) {
    text += fmt::format("; {} of {} differ",
                        format_count(differ),
                        format_count(returned.compared + returned.missing, "call"));
  }
  return text;
}

std::string agreeing(const ReturnedValues& returned) {
  std::vector<std::string> parts;
  if (returned.equal != 0) {
    parts.push_back(format_count(returned.equal, "call") + " bit-identical");
  }
  if (returned.within_policy != 0) {
    parts.push_back(format_count(returned.within_policy, "call") + " within policy");
  }
  if (returned.skipped != 0) {
    parts.push_back(format_count(returned.skipped, "call") + " not compared");
  }
  if (returned.not_judged != 0) {
    parts.push_back(format_count(returned.not_judged, "call") + " not judged");
  }
  std::string text = fmt::format("{}", fmt::join(parts, ", "));
  const std::string what = holdings(returned);
  return what.empty() ? text : fmt::format("{} ({})", text, what);
}

}  // namespace

std::string returned_text(const comparators::Report& report) {
  const ReturnedValues& returned = report.returned;
  if (returned.baseline == 0 && returned.candidate == 0) {
    const bool passes = report.status == comparators::Status::kReproducible;
    return passes ? "not recorded, so not compared" : "";
  }
  if (returned.baseline == 0 || returned.candidate == 0) {
    return fmt::format("not recorded in the {}, so not compared",
                       returned.baseline == 0 ? "baseline" : "candidate");
  }
  std::string text = returned.first ? differing(returned) : agreeing(returned);
  if (!returned.opaque.empty()) {
    std::vector<std::string> paths;
    for (const std::string& path : returned.opaque) paths.push_back(escape_name(path));
    text += fmt::format("; of {} only the type was compared", fmt::join(paths, ", "));
  }
  return text;
}

Page returned_section(const comparators::Report& report) {
  Page page;
  const ReturnedValues& returned = report.returned;
  const auto& first = report.first_divergence;
  // Of a single call the verdict line has said it.
  const bool is_said = first && core::is_returned(shown_record(*first)) &&
                       returned.compared + returned.missing < 2 && returned.opaque.empty();
  if (is_said) return page;
  page.prose("returned", returned_text(report));
  return page;
}

}  // namespace repro_check::cmd
