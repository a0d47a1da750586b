// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "comparators/cause/compute_cause.h"
#include "comparators/cause/input_origin.h"
#include "comparators/cause/mode_cause.h"
#include "comparators/cause/named_tensors.h"
#include "comparators/report/op_text.h"
#include "core/trace/lane.h"

namespace repro_check::comparators::detail {
namespace {

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

std::string writer_text(const core::DumpSource& dump, std::int64_t writer) {
  if (writer < 0) return "nobody";
  const core::OpRecord head = dump.op_head(static_cast<std::uint64_t>(writer));
  return fmt::format(
      "op {} {} of lane {}", writer, operator_text(head), core::lane_text(head.lane));
}

Cause lane_race_cause(const TracedInput& input, const Evidence& evidence) {
  const TensorComparison& tensor = *input.comparison;
  return {"race on a tensor in use",
          fmt::format("{} was last written by {} in the baseline and by {} in the candidate, and "
                      "nothing keeps these lanes in order",
                      argument_text(input),
                      writer_text(*evidence.baseline_dump, tensor.baseline.producer),
                      writer_text(*evidence.candidate_dump, tensor.candidate.producer)),
          "wait for the other fork before the tensor is written or read, or give each a clone()"};
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
  if (const auto* input = first_of(inputs, Origin::kRaced)) {
    add_cause(cause, lane_race_cause(*input, evidence));
  }
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
    auto race = race_cause(&input->comparison->baseline, &input->comparison->candidate);
    add_cause(cause, race ? std::move(*race) : unobserved_cause(*input));
  }
  if (const auto* input = first_of(inputs, Origin::kDivergent)) {
    add_cause(cause, propagated_cause(*input, evidence));
  } else if (const auto* within = first_of(inputs, Origin::kWithin)) {
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
    inputs.push_back(trace_input(input, lane, evidence));
  Attribution result;
  result.cause = input_causes(inputs, findings, evidence);
  if (first_of(inputs, Origin::kRaced) != nullptr) return result;
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
