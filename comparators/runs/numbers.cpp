// SPDX-License-Identifier: Apache-2.0
#include "comparators/runs/numbers.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "comparators/measure/records.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

using configs::NumberKind;
using core::OpRecord;
using Kinds = std::set<NumberKind>;

constexpr std::array kAllKinds{NumberKind::kLosses,
                               NumberKind::kParameters,
                               NumberKind::kGradients,
                               NumberKind::kState,
                               NumberKind::kResults};

/// Of what a step of an optimizer left; empty for its options.
std::optional<NumberKind> kind_of_name(std::string_view name) {
  if (name.starts_with(core::kGradientPrefix)) return NumberKind::kGradients;
  if (name.starts_with(core::kStatePrefix)) return NumberKind::kState;
  if (name.starts_with(core::kParameterPrefix)) return NumberKind::kParameters;
  return std::nullopt;
}

/// Of a record whose numbers are all of one kind.
std::optional<NumberKind> number_kind(const OpRecord& head) {
  if (core::is_returned(head)) return NumberKind::kResults;
  if (!head.op) return std::nullopt;
  if (head.op->name == core::kReadRecord) return NumberKind::kResults;
  if (head.op->name == core::kLossRecord) return NumberKind::kLosses;
  return std::nullopt;
}

bool is_optimizer_step(const OpRecord& head) {
  return head.op && head.op->name == core::kStepRecord;
}

/// What one recording holds.
struct HeldNumbers {
  struct Place {
    std::uint64_t op = 0;
    Kinds kinds;
  };
  std::vector<Place> places;
  Kinds kinds;
};

Kinds kinds_in_step(const OpRecord& record) {
  Kinds kinds;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (const auto kind = kind_of_name(tensor.slot)) kinds.insert(*kind);
  }
  return kinds;
}

HeldNumbers read_numbers(const core::DumpSource& dump) {
  HeldNumbers found;
  // Of a recording of blocks a step says that it was made, and rows beside it what it left.
  const bool holds_blocks = dump.manifest().is_of_blocks();
  for (std::uint64_t op = 0; op < dump.op_count(); ++op) {
    const OpRecord head = dump.op_head(op);
    const std::optional<NumberKind> kind = number_kind(head);
    if (!kind && !is_optimizer_step(head)) continue;
    Kinds kinds = kind           ? Kinds{*kind}
                  : holds_blocks ? Kinds{NumberKind::kParameters}
                                 : kinds_in_step(dump.op(op));
    found.kinds.insert(kinds.begin(), kinds.end());
    found.places.push_back({op, std::move(kinds)});
  }
  if (dump.parameter_count() != 0) found.kinds.insert(NumberKind::kParameters);
  return found;
}

std::vector<std::uint64_t> places_of(const HeldNumbers& found,
                                     const std::vector<NumberKind>& judged) {
  std::vector<std::uint64_t> ops;
  for (const HeldNumbers::Place& place : found.places) {
    const auto is_judged = [&](NumberKind kind) { return place.kinds.contains(kind); };
    if (std::ranges::any_of(judged, is_judged)) ops.push_back(place.op);
  }
  return ops;
}

/// Not of the learning rates and other options of an optimizer, which it is given.
bool is_told_beside(const core::Argument& argument) {
  return !kind_of_name(argument.name) && !argument.name.starts_with(core::kLearningRatePrefix) &&
         !argument.name.starts_with(core::kOptionPrefix);
}

/// Cuts what the counterpart of a partial dump has beyond it.
void cut_to_common(bool baseline_is_partial, bool candidate_is_partial, NumberRecords& records) {
  const std::size_t here = records.baseline.size();
  const std::size_t there = records.candidate.size();
  if (baseline_is_partial && there > here) records.candidate.resize(here);
  if (candidate_is_partial && here > there) records.baseline.resize(there);
}

void count_call(const OpRecord& head, std::vector<OperatorCount>& kinds) {
  const auto known = std::ranges::find(kinds, head.op->name, &OperatorCount::name);
  if (known != kinds.end()) {
    ++known->calls;
  } else if (kinds.size() < ChangedOperators::kMostKinds) {
    kinds.push_back({head.op->name, 1});
  }
}

