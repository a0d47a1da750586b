// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "comparators/cause/compute_cause.h"
#include "comparators/cause/named_tensors.h"
#include "comparators/report/op_text.h"
#include "core/trace/dataflow.h"
#include "core/trace/lane.h"

namespace repro_check::comparators::detail {
namespace {

/// Where a differing input came from.
enum class InputOrigin {
  kDivergent,   ///< an operator whose output diverged, is missing, or was not judged
  kWithin,      ///< an operator whose output passed although it differs
  kUnobserved,  ///< an operator whose output was equal: something else wrote in between
  kRaced,       ///< another operator of another lane in each run, though both ran in both
  kInput,       ///< a forward argument
  kState,       ///< a parameter or buffer
  kConstant,    ///< nothing in the trace, and nobody named it
};

struct TracedInput {
  const TensorComparison* comparison = nullptr;
  InputOrigin origin = InputOrigin::kConstant;
  std::optional<std::uint64_t> producer;  ///< baseline op
  std::string name;                       ///< without its prefix
  std::string_view changed;  ///< where it is not what its producer returned: `in the candidate`
};

/// The record of a compared tensor: the baseline's where it has one.
const core::TensorRecord& either(const TensorComparison& comparison) {
  return comparison.baseline.slot.empty() ? comparison.candidate : comparison.baseline;
}

/// Where inputs that differ got their values.
class Tracer {
 public:
  /// @param lane  of the operator whose inputs are traced
  Tracer(const Evidence& evidence, std::uint32_t lane) : evidence_(evidence), lane_(lane) {}

  [[nodiscard]] TracedInput trace(const TensorComparison& comparison) const {
    TracedInput traced;
    traced.comparison = &comparison;
    traced.changed = changed_since(comparison);
    const std::int64_t here = comparison.baseline.producer;
    const std::int64_t there = comparison.candidate.producer;
    if (here >= 0 && there >= 0 && !same_producer(here, there)) {
      set_other_writer(static_cast<std::uint64_t>(there), traced);
    } else if (here >= 0) {
      set_producer(static_cast<std::uint64_t>(here), traced);
    } else if (there >= 0) {
      set_candidate_producer(static_cast<std::uint64_t>(there), traced);
    } else {
      set_name(either(comparison).name, traced);
    }
    if (!traced.changed.empty()) traced.origin = InputOrigin::kUnobserved;
    if (is_raced(here, there)) traced.origin = InputOrigin::kRaced;
    return traced;
  }

 private:
  /// Whether each side was written last by another call, of which one at least is of another lane,
  /// and neither is missing in the other run: only their order differs.
  [[nodiscard]] bool is_raced(std::int64_t here, std::int64_t there) const {
    if ((here < 0 && there < 0) || (there >= 0 && same_producer(here, there))) return false;
    return is_of_both(*evidence_.baseline_dump, here, evidence_.pairing->candidate_of) &&
           is_of_both(*evidence_.candidate_dump, there, evidence_.pairing->baseline_of) &&
           (is_elsewhere(*evidence_.baseline_dump, here) ||
            is_elsewhere(*evidence_.candidate_dump, there));
  }

  /// Nobody's writing is on both sides too.
  static bool is_of_both(const core::DumpSource& dump,
                         std::int64_t writer,
                         const core::LargeVector<std::uint32_t>& counterparts) {
    if (writer < 0) return true;
    const auto place = static_cast<std::size_t>(writer);
    return place < dump.op_count() && place < counterparts.size() &&
           counterparts[place] != kUnmatched;
  }

  [[nodiscard]] bool is_elsewhere(const core::DumpSource& dump, std::int64_t writer) const {
    return writer >= 0 && dump.op_head(static_cast<std::uint64_t>(writer)).lane != lane_;
  }

  /// On which side the value is not what its producer returned; empty where nothing shows it.
  [[nodiscard]] std::string_view changed_since(const TensorComparison& comparison) const {
    const bool here = evidence_.baseline_writes->contradicts(comparison.baseline);
    const bool there = evidence_.candidate_writes->contradicts(comparison.candidate);
    if (here && there) return "in both runs";
    if (here) return "in the baseline";
    return there ? "in the candidate" : "";
  }

