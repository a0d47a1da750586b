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

/// Where a differing input came from, by the cause that this is of what the operator returns:
/// kPropagated of an operator whose output diverged, is missing, or was not judged; kAmplified of
/// one whose output passed although it differs; kUnobservedWrite of one whose output was equal, so
/// that something else wrote in between; kRace of another operator of another lane in each run,
/// though both ran in both; kInputData, kWeights; kConstant of nothing in the trace, and nobody
/// named it.
struct TracedInput {
  const TensorComparison* comparison = nullptr;
  CauseKind origin = CauseKind::kConstant;
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
    if (!traced.changed.empty()) traced.origin = CauseKind::kUnobservedWrite;
    if (is_raced(here, there)) traced.origin = CauseKind::kRace;
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
    traced.origin = CauseKind::kPropagated;
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
        traced.origin = CauseKind::kAmplified;
        return;
      default:
        traced.origin = CauseKind::kPropagated;
    }
  }

  /// The last writer wrote the same on both sides. Another part of the memory may have come to
  /// differ before.
  void set_earlier_writer(std::uint64_t producer, TracedInput& traced) const {
    traced.origin = CauseKind::kUnobservedWrite;
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
    traced.origin = CauseKind::kPropagated;
    if (producer < baseline_of.size() && baseline_of[producer] != kUnmatched) {
      set_producer(baseline_of[producer], traced);
    }
  }

  static void set_name(std::string_view name, TracedInput& traced) {
    const core::TensorSource source = core::named_source(name);
    traced.name = source.name;
    traced.origin = source.kind == core::SourceKind::kInput   ? CauseKind::kInputData
                    : source.kind == core::SourceKind::kState ? CauseKind::kWeights
                                                              : CauseKind::kConstant;
  }

  const Evidence& evidence_;
  std::uint32_t lane_;
};

