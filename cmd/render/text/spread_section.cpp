// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::GrowthStep;
using comparators::Origin;
using comparators::Report;

std::string step_text(const GrowthStep& step) {
  std::string text = fmt::format("op {} {}", step.op, escape_name(step.operator_name));
  if (!step.module_path.empty()) text += fmt::format(" ({})", escape_name(step.module_path));
  return text;
}

// `12 after it, reaches 1 of 2 final values`.
std::string spread_text(const Origin& origin, std::uint64_t finals) {
  if (!origin.tainted) return "";
  return fmt::format("{} after it, {} of {} final",
                     format_count(*origin.tainted),
                     format_count(origin.outputs_total),
                     format_count(finals));
}

Line origin_line(const Origin& origin, std::uint64_t finals) {
  const std::uint64_t index = origin.baseline_index.value_or(origin.candidate_index.value_or(0));
  return op_line(index, origin.record).put("  ").put(spread_text(origin, finals), Role::kHint);
}

std::string path_text(const Origin& origin) {
  std::string text;
  for (const GrowthStep& step : origin.path) {
    text += fmt::format("{}{}", text.empty() ? "" : " -> ", step_text(step));
    if (step.out) text += fmt::format(" {:.2g}", *step.out);
    if (step.factor) text += fmt::format(" (x{:.2g})", *step.factor);
  }
  const std::size_t left = static_cast<std::size_t>(origin.path_steps) - origin.path.size();
  return left == 0 || text.empty()
             ? text
             : fmt::format("{}; {} steps not shown", text, format_count(left));
}

void add_growth(Page& page, const comparators::Growth& growth) {
  if (!growth.first || !growth.last) return;
  std::string text = fmt::format("relative L2 error {:.3g} at {}, {:.3g} at {}",
                                 growth.first->out.value_or(0),
                                 step_text(*growth.first),
                                 growth.last->out.value_or(0),
                                 step_text(*growth.last));
  if (growth.ratio) text += fmt::format(", {:.3g} times", *growth.ratio);
  text += fmt::format("; amplified by {}, damped by {}, handed on by {}, absorbed by {}",
                      format_count(growth.amplified, "operator"),
                      format_count(growth.damped),
                      format_count(growth.carried),
                      format_count(growth.absorbed));
  page.prose("growth", text);
}

}  // namespace

Page spread_section(const Report& report, const Detail& detail, bool all) {
  Page page;
  const bool is_wanted = all || detail.everything || report.origins_total > 1;
  if (!is_wanted || report.origins.empty()) return page;
  const std::size_t shown =
      all ? report.origins.size() : std::min(detail.items, report.origins.size());
  for (std::size_t i = 0; i < shown; ++i) {
    page.add(i == 0 ? "origins" : "", origin_line(report.origins[i], report.final_values));
    if (detail.everything) page.prose("", path_text(report.origins[i]));
  }
  const std::uint64_t left = report.origins_total - shown;
  if (left > 0) {
    const std::string_view how = all ? "not told apart" : "--all";
    page.add("", Line(fmt::format("... and {} more: {}", format_count(left), how), Role::kHint));
  }
  if (detail.everything) add_growth(page, report.growth);
  return page;
}

}  // namespace repro_check::cmd
