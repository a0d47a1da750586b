// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/cause.h"

#include <algorithm>
#include <string_view>

#include "comparators/cause/attribution.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {

void Evidence::see_gradients(const JudgedCall& call) {
  if (gradients_apart) return;
  const auto& here = call.baseline.tensors;
  const auto& there = call.candidate.tensors;
  for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
    if (here[i].requires_grad == there[i].requires_grad || !core::is_input(here[i]) ||
        here[i].slot != there[i].slot) {
      continue;
    }
    gradients_apart = Phrase("gradients-asked-alone",
                             {{"slot", here[i].slot},
                              {"op", op_text(call.baseline)},
                              {"run", run_field(here[i].requires_grad)}});
    return;
  }
}

std::optional<Cause> mode_of_module(const core::OpRecord& baseline,
                                    const core::OpRecord& candidate,
                                    const Evidence& evidence) {
  if (!evidence.baseline.manifest().is_of_program()) return std::nullopt;
  for (const std::string_view name : {"training", "train"}) {
    const auto* from = core::argument_as<bool>(baseline, name);
    const auto* to = core::argument_as<bool>(candidate, name);
    if (from == nullptr || to == nullptr || *from == *to) continue;
    const std::string_view module = module_of(baseline);
    return Cause(CauseKind::kMode,
                 {Phrase("mode-of-module",
                         {{"module", std::string(module)},
                          {"operator", operator_text(baseline)},
                          {"name", std::string(name)},
                          {"baseline", core::to_text({*from})},
                          {"candidate", core::to_text({*to})}})},
                 Phrase("do-look-train-eval"));
  }
  return std::nullopt;
}

Attribution attribute(const JudgedCall& call, const Evidence& evidence) {
  const OpFindings& findings = call.findings;
  Attribution result;
  const std::uint32_t child = evidence.divergent_child.at(call.baseline.index);
  if (child != kUnmatched) {
    // On whose account nothing inside it is at fault.
    result = inherited_from(child, "child-diverged");
  } else if (auto by_inputs = from_inputs(findings, call.baseline, evidence)) {
    result = std::move(*by_inputs);
    if (result.relation == Relation::kOrigin) {
      if (auto by_step = from_unrecorded_step(call, evidence)) result = std::move(*by_step);
    }
  } else if (auto by_scalars = from_scalars(call, evidence)) {
    result = std::move(*by_scalars);
  } else {
    result = attribute_compute(call, evidence);
  }
  if (result.relation == Relation::kOrigin) {
    if (auto by_data = from_data(call, evidence)) result = std::move(*by_data);
  }
  const bool mismatched = findings.outcome == OpOutcome::kMismatched;
  if (mismatched && result.relation == Relation::kOrigin &&
      result.kind == DivergenceKind::kOrigin && findings.inputs.empty()) {
    result.cause = mismatch_cause(call, evidence);
  }
  if (result.relation == Relation::kOrigin) {
    const CauseKind kind = result.cause.kind;
    if (kind == CauseKind::kArgument || kind == CauseKind::kConstant ||
        kind == CauseKind::kOutsideOperators || kind == CauseKind::kUnobservedWrite) {
      lead_with_host_generator(evidence, call.baseline.index, true, result.cause);
    }
    lead_with_mode(evidence, result.cause);
    if (auto mode = mode_of_module(call.baseline, call.candidate, evidence)) {
      lead_with(std::move(*mode), result.cause);
    }
  }
  if (!mismatched) return result;
  result.relation = Relation::kMismatch;
  result.kind = DivergenceKind::kMismatch;
  return result;
}

}  // namespace repro_check::comparators
