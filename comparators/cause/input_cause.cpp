// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "comparators/cause/attribution.h"
#include "comparators/cause/traced_input.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/dataflow.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

const TracedInput* first_of(const std::vector<TracedInput>& inputs, CauseKind origin) {
  const auto found = std::ranges::find(inputs, origin, &TracedInput::origin);
  return found == inputs.end() ? nullptr : &*found;
}

std::string argument_text(const TracedInput& input) {
  return fmt::format("argument `{}`", either(*input.comparison).slot);
}

/// `1 -> 2`, of tensors that hold one number; empty of others, and where it is not known.
Phrases two_numbers(const TracedInput& input) {
  const std::vector<Sample>& samples = input.comparison->samples;
  if (core::element_count(either(*input.comparison).shape) != 1 || samples.size() != 1) return {};
  return {
      Phrase("two-numbers",
             {{"baseline", samples.front().baseline}, {"candidate", samples.front().candidate}})};
}

/// `1 of 4096 elements, max 1 ULP`, from whatever measured the tensor; empty where nothing did.
Phrases measured_size(const TracedInput& input, const Evidence& evidence) {
  for (const NamedTensorDifference& named : evidence.report.named_tensors) {
    if (named.name != input.name) continue;
    return named.metrics ? Phrases{extent_of(*named.metrics)} : named.note;
  }
  if (Phrases numbers = two_numbers(input); !numbers.empty()) return numbers;
  if (input.comparison->metrics) return {extent_of(*input.comparison->metrics)};
  // That it differs is said beside it.
  const Phrases& note = input.comparison->note;
  return note == Phrases{Phrase(kValuesDiffer)} ? Phrases() : note;
}

std::string writer_text(const core::DumpSource& dump, std::int64_t writer) {
  if (writer < 0) return "nobody";
  const core::OpRecord head = dump.op_head(static_cast<std::uint64_t>(writer));
  return fmt::format("{} of lane {}", op_text(head), core::lane_text(head.lane));
}

/// Of memory that operators have written in part alone, where it differs and they wrote alike.
std::optional<Cause> partly_written_cause(const TracedInput& input, const Evidence& evidence) {
  const core::TensorRecord& tensor = input.comparison->baseline;
  if (!evidence.baseline_writes.is_written_in_part(tensor)) return std::nullopt;
  Phrases what = evidence.baseline_writes.unwritten(tensor);
  what.push_back(Phrase("rest-unwritten"));
  return Cause(CauseKind::kUninitialised, std::move(what), Phrase("do-fill-whole"));
}

Cause unobserved(const TracedInput& input, const Evidence& evidence) {
  if (!input.producer) {
    return {CauseKind::kUnobservedWrite,
            {Phrase("written-unseen", {{"argument", argument_text(input)}})}};
  }
  const core::OpRecord writer = evidence.baseline.op_head(*input.producer);
  Cause cause(CauseKind::kUnobservedWrite,
              {Phrase(input.changed.empty() ? "written-unseen" : "changed-unseen",
                      {{"argument", argument_text(input)},
                       {"op", op_text(writer)},
                       {"where", std::string(input.changed)}})});
  if (const auto line = core::line_text(writer.site.get()); !line.empty()) {
    cause.advice = Phrase("do-look-between", {{"line", line}});
  }
  return cause;
}

/// The name of the only parameter or buffer of a run that holds what `tensor` does; null where
/// there is none, or several do.
const std::string* only_holder(const core::RunManifest& manifest,
                               const core::TensorRecord& tensor) {
  const std::string* name = nullptr;
  for (const core::NamedTensor& named : manifest.named_tensors) {
    if (named.kind == core::NamedTensorKind::kInput || named.digest != tensor.digest ||
        named.dtype != tensor.dtype || named.shape != tensor.shape) {
      continue;
    }
    if (name != nullptr) return nullptr;
    name = &named.name;
  }
  return name;
}

