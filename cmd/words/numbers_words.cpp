// SPDX-License-Identifier: Apache-2.0
#include "cmd/words/numbers_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "cmd/render/enum_words.h"
#include "cmd/render/text.h"

namespace repro_check::cmd {
namespace {

using comparators::ChangedOperators;
using comparators::NumbersSummary;
using comparators::OperatorCount;
using comparators::Report;
using configs::NumberKind;

std::string_view name_of(NumberKind kind) {
  return word_at("losses|parameters|gradients|optimizer state|results",
                 static_cast<std::size_t>(kind));
}

std::string names_of(std::span<const NumberKind> kinds) { return joined(kinds, ", ", name_of); }

/// An optimizer without momentum keeps no state: that is told with the gradients alone.
std::vector<NumberKind> missing_kinds(const NumbersSummary& numbers) {
  std::vector<NumberKind> kinds = numbers.not_recorded;
  if (numbers.by_name) return kinds;
  const bool is_training = numbers.steps > 0;
  const bool has_gradients = std::ranges::find(kinds, NumberKind::kGradients) == kinds.end();
  std::erase_if(kinds, [&](NumberKind kind) {
    return kind == NumberKind::kResults || !is_training ||
           (kind == NumberKind::kState && has_gradients);
  });
  return kinds;
}

std::string not_recorded_text(const NumbersSummary& numbers) {
  const std::vector<NumberKind> kinds = missing_kinds(numbers);
  return kinds.empty() ? "" : names_of(kinds) + " not recorded";
}

/// `only in the baseline (aten::reshape 4, aten::clone 1)`
std::string alone_text(std::uint64_t count,
                       std::string_view run,
                       std::span<const OperatorCount> kinds) {
  if (count == 0) return {};
  const std::string names = joined(kinds, ", ", [](const OperatorCount& kind) {
    return fmt::format("{} {}", escape_name(kind.name), kind.calls);
  });
  std::uint64_t named = 0;
  for (const OperatorCount& kind : kinds) named += kind.calls;
  return fmt::format(
      "{} only in the {} ({}{})", format_count(count), run, names, named < count ? ", ..." : "");
}

}  // namespace

std::string_view compared_noun(const Report& report) noexcept {
  return report.numbers ? "record" : "operator";
}

std::string numbers_text(const NumbersSummary& numbers) {
  std::vector<NumberKind> of_steps = numbers.judged;
  const bool has_results = std::erase(of_steps, NumberKind::kResults) != 0;
  const std::string steps =
      of_steps.empty()
          ? ""
          : fmt::format("{} of {}", names_of(of_steps), format_count(numbers.steps, "step"));
  return joined({steps, has_results ? format_count(numbers.results, "result") : ""}, " and ");
}

std::string numbers_pass_text(const Report& report) {
  const NumbersSummary& numbers = *report.numbers;
  const bool is_within = report.coverage.within_policy + report.returned.within_policy > 0;
  std::string operators;
  if (numbers.operators && numbers.operators->baseline + numbers.operators->candidate > 0) {
    const std::uint64_t total = numbers.operators->total();
    operators = total == 0 ? "no operator differs"
                           : fmt::format("{} {}",
                                         format_count(total, "operator"),
                                         total == 1 ? "differs" : "differ");
  }
  const std::string equal = numbers_text(numbers) + (is_within ? " within policy" : " bit-equal");
  // Of a recording of blocks, which reads a part of them behind each step.
  const std::uint64_t parameters = report.blocks ? report.blocks->parameters : 0;
  const std::string read =
      parameters == 0 ? "" : format_count(parameters, "parameter") + " read behind steps";
  return joined({equal, read, operators, not_recorded_text(numbers)}, "; ");
}

std::string numbers_trouble(const Report& report) {
  if (!report.numbers) return {};
  const NumbersSummary& numbers = *report.numbers;
  if (report.status == Status::kPartial) {
    return numbers_text(numbers) +
           " are equal as far as both were recorded; nothing behind them "
           "was compared";
  }
  if (numbers.lacks_named()) return not_recorded_text(numbers);
  if (report.status != Status::kNothingCompared) return {};
  return numbers.judged.empty() ? "neither a step of a training nor a result was recorded"
                                : numbers_text(numbers) +
                                      " are in one of the runs only, or have no "
                                      "values";
}

std::string numbers_mend(const Report& report) {
  if (!report.numbers) return {};
  const auto is_of_blocks = [](const RunSummary& run) { return run.manifest.is_of_blocks(); };
  if (report.numbers->lacks_named() && std::ranges::any_of(report.runs, is_of_blocks)) {
    return "record both runs with --depth top, since blocks have neither gradients nor optimizer "
           "state; --numbers alone takes the numbers that are recorded";
  }
  if (report.numbers->lacks_named()) {
    return "record both runs so that they hold them, or ask for others; --numbers alone takes "
           "those that are recorded";
  }
  if (report.status != Status::kNothingCompared) return {};
  return "leave --numbers out, so that the operators are compared; or let the program make a step "
         "with an optimizer, call backward() or return what it computes";
}

std::string changed_text(const NumbersSummary& numbers) {
  if (!numbers.operators) return {};
  const ChangedOperators& changed = *numbers.operators;
  if (changed.baseline + changed.candidate == 0) return {};
  const std::string all =
      changed.baseline == changed.candidate
          ? format_count(changed.baseline)
          : fmt::format("{} | {}", format_count(changed.baseline), format_count(changed.candidate));
  if (changed.total() == 0) return fmt::format("none of {} differs", all);
  const std::string parts =
      joined({changed.differing == 0 ? "" : format_count(changed.differing) + " with other results",
              alone_text(changed.baseline_only, "baseline", changed.kinds_baseline),
              alone_text(changed.candidate_only, "candidate", changed.kinds_candidate)},
             ", ");
  return fmt::format("{} {}, of {}, which is not judged: {}; first {}{}",
                     format_count(changed.total()),
                     changed.total() == 1 ? "differs" : "differ",
                     all,
                     parts,
                     changed.first_in_baseline ? "" : "candidate ",
                     escape_name(comparators::op_text(changed.first)));
}

}  // namespace repro_check::cmd