bool is_real_operator(const OpRecord& head) {
  return head.op && !core::is_named_values(head) && !core::is_returned(head);
}

/// Whether two calls gave the same; what has no content, or is not recorded as the results of a
/// gate's baseline are not, is not known to differ.
bool gave_the_same(const OpRecord& baseline, const OpRecord& candidate) {
  const auto here = tensors_of(baseline, core::TensorRole::kOutput);
  const auto there = tensors_of(candidate, core::TensorRole::kOutput);
  const auto may_be_same = [](const core::TensorRecord* left, const core::TensorRecord* right) {
    const bool are_known =
        left->state == core::ContentState::kHashed && right->state == core::ContentState::kHashed;
    return !are_known || left->content_key() == right->content_key();
  };
  if (!std::ranges::equal(here, there, may_be_same)) return false;
  return baseline.results.empty() || candidate.results.empty() ||
         std::ranges::equal(baseline.results, candidate.results, same_scalars);
}

/// Gradients before what an optimizer makes of them, whatever parameter they are of.
int order_of_slot(const TensorComparison& output) {
  const std::string& slot =
      output.baseline.slot.empty() ? output.candidate.slot : output.baseline.slot;
  const auto kind = kind_of_name(slot);
  return kind == NumberKind::kGradients ? 0 : kind == NumberKind::kState ? 1 : 2;
}

}  // namespace

NumberRecords find_numbers(const core::DumpSource& baseline,
                           const core::DumpSource& candidate,
                           const std::vector<NumberKind>& wanted) {
  const HeldNumbers here = read_numbers(baseline);
  const HeldNumbers there = read_numbers(candidate);
  // What recordings of one kind do not both hold is missing in one of the programs; of two kinds
  // one may not have been asked to record it.
  const bool alike = baseline.manifest().trace.depth == candidate.manifest().trace.depth;
  NumberRecords records;
  records.summary.by_name = !wanted.empty();
  for (const NumberKind kind : kAllKinds) {
    const bool is_wanted = wanted.empty() || std::ranges::find(wanted, kind) != wanted.end();
    if (!is_wanted) continue;
    const int sides =
        static_cast<int>(here.kinds.contains(kind)) + static_cast<int>(there.kinds.contains(kind));
    const bool is_judged = sides == 2 || (sides == 1 && alike);
    (is_judged ? records.summary.judged : records.summary.not_recorded).push_back(kind);
  }
  records.baseline = places_of(here, records.summary.judged);
  records.candidate = places_of(there, records.summary.judged);
  cut_to_common(baseline.manifest().trace.partial.has_value(),
                candidate.manifest().trace.partial.has_value(),
                records);
  std::set<std::pair<std::uint32_t, std::uint32_t>> steps;
  for (const std::uint64_t op : records.baseline) {
    const OpRecord head = baseline.op_head(op);
    if (number_kind(head) == NumberKind::kResults) {
      ++records.summary.results;
    } else {
      steps.emplace(head.rank, head.step);
    }
  }
  if (records.summary.judges(NumberKind::kParameters)) {
    for (std::uint64_t i = 0; i < baseline.parameter_count(); ++i) {
      steps.emplace(0, baseline.parameter(i).step);
    }
  }
  records.summary.steps = steps.size();
  return records;
}

