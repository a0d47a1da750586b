// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "comparators/detail/compute_cause.h"
#include "comparators/detail/op_text.h"
#include "comparators/named_tensors.h"
#include "core/dataflow.h"

namespace repro_check::comparators::detail {
namespace {

/// Where a differing input came from.
enum class Origin {
  kDivergent,   ///< an operator whose output diverged, is missing, or was not judged
  kWithin,      ///< an operator whose output passed although it differs
  kUnobserved,  ///< an operator whose output was equal: something else wrote in between
  kInput,       ///< a forward argument
  kState,       ///< a parameter or buffer
  kConstant,    ///< nothing in the trace, and nobody named it
};

struct TracedInput {
  const TensorComparison* comparison = nullptr;
  Origin origin = Origin::kConstant;
  std::optional<std::uint64_t> producer;  ///< baseline op
  std::string name;                       ///< without its prefix
  std::string_view changed;  ///< where it is not what its producer returned: `in the candidate`
};

const core::TensorRecord& either(const TensorComparison& comparison) {
  return comparison.baseline.slot.empty() ? comparison.candidate : comparison.baseline;
}

class Tracer {
 public:
  explicit Tracer(const Evidence& evidence) : evidence_(evidence) {}

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
    if (!traced.changed.empty()) traced.origin = Origin::kUnobserved;
    return traced;
  }

 private:
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
    traced.origin = Origin::kDivergent;
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
        traced.origin = Origin::kUnobserved;
        return;
      case OpOutcome::kWithin:
        traced.origin = Origin::kWithin;
        return;
      default:
        traced.origin = Origin::kDivergent;
    }
  }

  /// Written in the candidate only: by an operator that the baseline lacks, or by one that did not
  /// write there.
  void set_candidate_producer(std::uint64_t producer, TracedInput& traced) const {
    const auto& baseline_of = evidence_.pairing->baseline_of;
    traced.origin = Origin::kDivergent;
    if (producer < baseline_of.size() && baseline_of[producer] != kUnmatched) {
      set_producer(baseline_of[producer], traced);
    }
  }

  static void set_name(std::string_view name, TracedInput& traced) {
    const core::TensorSource source = core::named_source(name);
    traced.name = source.name;
    traced.origin = source.kind == core::SourceKind::kInput   ? Origin::kInput
                    : source.kind == core::SourceKind::kState ? Origin::kState
                                                              : Origin::kConstant;
  }

  const Evidence& evidence_;
};

const TracedInput* first_of(const std::vector<TracedInput>& inputs, Origin origin) {
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
  return {"input data",
          fmt::format("the model was given other data: input `{}` differs before the first "
                      "operator{}",
                      input.name,
                      measured_size(input, evidence)),
          "give both runs the same data: look at the file, the seed and the preprocessing of this "
          "input"};
}

Cause weights_cause(const TracedInput& input, const Evidence& evidence) {
  return {"weights",
          fmt::format("the runs had different models: state `{}` differs{}",
                      input.name,
                      measured_size(input, evidence)),
          "load the same checkpoint in both runs; look at \"model\", at casts of dtype and at what "
          "changes the weights before the run"};
}

Cause constant_cause(const TracedInput& input) {
  return {"constant differs",
          fmt::format("{} is a constant of the graph that differs; a traced random value may be "
                      "baked in",
                      argument_text(input)),
          "trace or script the model again, once, with a seed, and use that file in both runs"};
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
  return {"unobserved write",
          what,
          "look for writes past the dispatcher (`.data`, another stream, custom operators); record "
          "with \"dump\": {\"depth\": \"all\"}"};
}

Cause propagated_cause(const TracedInput& input, const Evidence& evidence) {
  if (!input.producer) {
    return {"propagated",
            fmt::format("{} was made by an operator of the candidate only", argument_text(input)),
            "look at where the control flow parted"};
  }
  const std::uint32_t root = evidence.root_of.at(*input.producer);
  const bool chain = root != kUnmatched && root != *input.producer;
  const std::uint64_t look = chain ? root : *input.producer;
  return {"propagated",
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
  return {"amplified",
          evidence_text,
          fmt::format("look at op {}, or allow more at this operator", *input.producer)};
}

/// An operator on whose account nothing inside it is at fault: a call that it encloses diverged.
Attribution from_child(std::uint64_t child) {
  return {Relation::kPropagated,
          DivergenceKind::kOrigin,
          {child},
          {"propagated",
           fmt::format("op {}, which it calls, diverged", child),
           fmt::format("look at op {}", child)}};
}

std::vector<std::uint64_t> producers_of(const std::vector<TracedInput>& inputs, Origin origin) {
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
  if (const auto* input = first_of(inputs, Origin::kInput)) {
    add_cause(cause, input_cause(*input, evidence));
  }
  if (const auto* input = first_of(inputs, Origin::kState)) {
    add_cause(cause, weights_cause(*input, evidence));
  }
  if (const auto* input = first_of(inputs, Origin::kConstant)) {
    add_cause(cause, constant_cause(*input));
  }
  if (const auto* input = first_of(inputs, Origin::kUnobserved)) {
    add_cause(cause, unobserved_cause(*input));
  }
  if (const auto* input = first_of(inputs, Origin::kDivergent)) {
    add_cause(cause, propagated_cause(*input, evidence));
  } else if (const auto* within = first_of(inputs, Origin::kWithin)) {
    add_cause(cause, amplified_cause(*within, findings, evidence));
  }
  return cause;
}

/// A differing tensor input decides, whatever else differs. Rows 5 to 9.
std::optional<Attribution> from_inputs(const OpFindings& findings, const Evidence& evidence) {
  if (findings.inputs.empty()) return std::nullopt;
  std::vector<TracedInput> inputs;
  const Tracer tracer(evidence);
  for (const TensorComparison& input : findings.inputs) inputs.push_back(tracer.trace(input));
  Attribution result;
  result.cause = input_causes(inputs, findings, evidence);
  const bool divergent = first_of(inputs, Origin::kDivergent) != nullptr;
  if (divergent || first_of(inputs, Origin::kWithin) != nullptr) {
    result.relation = Relation::kPropagated;
    result.producers = producers_of(inputs, divergent ? Origin::kDivergent : Origin::kWithin);
  } else if (first_of(inputs, Origin::kInput) != nullptr) {
    result.kind = DivergenceKind::kInputs;
  } else if (first_of(inputs, Origin::kState) != nullptr) {
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
                       {"propagated",
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
  } else if (auto by_inputs = from_inputs(findings, evidence)) {
    result = std::move(*by_inputs);
  } else if (auto by_scalars = from_scalars(findings, evidence)) {
    result = std::move(*by_scalars);
  } else {
    result = attribute_compute(baseline, candidate, findings, evidence);
  }
  if (findings.outcome != OpOutcome::kMismatched) return result;
  if (result.relation == Relation::kOrigin && result.kind == DivergenceKind::kOrigin) {
    result.cause = mismatch_cause(findings, evidence);
  }
  result.relation = Relation::kMismatch;
  result.kind = DivergenceKind::kMismatch;
  return result;
}

}  // namespace repro_check::comparators::detail
