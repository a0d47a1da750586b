// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comparators/report/report.h"
#include "core/error.h"

namespace repro_check::comparators {

void check_coverage(const Coverage& coverage, std::uint64_t matched) {
  const bool holds =
      matched + coverage.missing_in_candidate == coverage.baseline_ops &&
      matched + coverage.missing_in_baseline == coverage.candidate_ops &&
      coverage.compared ==
          coverage.equal + coverage.within_policy + coverage.diverged + coverage.mismatched &&
      coverage.compared + coverage.skipped + coverage.not_judged == matched &&
      coverage.origins + coverage.propagated == coverage.diverged + coverage.mismatched &&
      coverage.tensors + coverage.metadata_only + coverage.ignored + coverage.not_judged_tensors ==
          coverage.outputs;
  if (holds) return;
  throw core::Error(
      core::ErrorKind::kInternal,
      fmt::format(
          "the accounting of the comparison does not close: {} matched, {} compared, {} "
          "skipped, {} not judged, {} and {} missing, of {} and {} operators; {} outputs compared, "
          "{} without content, {} ignored, {} not judged, of {}",
          matched,
          coverage.compared,
          coverage.skipped,
          coverage.not_judged,
          coverage.missing_in_candidate,
          coverage.missing_in_baseline,
          coverage.baseline_ops,
          coverage.candidate_ops,
          coverage.tensors,
          coverage.metadata_only,
          coverage.ignored,
          coverage.not_judged_tensors,
          coverage.outputs),
      "please report this with both dumps");
}

namespace {

/// A trace at whose end the error is more than so many times as great as where it began is worth a
/// warning.
constexpr double kGrowing = 100;

std::string step_text(const GrowthStep& step) {
  std::string text = fmt::format("op {} {}", step.op, step.operator_name);
  if (!step.module_path.empty()) text += fmt::format(" ({})", step.module_path);
  return text;
}

/// `relative L2 error 1e-07 at op 3 aten::mul (m) grew to 0.0005 at op 40 aten::mm (m), 5000
/// times`; empty where it is not known how far it grew.
std::string growth_text(const Growth& growth) {
  if (!growth.ratio || !growth.first || !growth.last) return {};
  return fmt::format("relative L2 error {:.3g} at {} grew to {:.3g} at {}, {:.4g} times",
                     growth.first->out.value_or(0),
                     step_text(*growth.first),
                     growth.last->out.value_or(0),
                     step_text(*growth.last),
                     *growth.ratio);
}

std::string nothing_compared(const VerdictInput& input, const Coverage& coverage) {
  if (coverage.baseline_ops == 0 && coverage.candidate_ops == 0) {
    return "both dumps hold no operators";
  }
  if (coverage.baseline_ops == 0) return "the baseline holds no operators";
  if (coverage.candidate_ops == 0) return "the candidate holds no operators";
  if (input.matched == 0) {
    return fmt::format("no operator of the baseline ({}) is also in the candidate ({})",
                       coverage.baseline_ops,
                       coverage.candidate_ops);
  }
  if (coverage.ignored != 0 && coverage.tensors == 0) return "every output is ignored by a rule";
  return "no element of any output could be compared by value";
}

std::string mend_for(Status status, const VerdictInput& input, const Coverage& coverage) {
  switch (status) {
    case Status::kDamaged:
      return "record again and check the disk; this is not a divergence";
    case Status::kNotComparable:
      if (!input.first_unruled.empty()) {
        return "add a rule that matches it, or set \"unmatched\" to \"policy\" or \"ignore\"";
      }
      if (!input.mend.empty()) return input.mend;
      if (input.lacks_floor) {
        return "calibrate anew on the runs that are compared, or set \"unmatched\" beside a rule "
               "that says what else to judge by";
      }
      if (input.lacks_fp64) {
        return "record the baseline in float64 with \"dump\": {\"level\": \"tensor\"}, or set "
               "\"unmatched\" beside a rule that says what else to judge by";
      }
      return input.first_not_judged.empty() && input.returned_not_judged.empty()
                 ? "record both runs with the same \"dump\" settings"
                 : "record with \"dump\": {\"level\": \"tensor\"}, or compare with policy "
                   "\"bitwise\"";
    case Status::kNothingCompared:
      if (input.matched != 0 && coverage.ignored != 0) {
        return "let a rule other than \"ignore\" match some of the outputs";
      }
      return input.matched == 0 ? "check that both dumps are of the same model, recorded at the "
                                  "same \"dump\": {\"depth\"}"
                                : "check that the model runs operators with outputs, and that "
                                  "\"include\" and \"exclude\" leave some in";
    default:
      return {};
  }
}

/// What the report leads with.
void settle_first(bool operators_differ, Report& report) {
  if (!operators_differ) {
    // Records that found no counterpart at all are no divergence: nothing was compared.
    report.first_divergence.reset();
    report.divergences.clear();
    report.divergences_total = 0;
    report.control_flow.reset();
  }
  if (!report.first_divergence && report.returned.first) {
    report.first_divergence = report.returned.first;
    report.divergences_total = 1;
  }
  if (report.first_divergence) {
    report.kind = report.first_divergence->kind;
  } else if (report.growth.exceeded) {
    report.kind = DivergenceKind::kGrowth;
  }
}

}  // namespace

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
                  kSteepGrowth,
                  step_text(*growth.steepest),
                  growth.steepest->factor.value_or(0)));
}