const TracedInput* first_of(const std::vector<TracedInput>& inputs, CauseKind origin) {
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

std::string writer_text(const core::DumpSource& dump, std::int64_t writer) {
  if (writer < 0) return "nobody";
  const core::OpRecord head = dump.op_head(static_cast<std::uint64_t>(writer));
  return fmt::format(
      "op {} {} of lane {}", writer, operator_text(head), core::lane_text(head.lane));
}

std::string unobserved_text(const TracedInput& input) {
  if (input.changed.empty() || !input.producer) {
    return fmt::format(
        "{} was written by op {}, whose outputs are equal: something changed the value without "
        "being recorded, or it was written without being returned",
        argument_text(input),
        input.producer.value_or(0));
  }
  return fmt::format(
      "{} is not what op {} returned, {}: something changed the value in between without being "
      "recorded",
      argument_text(input),
      *input.producer,
      input.changed);
}

Cause propagated_cause(const TracedInput& input, const Evidence& evidence) {
  if (!input.producer) {
    return {CauseKind::kPropagated,
            fmt::format("{} was made by an operator of the candidate only", argument_text(input))};
  }
  const std::uint32_t root = evidence.root_of.at(*input.producer);
  const bool chain = root != kUnmatched && root != *input.producer;
  const std::uint64_t look = chain ? root : *input.producer;
  std::string what = fmt::format("{} comes from op {}", argument_text(input), *input.producer);
  if (chain) what += fmt::format(", and the difference from op {}", look);
  return {CauseKind::kPropagated, std::move(what), fmt::format("look at op {}", look)};
}

Cause cause_of(const TracedInput& input, const OpFindings& findings, const Evidence& evidence) {
  const TensorComparison& tensor = *input.comparison;
  const std::string argument = argument_text(input);
  switch (input.origin) {
    case CauseKind::kRace:
      return {CauseKind::kRace,
              fmt::format("{} was last written by {} in the baseline and by {} in the candidate, "
                          "and nothing keeps these lanes in order",
                          argument,
                          writer_text(*evidence.baseline_dump, tensor.baseline.producer),
                          writer_text(*evidence.candidate_dump, tensor.candidate.producer)),
              "wait for the other fork before the tensor is written or read, or give each a "
              "clone()"};
    case CauseKind::kInputData:
      return {CauseKind::kInputData,
              fmt::format("the model was given other data: input `{}` differs before the first "
                          "operator{}",
                          input.name,
                          measured_size(input, evidence))};
    case CauseKind::kWeights:
      return {CauseKind::kWeights,
              fmt::format("the runs had different models: state `{}` differs{}",
                          input.name,
                          measured_size(input, evidence))};
    case CauseKind::kUnobservedWrite:
      if (auto race = race_cause(&tensor.baseline, &tensor.candidate)) return *race;
      return {CauseKind::kUnobservedWrite, unobserved_text(input)};
    case CauseKind::kPropagated:
      return propagated_cause(input, evidence);
    case CauseKind::kAmplified: {
      std::string what = fmt::format(
          "{} differs since op {} and passed the policy there", argument, *input.producer);
      const double passed = evidence.passed_error.at(*input.producer);
      if (passed > 0) {
        what += fmt::format("; this operator made the relative L2 error {:.3g} times as great",
                            findings.severity / passed);
      }
      return {CauseKind::kAmplified,
              std::move(what),
              fmt::format("look at op {}, or allow more at this operator", *input.producer)};
    }
    default:
      return {CauseKind::kConstant,
              argument +
                  " is a constant of the graph that differs; a traced random value may be "
                  "baked in"};
  }
}

Attribution inherited_from(std::uint64_t op, std::string what) {
  return {Relation::kPropagated,
          DivergenceKind::kOrigin,
          {op},
          {CauseKind::kPropagated, std::move(what), fmt::format("look at op {}", op)}};
}

std::vector<std::uint64_t> producers_of(const std::vector<TracedInput>& inputs, CauseKind origin) {
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
  const bool inherits = first_of(inputs, CauseKind::kPropagated) != nullptr;
  for (const CauseKind origin : {CauseKind::kRace,
                                 CauseKind::kInputData,
                                 CauseKind::kWeights,
                                 CauseKind::kConstant,
                                 CauseKind::kUnobservedWrite,
                                 inherits ? CauseKind::kPropagated : CauseKind::kAmplified}) {
    const TracedInput* input = first_of(inputs, origin);
    if (input != nullptr) add_cause(cause, cause_of(*input, findings, evidence));
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
  if (first_of(inputs, CauseKind::kRace) != nullptr) return result;
  const bool divergent = first_of(inputs, CauseKind::kPropagated) != nullptr;
  if (divergent || first_of(inputs, CauseKind::kAmplified) != nullptr) {
    result.relation = Relation::kPropagated;
    result.producers =
        producers_of(inputs, divergent ? CauseKind::kPropagated : CauseKind::kAmplified);
  } else if (first_of(inputs, CauseKind::kInputData) != nullptr) {
    result.kind = DivergenceKind::kInputs;
  } else if (first_of(inputs, CauseKind::kWeights) != nullptr) {
    result.kind = DivergenceKind::kWeights;
  }
  return result;
}

/// A number that an earlier operator returned, differing, comes back as an argument.
std::optional<Attribution> from_scalars(const OpFindings& findings, const Evidence& evidence) {
  for (const ScalarDifference& argument : findings.arguments) {
    const auto found = evidence.scalar_results.find({argument.baseline, argument.candidate});
    if (found == evidence.scalar_results.end()) continue;
    return inherited_from(found->second,
                          fmt::format("argument `{}` is what op {} returned: {} against {}",
                                      argument.name,
                                      found->second,
                                      argument.baseline,
                                      argument.candidate));
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
    // On whose account nothing inside it is at fault.
    result = inherited_from(child, fmt::format("op {}, which it calls, diverged", child));
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