Cause weights_cause(const TracedInput& input, const Evidence& evidence) {
  const TensorComparison& tensor = *input.comparison;
  const std::string_view own = core::named_source(tensor.candidate.name).name;
  if (own.empty()) {
    return {CauseKind::kWeights,
            {Phrase("no-state-of-candidate",
                    {{"name", input.name}, {"size", measured_size(input, evidence)}})}};
  }
  const std::string* here = only_holder(evidence.baseline.manifest(), tensor.candidate);
  const std::string* there = only_holder(evidence.candidate.manifest(), tensor.baseline);
  if (here == nullptr && there == nullptr) {
    Cause cause(CauseKind::kWeights,
                {Phrase("state-differs",
                        {{"name", input.name}, {"size", measured_size(input, evidence)}})});
    if (evidence.report.from_accepted) cause.advice = Phrase("do-accept-weights");
    return cause;
  }
  const bool of_candidate = here != nullptr;
  const std::string_view moved = of_candidate ? own : std::string_view(*there);
  return {CauseKind::kWeights,
          {Phrase("state-moved",
                  {{"moved", std::string(moved)}, {"name", of_candidate ? *here : input.name}})},
          Phrase("do-compare-layers")};
}

Cause cast_cause(const TracedInput& input, const Evidence& evidence) {
  return {
      CauseKind::kDtypePromotion,
      {Phrase("cast-apart",
              {{"change", evidence.cast_apart},
               {"name", input.name},
               {"baseline", std::string(core::dtype_name(input.comparison->baseline.dtype))},
               {"candidate", std::string(core::dtype_name(input.comparison->candidate.dtype))}})},
      Phrase("do-one-dtype")};
}

Phrase given_later(const TracedInput& input, const Evidence& evidence) {
  const core::OpRecord head = evidence.baseline.op_head(*input.producer);
  return Phrase("given-unwaited", {{"argument", argument_text(input)}, {"op", op_text(head)}});
}

/// Whether the differing inputs are known to be the same tensors, in another order.
bool is_reordered(const std::vector<TensorComparison>& inputs) {
  std::vector<core::Digest> here;
  std::vector<core::Digest> there;
  for (const TensorComparison& input : inputs) {
    if (input.baseline.state != core::ContentState::kHashed ||
        input.candidate.state != core::ContentState::kHashed) {
      return false;
    }
    here.push_back(input.baseline.digest);
    there.push_back(input.candidate.digest);
  }
  std::ranges::sort(here);
  std::ranges::sort(there);
  return here == there;
}

/// What made the tensor that each run was given.
void put_two_makers(const TensorComparison& tensor, const Evidence& evidence, Phrase& phrase) {
  const auto maker = [](const core::DumpSource& dump, const core::TensorRecord& given) {
    const core::OpRecord head = dump.op_head(static_cast<std::uint64_t>(given.producer));
    const bool is_main = head.lane == core::kMainLane;
    return op_text(head) + (is_main ? "" : " of lane " + core::lane_text(head.lane));
  };
  phrase.with("maker", maker(evidence.baseline, tensor.baseline))
      .with("other_maker", maker(evidence.candidate, tensor.candidate));
}

/// Which result, or part of one, of an operator each run was given.
void put_two_results(const TensorComparison& tensor, const Evidence& evidence, Phrase& phrase) {
  const auto slot = [](const core::OpRecord& maker, const core::TensorRecord& given) {
    const core::TensorRecord* made = core::written_output(maker, given);
    return made == nullptr ? std::string() : made->slot;
  };
  const core::OpRecord maker =
      evidence.baseline.op(static_cast<std::uint64_t>(tensor.baseline.producer));
  const core::OpRecord other =
      evidence.candidate.op(static_cast<std::uint64_t>(tensor.candidate.producer));
  const std::string here = slot(maker, tensor.baseline);
  const std::string there = slot(other, tensor.candidate);
  phrase.with("op", op_text(maker));
  if (here != there) {
    phrase.with("result", here).with("other_result", there);
  } else {
    phrase.with("offset", tensor.baseline.storage_offset)
        .with("other_offset", tensor.candidate.storage_offset);
  }
}