  /// Whether two op indices are one matched operator.
  [[nodiscard]] bool same_producer(std::int64_t here, std::int64_t there) const {
    const auto& baseline_of = evidence_.pairing->baseline_of;
    const auto place = static_cast<std::size_t>(there);
    return place < baseline_of.size() && std::cmp_equal(baseline_of[place], here);
  }

  /// Each side was written by another operator: that alone makes it differ.
  void set_other_writer(std::uint64_t there, TracedInput& traced) const {
    const auto& baseline_of = evidence_.pairing->baseline_of;
    traced.origin = InputOrigin::kDivergent;
    if (there < baseline_of.size() && baseline_of[there] != kUnmatched) {
      traced.producer = baseline_of[there];
    }
  }

  void set_producer(std::uint64_t producer, TracedInput& traced) const {
    traced.producer = producer;
    const OpOutcome outcome =
        producer < evidence_.outcomes.size() ? evidence_.outcomes[producer] : OpOutcome::kUnseen;
    switch (outcome) {
      case OpOutcome::kEqual:
        set_earlier_writer(producer, traced);
        return;
      case OpOutcome::kWithin:
        traced.origin = InputOrigin::kWithin;
        return;
      default:
        traced.origin = InputOrigin::kDivergent;
    }
  }

  /// The last writer wrote the same on both sides. Another part of the memory may have come to
  /// differ before.
  void set_earlier_writer(std::uint64_t producer, TracedInput& traced) const {
    traced.origin = InputOrigin::kUnobserved;
    const std::int64_t earlier =
        evidence_.baseline_writes->differing_writer(traced.comparison->baseline);
    if (earlier >= 0 && std::cmp_less(earlier, producer)) {
      set_producer(static_cast<std::uint64_t>(earlier), traced);
    }
  }

  /// Written in the candidate only: by an operator that the baseline lacks, or by one that did not
  /// write there.
  void set_candidate_producer(std::uint64_t producer, TracedInput& traced) const {
    const auto& baseline_of = evidence_.pairing->baseline_of;
    traced.origin = InputOrigin::kDivergent;
    if (producer < baseline_of.size() && baseline_of[producer] != kUnmatched) {
      set_producer(baseline_of[producer], traced);
    }
  }

  static void set_name(std::string_view name, TracedInput& traced) {
    const core::TensorSource source = core::named_source(name);
    traced.name = source.name;
    traced.origin = source.kind == core::SourceKind::kInput   ? InputOrigin::kInput
                    : source.kind == core::SourceKind::kState ? InputOrigin::kState
                                                              : InputOrigin::kConstant;
  }

