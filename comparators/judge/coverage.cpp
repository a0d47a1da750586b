// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/coverage.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace repro_check::comparators::detail {

void count_outcome(OpOutcome outcome, Coverage& coverage) noexcept {
  switch (outcome) {
    case OpOutcome::kEqual:
      ++coverage.equal;
      break;
    case OpOutcome::kWithin:
      ++coverage.within_policy;
      break;
    case OpOutcome::kDiverged:
      ++coverage.diverged;
      break;
    case OpOutcome::kMismatched:
      ++coverage.mismatched;
      break;
    case OpOutcome::kSkipped:
      ++coverage.skipped;
      return;
    case OpOutcome::kNotJudged:
    case OpOutcome::kUnseen:
      ++coverage.not_judged;
      return;
  }
  ++coverage.compared;
}

void count_outputs(const OpFindings& findings, Coverage& coverage) noexcept {
  coverage.outputs += findings.tally.outputs;
  coverage.tensors += findings.tally.tensors;
  coverage.metadata_only += findings.tally.metadata_only;
  coverage.ignored += findings.tally.ignored;
  coverage.not_judged_tensors += findings.tally.not_judged;
  coverage.sliced += static_cast<std::uint64_t>(std::ranges::count_if(
      findings.outputs, [](const TensorComparison& output) { return output.slice.has_value(); }));
  coverage.elements += findings.elements;
  coverage.bytes += findings.bytes;
}

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

}  // namespace repro_check::comparators::detail
