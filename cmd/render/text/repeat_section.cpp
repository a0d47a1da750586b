// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/words.h"
#include "comparators/report/repeat_summary.h"

namespace repro_check::cmd {
namespace {

using comparators::FlakyOp;
using comparators::OpRepeatability;
using comparators::RepeatSummary;
using comparators::Report;
using comparators::Status;

enum class Bound { kLower, kUpper };

// Two digits, and never rounded to promise more than is known.
std::string percent_text(double share, Bound bound) {
  constexpr double kHundred = 100;
  const double percent = share * kHundred;
  if (percent <= 0 || percent >= kHundred) return fmt::format("{:.0f} %", percent);
  const double unit = std::pow(10.0, std::floor(std::log10(percent)) - 1);
  const double steps = percent / unit;
  const double whole = bound == Bound::kLower ? std::floor(steps) : std::ceil(steps);
  return fmt::format("{:.6g} %", whole * unit);
}

// What a pass of so many runs leaves open, and how many runs would leave less.
std::string bound_text(std::uint64_t runs) {
  std::string text =
      fmt::format("{} runs agree: at 95 % confidence the next one differs with a chance below {}",
                  format_count(runs),
                  percent_text(comparators::undetected_share(runs - 1), Bound::kUpper));
  for (const std::uint64_t odds : std::array<std::uint64_t, 4>{10, 20, 100, 1000}) {
    const auto needed = comparators::runs_needed(1.0 / static_cast<double>(odds));
    if (!needed || *needed <= runs) continue;
    return text + fmt::format("; {} runs show what happens once in {}",
                              format_count(*needed),
                              format_count(odds));
  }
  return text;
}

std::string differing_text(const RepeatSummary& repeat) {
  const comparators::Interval chance = repeat.chance();
  const std::string first = escape_name(repeat.runs.front().name);
  std::string text =
      fmt::format("{} of {} runs differ from {}: a chance of {} to {} (95 % confidence)",
                  format_count(repeat.differing),
                  format_count(repeat.judged),
                  first,
                  percent_text(chance.low, Bound::kLower),
                  percent_text(chance.high, Bound::kUpper));
  if (repeat.first_is_odd() && repeat.judged > 1) {
    text += fmt::format("; more than half, so {} is itself the odd one", first);
  }
  return text;
}

std::string op_text(const FlakyOp& op, bool everything) {
  std::string text = fmt::format("{}: {} results in {} runs ({})",
                                 op_line(op.index, op.record).raw(),
                                 op.counts.size(),
                                 op.runs(),
                                 fmt::join(op.counts, ", "));
  if (op.l2_rel) text += fmt::format(", l2 rel {}", format_error(*op.l2_rel));
  if (op.ulp_max) text += fmt::format(", max {} ULP", format_ulp(*op.ulp_max));
  if (everything) {
    text += fmt::format(", disagreement {:.4g}, differs from the first with {} to {}",
                        op.disagreement,
                        percent_text(op.differs.low, Bound::kLower),
                        percent_text(op.differs.high, Bound::kUpper));
  }
  return text;
}

void add_ops(Page& page, const OpRepeatability& ops, const Detail& detail) {
  if (ops.flaky == 0) {
    page.prose("",
               fmt::format("{} stable in {} runs, {} not assessed",
                           format_count(ops.assessed, "operator"),
                           format_count(ops.runs),
                           format_count(ops.not_assessed)));
    return;
  }
  const std::size_t shown = std::min(detail.items, ops.ops.size());
  for (std::size_t i = 0; i < shown; ++i) {
    page.prose(i == 0 ? "flaky" : "", op_text(ops.ops[i], detail.everything));
  }
  page.prose("",
             fmt::format("{} of {} gave more than one result for equal inputs{}",
                         format_count(ops.flaky),
                         format_count(ops.assessed, "operator"),
                         shown < ops.ops.size() ? ": -v lists them" : ""));
}

using comparators::DivergenceKind;
using comparators::RunSummary;

void add_pass(Page& page, std::string_view label, const Report& pass) {
  page.prose(label, verdict_line(pass).raw() + "; in " + dumps_text(pass));
}

}  // namespace

Page repeat_section(const Report& report, const Detail& detail) {
  Page page;
  const bool is_pass = report.status == Status::kReproducible;
  if (!report.repeat) {
    if (is_pass && detail.everything) page.prose("chance", bound_text(2));
    return page;
  }
  const RepeatSummary& repeat = *report.repeat;
  if (is_pass) {
    page.prose("chance", bound_text(repeat.judged + 1));
  } else if (repeat.judged != 0) {
    page.prose("chance", differing_text(repeat));
  }
  if (!repeat.alike) {
    page.prose("", "the runs were not set up alike: chances are about runs that are");
  }
  if (repeat.ops.runs != 0) add_ops(page, repeat.ops, detail);
  const std::size_t shown = std::min(detail.items, repeat.ops.notes.size());
  for (std::size_t i = 0; i < shown; ++i) page.prose("", repeat.ops.notes[i]);
  return page;
}

std::string dumps_text(const Report& report) {
  std::string text;
  for (const RunSummary& run : report.runs) {
    text.append(text.empty() ? "" : ", ").append(escape_name(run.location));
  }
  return text;
}

Page passes_section(const Report& report) {
  Page page;
  if (report.passes.size() < 2) {
    return page;
  }
  const Report& first = report.passes[0];
  const Report& second = report.passes[1];
  if (report.kind == DivergenceKind::kUnrepeated) {
    add_pass(page, "1st pair", first);
    add_pass(page, "2nd pair", second);
  } else if (first.status != second.status) {
    add_pass(page, "1st pair", first);
  } else if (first.status == comparators::Status::kDiverged) {
    page.prose("1st pair", "diverged at the same operator; in " + dumps_text(first));
  }
  return page;
}

}  // namespace repro_check::cmd
