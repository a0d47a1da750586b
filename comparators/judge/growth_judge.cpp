// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/growth_judge.h"

#include <fmt/format.h>

namespace repro_check::comparators::detail {
namespace {

std::string step_text(const GrowthStep& step) {
  std::string text = fmt::format("op {} {}", step.op, step.operator_name);
  if (!step.module_path.empty()) text += fmt::format(" ({})", step.module_path);
  return text;
}

}  // namespace

std::string growth_text(const Growth& growth) {
  if (!growth.ratio || !growth.first || !growth.last) return {};
  return fmt::format("relative L2 error {:.3g} at {} grew to {:.3g} at {}, {:.4g} times",
                     growth.first->out.value_or(0),
                     step_text(*growth.first),
                     growth.last->out.value_or(0),
                     step_text(*growth.last),
                     *growth.ratio);
}

void judge_growth(const std::optional<double>& max_growth, Report& report) {
  Growth& growth = report.growth;
  const double ratio = growth.ratio.value_or(0);
  if (max_growth && ratio > *max_growth) {
    growth.exceeded = true;
    report.reasons.push_back(
        fmt::format("{}, and max_growth is {:.4g}", growth_text(growth), *max_growth));
  }
  // Operators that fail say more than how they came to.
  if (report.coverage.diverged + report.coverage.mismatched != 0) return;
  if (ratio > kGrowing) {
    report.warnings.push_back("every operator is within its policy, but the error grows: " +
                              growth_text(growth));
  }
  if (growth.steep == 0 || !growth.steepest) return;
  report.warnings.push_back(
      fmt::format("{} operator{} the relative L2 error more than {:g} times as great; most {}, "
                  "{:.4g} times",
                  growth.steep,
                  growth.steep == 1 ? " makes" : "s make",
                  kSteep,
                  step_text(*growth.steepest),
                  growth.steepest->factor.value_or(0)));
}

}  // namespace repro_check::comparators::detail
