// SPDX-License-Identifier: Apache-2.0
#include "comparators/runs/second_pair.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "comparators/blocks/blocks.h"
#include "comparators/cause/cause.h"
#include "comparators/judge/expectations.h"
#include "comparators/measure/policy.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

bool lacks_values(const TensorComparison& tensor) noexcept {
  using core::ContentState;
  return tensor.outcome != TensorOutcome::kMismatch && !tensor.metrics &&
         tensor.baseline.state == ContentState::kHashed &&
         tensor.candidate.state == ContentState::kHashed;
}

bool lacks_values(const std::optional<OpDivergence>& of) noexcept {
  const auto lacks = [](const TensorComparison& tensor) { return lacks_values(tensor); };
  return of && (std::ranges::any_of(of->outputs, lacks) || std::ranges::any_of(of->inputs, lacks));
}

/// What values would say something of: the first divergence, or, where it has none, how much what
/// the model returns came to differ. Null where there is neither.
const OpDivergence* measurable(const Report& report) noexcept {
  if (report.status != Status::kDiverged) return nullptr;
  for (const auto* each : {&report.first_divergence, &report.returned.first}) {
    if (lacks_values(*each)) return &**each;
  }
  return nullptr;
}

/// @param operators  that the run has; what it returns comes behind them
core::OpRange around(std::uint64_t index, std::uint64_t window, std::uint64_t operators) noexcept {
  operators = std::max(operators, index + 1);
  return {index - std::min(index, window), index + std::min(operators - 1 - index, window)};
}

void add_producers(const core::OpRecord& record, core::OpRanges& ranges) {
  for (const core::TensorRecord& tensor : record.tensors) {
    if (!core::is_input(tensor) || tensor.producer < 0) continue;
    const auto producer = static_cast<std::uint64_t>(tensor.producer);
    ranges.push_back({producer, producer});
  }
}

bool is_step(const core::OpRecord& record) noexcept {
  return record.op != nullptr && record.op->name == core::kStepRecord;
}

/// Of a record of what an optimizer's step left, what was recorded of the operators of that step,
/// itself included: those after the one that made its last gradient. Else empty.
std::optional<core::OpRange> operators_of_step(const core::OpRecord& record) {
  if (!is_step(record)) return std::nullopt;
  core::OpRange range{0, record.index};
  for (const core::TensorRecord& tensor : record.tensors) {
    if (!tensor.slot.starts_with(core::kGradientPrefix) || tensor.producer < 0) continue;
    range.first = std::max(range.first, static_cast<std::uint64_t>(tensor.producer) + 1);
  }
  return range;
}

/// Whether the divergence of `closer` is among the operators of the step `of`, which were not read
/// one by one, or not recorded: their indices are then those from its own on.
bool holds(const OpDivergence& of, const OpDivergence& closer) {
  const core::OpRecord& step = closer.baseline_index ? of.baseline : of.candidate;
  const core::OpRecord& inside = closer.baseline_index ? closer.baseline : closer.candidate;
  return is_step(step) && inside.phase == core::Phase::kOptimizer && inside.step == step.step &&
         inside.index >= operators_of_step(step)->first;
}

/// Whether two runs that resumed part at the same call from there on: what comes before is compared
/// with nothing, and need not be of one length, as where the second pair finds the files of the
/// first.
bool is_same_call_from_resume(const Report& left, const Report& right) {
  if (!left.resume || !right.resume) return false;
  const OpDivergence& one = *left.first_divergence;
  const OpDivergence& other = *right.first_divergence;
  return one.baseline_index && other.baseline_index &&
         *one.baseline_index - left.resume->baseline_op ==
             *other.baseline_index - right.resume->baseline_op &&
         operator_text(one.baseline) == operator_text(other.baseline);
}

bool shows_the_same(const Report& left, const Report& right) {
  if (left.status != right.status) return false;
  if (left.blocks && left.first_divergence) {
    return right.first_divergence && is_opened(left, shown_record(*right.first_divergence));
  }
  if (!left.first_divergence || !right.first_divergence) {
    return left.first_divergence.has_value() == right.first_divergence.has_value();
  }
  return is_same_call(*left.first_divergence, *right.first_divergence) ||
         is_same_call_from_resume(left, right) ||
         holds(*left.first_divergence, *right.first_divergence);
}

bool is_judged(const Report& report) noexcept {
  return report.status == Status::kDiverged || report.status == Status::kReproducible;
}

}  // namespace