Cause other_tensor_cause(const TracedInput& input,
                         const OpFindings& findings,
                         const Evidence& evidence) {
  const TensorComparison& tensor = *input.comparison;
  Phrase given(
      "given-other-tensor",
      {{"is_reordered", is_reordered(findings.inputs)}, {"argument", argument_text(input)}});
  if (input.is_of_one) {
    put_two_results(tensor, evidence, given);
  } else {
    put_two_makers(tensor, evidence, given);
  }
  return {CauseKind::kArgument,
          followed_by(std::move(given), of_host(evidence)),
          host_advice(evidence)};
}

Phrase handed_advice(const Evidence& evidence) {
  const std::vector<Suspect> variables = given_variables(evidence);
  if (!variables.empty()) return settings_advice(variables);
  return unpinned_advice(evidence).value_or(Phrase("do-compare-handed"));
}

/// Of lists of other lengths, or an argument that may be left out.
Cause given_alone_cause(const TracedInput& input,
                        const OpFindings& findings,
                        const Evidence& evidence) {
  const bool is_new = input.comparison->baseline.slot.empty();
  const auto more = std::ranges::count_if(findings.inputs, [&](const TensorComparison& other) {
    return is_given_alone(other) && other.baseline.slot.empty() == is_new;
  });
  return {CauseKind::kArgument,
          followed_by(Phrase("given-more",
                             {{"more", static_cast<std::uint64_t>(more)},
                              {"run", run_field(!is_new)},
                              {"argument", argument_text(input)}}),
                      of_host(evidence)),
          handed_advice(evidence)};
}

Phrase look_at(std::uint64_t op) { return Phrase("do-look-at-op", {{"op", op}}); }

Cause propagated_cause(const TracedInput& input, const Evidence& evidence) {
  if (!input.producer) {
    return {CauseKind::kPropagated,
            {Phrase("made-by-candidate-only", {{"argument", argument_text(input)}})}};
  }
  const std::uint32_t root = evidence.root_of.at(*input.producer);
  const bool chain = root != kUnmatched && root != *input.producer;
  Phrase comes("comes-from", {{"argument", argument_text(input)}, {"op", *input.producer}});
  if (chain) comes.with("origin", root);
  return {CauseKind::kPropagated, {std::move(comes)}, look_at(chain ? root : *input.producer)};
}

/// Of what Python hands to an operator.
Phrase made_unseen(const core::TensorRecord& tensor, const core::DumpSource& dump) {
  if (tensor.producer >= 0) {
    const core::OpRecord maker = dump.op_head(static_cast<std::uint64_t>(tensor.producer));
    if (core::hands_out_memory(core::base_name(maker.op->name))) {
      // Memory that nobody has written has no contents.
      return Phrase("no-operator-wrote",
                    {{"op", op_text(maker)},
                     {"is_program", dump.manifest().is_of_program()},
                     {"maybe_nobody", tensor.state != core::ContentState::kHashed}});
    }
  }
  return Phrase("no-operator-made");
}

/// Of a parameter or buffer of a program, in memory that nobody has written.
std::optional<Cause> unwritten_state_cause(const TracedInput& input, const Evidence& evidence) {
  const core::TensorRecord& tensor = input.comparison->baseline;
  if (!evidence.baseline_writes.is_unwritten_state(tensor)) return std::nullopt;
  Phrases what = evidence.baseline_writes.unwritten(tensor);
  what.push_back(Phrase("is-state", {{"name", std::string(core::named_source(tensor.name).name)}}));
  return Cause(CauseKind::kUninitialised, std::move(what), Phrase("do-fill-state"));
}

Cause amplified_cause(const TracedInput& input,
                      const OpFindings& findings,
                      const Evidence& evidence) {
  const std::uint64_t op = *input.producer;
  Phrases what{Phrase("passed-there", {{"argument", argument_text(input)}, {"op", op}})};
  const double passed = evidence.passed_error.at(*input.producer);
  if (passed > 0) {
    what.push_back(Phrase("made-error-greater", {{"factor", findings.severity / passed}}));
  }
  return {CauseKind::kAmplified, std::move(what), Phrase("do-look-at-op-or-allow", {{"op", op}})};
}