void decide(const VerdictInput& input, Report& report) {
  const Coverage& coverage = report.coverage;
  const std::uint64_t unmatched = coverage.missing_in_baseline + coverage.missing_in_candidate;
  const ReturnedValues& returned = report.returned;
  const bool operators_differ = coverage.diverged + coverage.mismatched != 0 ||
                                (unmatched != 0 && input.matched != 0) || report.growth.exceeded;
  const bool diverged = operators_differ || returned.diverged + returned.missing != 0;
  std::vector<Status> statuses;
  if (!input.damage.empty()) statuses.push_back(Status::kDamaged);
  if (diverged) statuses.push_back(Status::kDiverged);
  const bool incomparable = !input.incomparable.empty() ||
                            coverage.not_judged + returned.not_judged != 0 ||
                            !input.first_unruled.empty();
  if (incomparable) statuses.push_back(Status::kNotComparable);
  // A program without operators is judged by what it returns; that alone says nothing of those of
  // which none could be compared.
  const bool is_all = coverage.baseline_ops + coverage.candidate_ops == 0;
  const bool nothing =
      input.values == 0 && input.incomparable.empty() && !(is_all && returned.compared != 0);
  if (nothing) statuses.push_back(Status::kNothingCompared);
  if (statuses.empty()) statuses.push_back(Status::kReproducible);
  report.status = statuses.front();
  report.also.assign(statuses.begin() + 1, statuses.end());
  settle_first(operators_differ, report);
  for (const std::string& sentence : input.damage) report.reasons.push_back(sentence);
  for (const std::string& sentence : input.incomparable) report.reasons.push_back(sentence);
  if (!input.first_unruled.empty()) {
    report.reasons.push_back(fmt::format("no rule for {}", input.first_unruled));
  }
  if (coverage.not_judged != 0) {
    report.reasons.push_back(fmt::format("{} could not be judged; first {}",
                                         counted(coverage.not_judged, "operator"),
                                         input.first_not_judged));
  }
  if (returned.not_judged != 0) {
    report.reasons.push_back(fmt::format("what {} returned could not be judged: {}",
                                         counted(returned.not_judged, "call"),
                                         input.returned_not_judged));
  }
  if (nothing) {
    report.reasons.push_back(nothing_compared(input, coverage));
  }
  report.mend = mend_for(report.status, input, coverage);
}

core::ExitCode exit_code_of(const Report& report) noexcept {
  switch (report.status) {
    case Status::kReproducible:
      return core::ExitCode::kReproducible;
    case Status::kDiverged:
    case Status::kObserverEffect:
      return core::ExitCode::kDivergence;
    case Status::kDamaged:
    case Status::kIncomplete:
      return core::ExitCode::kDumpUnusable;
    case Status::kPartial:
    case Status::kNotComparable:
    case Status::kNothingCompared:
    case Status::kStaleBaseline:
    case Status::kNoBaseline:
      return core::ExitCode::kNotComparable;
    case Status::kRunFailed:
      return core::ExitCode::kRunFailed;
  }
  return core::ExitCode::kInternal;
}

}  // namespace repro_check::comparators