bool can_start_with_digests(const configs::CompareSpec& spec) noexcept {
  // Equal digests say nothing of NaN, which `never` wants to know of.
  const auto decides = [](const configs::PolicySpec& policy) {
    return policy.kind == configs::PolicyKind::kIgnore ||
           (digests_decide(policy) && policy.equal_nan != configs::EqualNan::kNever);
  };
  if (spec.promote) return false;
  if (!std::ranges::all_of(spec.rules, decides, &configs::Rule::policy)) return false;
  const bool judged = spec.rules.empty() || spec.unmatched == configs::Unmatched::kPolicy;
  return !judged || decides(spec.policy);
}

bool can_start_with_blocks(const configs::CompareSpec& spec) noexcept {
  const configs::CompareSpec plain;
  const bool asks_of_operators =
      spec.numbers || spec.resume || !spec.rules.empty() || spec.strides != plain.strides ||
      spec.alias != plain.alias || spec.device || spec.align != plain.align ||
      spec.order != plain.order || spec.map != plain.map || spec.max_growth;
  return !asks_of_operators && spec.policy.kind == configs::PolicyKind::kBitwise &&
         can_start_with_digests(spec);
}

MissingValues missing_values(std::span<const Report> reports, std::uint64_t window) {
  MissingValues missing;
  core::OpRanges& ranges = missing.operators;
  for (const Report& report : reports) {
    const OpDivergence* found = measurable(report);
    if (found == nullptr) continue;
    const OpDivergence& first = *found;
    const auto add = [&](const std::optional<std::uint64_t>& index, std::uint64_t covered) {
      if (!index) return;
      // Of a resumed run only the last operators are covered.
      ranges.push_back(around(*index, window, report.resume ? *index + window + 1 : covered));
    };
    add(first.baseline_index, report.coverage.baseline_ops);
    add(first.candidate_index, report.coverage.candidate_ops);
    add_producers(first.baseline, ranges);
    add_producers(first.candidate, ranges);
    for (const core::OpRecord* record : {&first.baseline, &first.candidate}) {
      const auto range = operators_of_step(*record);
      if (!range) continue;
      ranges.push_back(*range);
      // Where none of them was recorded, this is where the first one will be.
      missing.steps.push_back({record->index, record->index});
    }
  }
  ranges = core::united(std::move(ranges));
  missing.steps = core::united(std::move(missing.steps));
  return missing;
}

void carry_over(const Report& known, Report& report) {
  const auto says_so = [](const Report& of) {
    return of.status == Status::kDiverged ||
           std::ranges::find(of.also, Status::kDiverged) != of.also.end();
  };
  if (!says_so(known) || says_so(report)) return;
  report.also.push_back(Status::kDiverged);
  report.kind = known.kind;
  report.first_divergence = known.first_divergence;
  report.control_flow = known.control_flow;
  report.divergences = known.divergences;
  report.divergences_total = known.divergences_total;
  report.first_bit_difference = known.first_bit_difference;
}

Report settle(Report digests, Report values) {
  Report report;
  if (!is_judged(values)) {
    report = values;
    // What could not be judged does not take back what the first pair showed.
    carry_over(digests, report);
  } else if (digests.blocks && digests.status == Status::kReproducible &&
             values.status == Status::kReproducible) {
    // Operators were recorded of some steps for the sake of another run.
    report = digests;
  } else if (shows_the_same(digests, values)) {
    report = values;
    // What the whole step was told otherwise is why one of its operators differs.
    const bool is_of_step = report.first_divergence && digests.first_divergence &&
                            holds(*digests.first_divergence, *report.first_divergence) &&
                            !is_step(report.first_divergence->baseline);
    // As well why one is there in one run alone.
    if (is_of_step &&
        (digests.first_divergence->cause.kind == CauseKind::kArgument ||
         !report.first_divergence->baseline_index || !report.first_divergence->candidate_index)) {
      lead_with(digests.first_divergence->cause, report.first_divergence->cause);
    }
  } else {
    report = values.status == Status::kDiverged ? values : digests;
    report.kind = DivergenceKind::kUnrepeated;
    report.reasons.emplace_back("pairs-differ");
  }
  report.seconds = digests.seconds + values.seconds;
  report.passes.push_back(std::move(digests));
  report.passes.push_back(std::move(values));
  return report;
}

Report settle(Report digests) {
  Report report = digests;
  if (report.status == Status::kDiverged) {
    report.reasons.emplace_back("no-second-pair");
  }
  report.passes.push_back(std::move(digests));
  return report;
}

}  // namespace repro_check::comparators