Phrases differs_unseen(const TracedInput& input, const Evidence& evidence) {
  Phrase differs("argument-differs",
                 {{"argument", argument_text(input)}, {"size", measured_size(input, evidence)}});
  const Phrases numbers = two_numbers(input);
  if (!numbers.empty() && evidence.baseline.manifest().is_of_program()) {
    differs.with("numbers", numbers);
  }
  return {std::move(differs), made_unseen(input.comparison->baseline, evidence.baseline)};
}

Cause made_by_program(const TracedInput& input, const Evidence& evidence) {
  if (auto unwritten = unwritten_state_cause(input, evidence)) return *unwritten;
  Phrases what = differs_unseen(input, evidence);
  append(of_host(evidence), what);
  return {CauseKind::kConstant, std::move(what), handed_advice(evidence)};
}

Cause cause_of(const TracedInput& input, const OpFindings& findings, const Evidence& evidence) {
  const TensorComparison& tensor = *input.comparison;
  const std::string argument = argument_text(input);
  switch (input.origin) {
    case CauseKind::kRace:
      return {CauseKind::kRace,
              {Phrase("last-written-apart",
                      {{"argument", argument},
                       {"baseline", writer_text(evidence.baseline, tensor.baseline.producer)},
                       {"candidate", writer_text(evidence.candidate, tensor.candidate.producer)}})},
              Phrase("do-wait-for-fork")};
    case CauseKind::kInputData:
      return {CauseKind::kInputData,
              {Phrase("other-input",
                      {{"name", input.name}, {"size", measured_size(input, evidence)}})}};
    case CauseKind::kWeights:
      return weights_cause(input, evidence);
    case CauseKind::kDtypePromotion:
      return cast_cause(input, evidence);
    case CauseKind::kReceived:
      return {CauseKind::kReceived, {given_later(input, evidence)}};
    case CauseKind::kArgument:
      return is_given_alone(tensor) ? given_alone_cause(input, findings, evidence)
                                    : other_tensor_cause(input, findings, evidence);
    case CauseKind::kUninitialised:
      return {CauseKind::kUninitialised, evidence.baseline_writes.unwritten(tensor.baseline)};
    case CauseKind::kUnobservedWrite:
      if (auto race = race_cause(&tensor.baseline, &tensor.candidate)) return *race;
      if (auto unwritten = partly_written_cause(input, evidence)) return *unwritten;
      return unobserved(input, evidence);
    case CauseKind::kPropagated:
      return propagated_cause(input, evidence);
    case CauseKind::kAmplified:
      return amplified_cause(input, findings, evidence);
    default:
      if (evidence.baseline.manifest().is_of_program()) return made_by_program(input, evidence);
      if (tensor.baseline.producer >= 0) {
        return {
            CauseKind::kConstant, differs_unseen(input, evidence), Phrase("do-compare-numbers")};
      }
      return {CauseKind::kConstant, {Phrase("constant-of-graph", {{"argument", argument}})}};
  }
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
                                 CauseKind::kDtypePromotion,
                                 CauseKind::kInputData,
                                 CauseKind::kWeights,
                                 CauseKind::kReceived,
                                 CauseKind::kConstant,
                                 CauseKind::kUninitialised,
                                 CauseKind::kUnobservedWrite,
                                 CauseKind::kArgument,
                                 inherits ? CauseKind::kPropagated : CauseKind::kAmplified}) {
    const TracedInput* input = first_of(inputs, origin);
    if (input != nullptr) add_cause(cause, cause_of(*input, findings, evidence));
  }
  return cause;
}