OpRecord with_numbers(OpRecord record, const std::vector<NumberKind>& kinds) {
  if (!is_optimizer_step(record)) return record;
  const auto is_kept = [&](std::string_view name) {
    const auto kind = kind_of_name(name);
    return kind && std::ranges::find(kinds, *kind) != kinds.end();
  };
  OpRecord kept{static_cast<const core::OpHead&>(record)};
  std::vector<std::uint32_t> places;
  for (core::TensorRecord& tensor : record.tensors) {
    places.push_back(static_cast<std::uint32_t>(kept.tensors.size()));
    if (is_kept(tensor.slot)) kept.tensors.push_back(std::move(tensor));
  }
  const auto moved = [&](core::Value value) {
    auto* slot = std::get_if<core::TensorSlot>(&value.data);
    if (slot != nullptr && slot->index < places.size()) slot->index = places[slot->index];
    return value;
  };
  std::vector<core::Argument> beside;
  for (std::size_t i = 0; i < record.arguments.size(); ++i) {
    core::Argument& argument = record.arguments[i];
    if (is_kept(argument.name)) {
      kept.arguments.push_back({argument.name, moved(std::move(argument.value))});
      if (i < record.results.size()) kept.results.push_back(moved(record.results[i]));
    } else if (is_told_beside(argument)) {
      beside.push_back(std::move(argument));
    }
  }
  std::ranges::move(beside, std::back_inserter(kept.arguments));
  return kept;
}

ChangedOperators changed_operators(const core::DumpSource& baseline,
                                   const core::DumpSource& candidate,
                                   const Pairing& pairing) {
  ChangedOperators changed;
  const auto note_first = [&](const OpRecord& head, bool in_baseline) {
    if (changed.first_index) return;
    changed.first_index = head.index;
    changed.first_in_baseline = in_baseline;
    changed.first = head_of(head);
  };
  for (std::uint32_t op = 0; op < pairing.candidate_of.size(); ++op) {
    const OpRecord head = baseline.op_head(op);
    if (!is_real_operator(head)) continue;
    ++changed.baseline;
    const std::uint32_t other = pairing.candidate_of[op];
    if (other == kUnmatched) {
      ++changed.baseline_only;
      count_call(head, changed.kinds_baseline);
    } else if (gave_the_same(baseline.op(op), candidate.op(other))) {
      continue;
    } else {
      ++changed.differing;
    }
    note_first(head, true);
  }
  for (std::uint32_t op = 0; op < pairing.baseline_of.size(); ++op) {
    const OpRecord head = candidate.op_head(op);
    if (!is_real_operator(head)) continue;
    ++changed.candidate;
    if (pairing.baseline_of[op] != kUnmatched) continue;
    ++changed.candidate_only;
    count_call(head, changed.kinds_candidate);
    note_first(head, false);
  }
  return changed;
}

void explain_numbers(Report& report) {
  Phrase apart(report.blocks ? "numbers-of-blocks" : "numbers-apart");
  const Phrase advice(report.blocks ? "do-record-operators" : "do-diff-operators");
  if (report.blocks && report.blocks->first) {
    const core::BlockRow& first = report.blocks->first->border;
    apart.with("differing", report.blocks->differing + report.blocks->missing)
        .with("block", first.path)
        .with("step", first.step)
        .with("phase", std::string(core::name_of(first.phase)));
  }
  if (const auto& operators = report.numbers->operators; operators && operators->first_index) {
    apart.with("differing", operators->total())
        .with("op", op_text(operators->first))
        .with("run", run_field(operators->first_in_baseline));
  }
  const auto explain = [&](OpDivergence& op) {
    std::ranges::stable_sort(op.outputs, {}, order_of_slot);
    // Of operators that were not compared nothing is known.
    std::erase_if(op.cause.evidence, [](const Phrase& phrase) {
      return phrase.key == "all-before-agree" || phrase.key == "nothing-before";
    });
    // What was made otherwise, or by one run alone, says so itself.
    if (op.relation == Relation::kMissing || op.cause.kind == CauseKind::kOtherStructure) return;
    if (op.relation == Relation::kOrigin) op.relation = Relation::kPropagated;
    op.kind = DivergenceKind::kOrigin;
    op.producers.clear();
    op.cause = {CauseKind::kUnexplained, {apart}, advice};
  };
  if (report.first_divergence) explain(*report.first_divergence);
  if (report.returned.first) explain(*report.returned.first);
  std::ranges::for_each(report.divergences, explain);
  if (report.first_divergence) report.kind = report.first_divergence->kind;
  forget_origins(report);
  report.control_flow.reset();
}

}  // namespace repro_check::comparators