  const Evidence& evidence_;
  std::uint32_t lane_;
};

const TracedInput* first_of(const std::vector<TracedInput>& inputs, InputOrigin origin) {
  const auto found = std::ranges::find(inputs, origin, &TracedInput::origin);
  return found == inputs.end() ? nullptr : &*found;
}

std::string argument_text(const TracedInput& input) {
  return fmt::format("argument `{}`", either(*input.comparison).slot);
}

/// `, 1 of 4096 elements, max 1 ULP`, from whatever measured the tensor.
std::string measured_size(const TracedInput& input, const Evidence& evidence) {
  for (const NamedTensorDifference& named : *evidence.named_tensors) {
    if (named.name != input.name) continue;
    if (named.metrics) return ", " + size_text(*named.metrics);
    return named.note.empty() ? std::string() : ", " + named.note;
  }
  if (input.comparison->metrics) return ", " + size_text(*input.comparison->metrics);
  const std::string& note = input.comparison->note;
  return note.empty() ? note : ", " + note;
}

Cause input_cause(const TracedInput& input, const Evidence& evidence) {
  return {CauseKind::kInputData,
          fmt::format("the model was given other data: input `{}` differs before the first "
                      "operator{}",
                      input.name,
                      measured_size(input, evidence))};
}

Cause weights_cause(const TracedInput& input, const Evidence& evidence) {
  return {CauseKind::kWeights,
          fmt::format("the runs had different models: state `{}` differs{}",
                      input.name,
                      measured_size(input, evidence))};
}

Cause constant_cause(const TracedInput& input) {
  return {CauseKind::kConstant,
          fmt::format("{} is a constant of the graph that differs; a traced random value may be "
                      "baked in",
                      argument_text(input))};
}

Cause unobserved_cause(const TracedInput& input) {
  const std::string what =
      input.changed.empty() || !input.producer
          ? fmt::format(
                "{} was written by op {}, whose outputs are equal: something changed the "
                "value without being recorded, or it was written without being returned",
                argument_text(input),
                input.producer.value_or(0))
          : fmt::format(
                "{} is not what op {} returned, {}: something changed the value in between "
                "without being recorded",
                argument_text(input),
                *input.producer,
                input.changed);
  return {CauseKind::kUnobservedWrite, what};
}

std::string writer_text(const core::DumpSource& dump, std::int64_t writer) {
  if (writer < 0) return "nobody";
  const core::OpRecord head = dump.op_head(static_cast<std::uint64_t>(writer));
  return fmt::format(
      "op {} {} of lane {}", writer, operator_text(head), core::lane_text(head.lane));
}

Cause lane_race_cause(const TracedInput& input, const Evidence& evidence) {
  const TensorComparison& tensor = *input.comparison;
  return {CauseKind::kRace,
          fmt::format("{} was last written by {} in the baseline and by {} in the candidate, and "
                      "nothing keeps these lanes in order",
                      argument_text(input),
                      writer_text(*evidence.baseline_dump, tensor.baseline.producer),
                      writer_text(*evidence.candidate_dump, tensor.candidate.producer)),
          "wait for the other fork before the tensor is written or read, or give each a clone()"};
}

Cause propagated_cause(const TracedInput& input, const Evidence& evidence) {
  if (!input.producer) {
    return {CauseKind::kPropagated,
            fmt::format("{} was made by an operator of the candidate only", argument_text(input))};
  }
  const std::uint32_t root = evidence.root_of.at(*input.producer);
  const bool chain = root != kUnmatched && root != *input.producer;
  const std::uint64_t look = chain ? root : *input.producer;
  return {CauseKind::kPropagated,
          chain ? fmt::format("{} comes from op {}, and the difference from op {}",
                              argument_text(input),
                              *input.producer,
                              look)
                : fmt::format("{} comes from op {}", argument_text(input), *input.producer),
          fmt::format("look at op {}", look)};
}

Cause amplified_cause(const TracedInput& input,
                      const OpFindings& findings,
                      const Evidence& evidence) {
  std::string evidence_text = fmt::format(
      "{} differs since op {} and passed the policy there", argument_text(input), *input.producer);
  const double passed = evidence.passed_error.at(*input.producer);
  if (passed > 0) {
    evidence_text += fmt::format("; this operator made the relative L2 error {:.3g} times as great",
                                 findings.severity / passed);
  }
  return {CauseKind::kAmplified,
          evidence_text,
          fmt::format("look at op {}, or allow more at this operator", *input.producer)};
}

/// An operator on whose account nothing inside it is at fault: a call that it encloses diverged.
Attribution from_child(std::uint64_t child) {
  return {Relation::kPropagated,
          DivergenceKind::kOrigin,
          {child},
          {CauseKind::kPropagated,
           fmt::format("op {}, which it calls, diverged", child),
           fmt::format("look at op {}", child)}};
}

std::vector<std::uint64_t> producers_of(const std::vector<TracedInput>& inputs,
                                        InputOrigin origin) {
  std::vector<std::uint64_t> producers;
  for (const TracedInput& input : inputs) {
    if (input.origin == origin && input.producer) producers.push_back(*input.producer);
  }
  std::ranges::sort(producers);
  producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
  return producers;
}

/// Rows 5 to 9, each by the first input for which it holds.
Cause input_causes(const std::vector<TracedInput>& inputs,
                   const OpFindings& findings,
                   const Evidence& evidence) {
  Cause cause;
  if (const auto* input = first_of(inputs, InputOrigin::kRaced)) {
    add_cause(cause, lane_race_cause(*input, evidence));
  }
  if (const auto* input = first_of(inputs, InputOrigin::kInput)) {
    add_cause(cause, input_cause(*input, evidence));
  }
  if (const auto* input = first_of(inputs, InputOrigin::kState)) {
    add_cause(cause, weights_cause(*input, evidence));
  }
  if (const auto* input = first_of(inputs, InputOrigin::kConstant)) {
    add_cause(cause, constant_cause(*input));
  }
  if (const auto* input = first_of(inputs, InputOrigin::kUnobserved)) {
    auto race = race_cause(&input->comparison->baseline, &input->comparison->candidate);
    add_cause(cause, race ? std::move(*race) : unobserved_cause(*input));
  }
  if (const auto* input = first_of(inputs, InputOrigin::kDivergent)) {
    add_cause(cause, propagated_cause(*input, evidence));
  } else if (const auto* within = first_of(inputs, InputOrigin::kWithin)) {
    add_cause(cause, amplified_cause(*within, findings, evidence));
  }
  return cause;
}

/// A differing tensor input decides, whatever else differs. Rows 5 to 9.
std::optional<Attribution> from_inputs(const OpFindings& findings,
                                       std::uint32_t lane,
                                       const Evidence& evidence) {
  if (findings.inputs.empty()) return std::nullopt;
  std::vector<TracedInput> inputs;
  for (const TensorComparison& input : findings.inputs)
    inputs.push_back(Tracer(evidence, lane).trace(input));
  Attribution result;
  result.cause = input_causes(inputs, findings, evidence);
  if (first_of(inputs, InputOrigin::kRaced) != nullptr) return result;
  const bool divergent = first_of(inputs, InputOrigin::kDivergent) != nullptr;
  if (divergent || first_of(inputs, InputOrigin::kWithin) != nullptr) {
    result.relation = Relation::kPropagated;
    result.producers =
        producers_of(inputs, divergent ? InputOrigin::kDivergent : InputOrigin::kWithin);
  } else if (first_of(inputs, InputOrigin::kInput) != nullptr) {
    result.kind = DivergenceKind::kInputs;
  } else if (first_of(inputs, InputOrigin::kState) != nullptr) {
    result.kind = DivergenceKind::kWeights;
  }
  return result;
}

/// A number that an earlier operator returned, differing, comes back as an argument.
std::optional<Attribution> from_scalars(const OpFindings& findings, const Evidence& evidence) {
  for (const ScalarDifference& argument : findings.arguments) {
    const auto found = evidence.scalar_results.find({argument.baseline, argument.candidate});
    if (found == evidence.scalar_results.end()) continue;
    return Attribution{Relation::kPropagated,
                       DivergenceKind::kOrigin,
                       {found->second},
                       {CauseKind::kPropagated,
                        fmt::format("argument `{}` is what op {} returned: {} against {}",
                                    argument.name,
                                    found->second,
                                    argument.baseline,
                                    argument.candidate),
                        fmt::format("look at op {}", found->second)}};
  }
  return std::nullopt;
}

}  // namespace

Attribution attribute(const core::OpRecord& baseline,
                      const core::OpRecord& candidate,
                      const OpFindings& findings,
                      const Evidence& evidence) {
  Attribution result;
  const std::uint32_t child = evidence.divergent_child.at(baseline.index);
  if (child != kUnmatched) {
    result = from_child(child);
  } else if (auto by_inputs = from_inputs(findings, baseline.lane, evidence)) {
    result = std::move(*by_inputs);
  } else if (auto by_scalars = from_scalars(findings, evidence)) {
    result = std::move(*by_scalars);
  } else {
    result = attribute_compute(baseline, candidate, findings, evidence);
  }
  const bool mismatched = findings.outcome == OpOutcome::kMismatched;
  if (mismatched && result.relation == Relation::kOrigin &&
      result.kind == DivergenceKind::kOrigin) {
    result.cause = mismatch_cause(findings, evidence);
  }
  if (result.relation == Relation::kOrigin) {
    lead_with_mode(*evidence.baseline, *evidence.candidate, result.cause);
  }
  if (!mismatched) return result;
  result.relation = Relation::kMismatch;
  result.kind = DivergenceKind::kMismatch;
  return result;
}

}  // namespace repro_check::comparators::detail