/// What clips gradients tells by what norm, behind the operators of the same line that do it.
std::optional<Cause> clipped_otherwise(const core::OpHead& reader, const Evidence& evidence) {
  const std::string line = core::line_text(reader.site.get());
  if (line.empty()) return std::nullopt;
  for (std::uint64_t op = reader.index; op < evidence.baseline.op_count(); ++op) {
    const core::OpRecord head = evidence.baseline.op_head(op);
    if (head.step != reader.step) break;
    if (head.lane != reader.lane) continue;
    if (core::line_text(head.site.get()) != line) break;
    if (head.op->name != core::kClipRecord) continue;
    const auto there = counterpart_in(evidence.pairing.candidate_of, static_cast<std::int64_t>(op));
    if (!there) break;
    const auto norm_in = [](const core::OpRecord& record) {
      const core::Value* value = core::find_argument(record, core::kClippedMaxNorm);
      return value == nullptr ? std::nullopt : core::number_in(record, *value);
    };
    const auto from = norm_in(evidence.baseline.op(op));
    const auto to = norm_in(evidence.candidate.op(*there));
    if (!from || !to || *from == *to) break;
    const std::string name(core::kClippedMaxNorm);
    return Cause(CauseKind::kArgument,
                 {Phrase("clipped-otherwise",
                         {{"name", name},
                          {"baseline", core::to_text({*from})},
                          {"candidate", core::to_text({*to})}})},
                 Phrase("do-same-value", {{"name", name}}));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Phrase> describe_unwritten(const JudgedCall& call, const Evidence& evidence) {
  const core::TensorRecord* tensor = unwritten_argument(call.baseline);
  if (tensor != nullptr) return evidence.baseline_writes.describe_unwritten(*tensor);
  tensor = unwritten_argument(call.candidate);
  if (tensor != nullptr) return evidence.candidate_writes.describe_unwritten(*tensor);
  if (!evidence.baseline.manifest().is_of_program()) return std::nullopt;
  for (const bool of_baseline : {true, false}) {
    const core::OpRecord& record = of_baseline ? call.baseline : call.candidate;
    const WriteHistory& writes = of_baseline ? evidence.baseline_writes : evidence.candidate_writes;
    for (const core::TensorRecord& input : record.tensors) {
      if (core::is_input(input) && core::reads_values(*record.op, input.slot) &&
          writes.is_unwritten_state(input)) {
        return writes.describe_unwritten(input);
      }
    }
  }
  return std::nullopt;
}

Attribution inherited_from(std::uint64_t op, Phrase what) {
  return {Relation::kPropagated,
          DivergenceKind::kOrigin,
          {op},
          {CauseKind::kPropagated, {std::move(what)}, look_at(op)}};
}

Attribution inherited_from(std::uint64_t op, std::string_view key) {
  return inherited_from(op, Phrase(key, {{"op", op}}));
}

std::optional<Attribution> from_inputs(const OpFindings& findings,
                                       const core::OpHead& reader,
                                       const Evidence& evidence) {
  if (findings.inputs.empty()) return std::nullopt;
  std::vector<TracedInput> inputs;
  for (const TensorComparison& input : findings.inputs) {
    inputs.push_back(trace_input(input, reader, evidence));
  }
  Attribution result;
  result.cause = input_causes(inputs, findings, evidence);
  if (result.cause.kind == CauseKind::kConstant) {
    if (auto clip = clipped_otherwise(reader, evidence)) lead_with(std::move(*clip), result.cause);
  }
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
  } else if (result.cause.kind == CauseKind::kUninitialised) {
    result.kind = DivergenceKind::kUninitialised;
  }
  return result;
}

std::optional<Attribution> from_scalars(const JudgedCall& call, const Evidence& evidence) {
  for (const ScalarDifference& argument : call.findings.arguments) {
    const auto found = evidence.scalar_results.find({argument.baseline, argument.candidate});
    if (found == evidence.scalar_results.end()) continue;
    if (found->second == call.baseline.index) continue;  // named values are both at once
    return inherited_from(found->second,
                          Phrase("argument-returned",
                                 {{"name", argument.name},
                                  {"op", found->second},
                                  {"baseline", argument.baseline},
                                  {"candidate", argument.candidate}}));
  }
  return std::nullopt;
}

}  // namespace repro_check::comparators
