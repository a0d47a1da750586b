// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "comparators/cause/attribution.h"
#include "comparators/cause/traced_input.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

/// Records of named values stand between calls, and the draws of what orders samples right before.
constexpr std::uint64_t kLookedBack = 64;

/// Which samples a loader takes: what drew them right before, or the first batch of another order.
std::optional<std::uint64_t> before_order(std::uint64_t order, const Evidence& evidence) {
  for (std::uint64_t op = order; op-- > 0 && order - op < kLookedBack;) {
    const core::OpRecord record = evidence.baseline.op(op);
    if (core::is_named_values(record)) break;
    if (record.generator && evidence.outcomes.at(op) == OpOutcome::kDiverged) return op;
  }
  const auto differs = [&](std::uint64_t op) {
    return op < order && evidence.outcomes.at(op) == OpOutcome::kDiverged;
  };
  const auto first = std::ranges::find_if(evidence.orders, differs);
  return first == evidence.orders.end() ? std::nullopt : std::optional(*first);
}

Attribution from_order(const JudgedCall& call, const Evidence& evidence) {
  const core::OpRecord& order = call.baseline;
  if (const auto op = before_order(order.index, evidence)) {
    return inherited_from(*op, "order-parts");
  }
  Attribution result;
  const auto size = [](const core::OpRecord& of) {
    return core::list_argument<std::int64_t>(of, core::kOrderSamples).size();
  };
  if (size(order) != size(call.candidate)) {
    result.cause = {
        CauseKind::kConstant,
        followed_by(Phrase("other-batch-sizes",
                           {{"baseline", size(order)}, {"candidate", size(call.candidate)}}),
                    of_host(evidence)),
        Phrase("do-one-batch-size")};
    return result;
  }
  result.cause = {
      CauseKind::kConstant,
      followed_by(
          Phrase("ordered-by-program",
                 {{"sampler", core::argument_or<std::string>(order, core::kSampler, "unknown")}}),
          of_host(evidence)),
      Phrase("do-order-samples")};
  return result;
}

/// A batch that a worker has made: what it did for it stands between its order and the batch.
std::optional<Attribution> from_worker(std::uint64_t order,
                                       std::uint64_t batch,
                                       const Evidence& evidence) {
  const auto first = std::ranges::lower_bound(evidence.of_workers, order);
  if (first == evidence.of_workers.end() || *first > batch) return std::nullopt;
  return inherited_from(*first, "worker-made");
}

/// The name of the first output that differs and begins like this; null where there is none.
const std::string* first_slot_below(std::string_view prefix, const OpFindings& findings) {
  for (const TensorComparison& output : findings.outputs) {
    const std::string& slot = either(output).slot;
    if (slot.starts_with(prefix)) return &slot;
  }
  return nullptr;
}

/// Of a part of a program that was not recorded, or not read, there are only its losses, its
/// batches and what its optimizers left: which of these parts first.
Phrase parting_of_step(const OpFindings& findings) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kParts{
      {{core::kGradientPrefix, "gradient-parts"},
       {core::kStatePrefix, "state-parts"},
       {core::kParameterPrefix, "parameter-parts"}}};
  for (const auto& [prefix, key] : kParts) {
    if (const std::string* slot = first_slot_below(prefix, findings)) {
      return Phrase(key, {{"name", slot->substr(prefix.size())}});
    }
  }
  return Phrase("program-parts");
}

/// Whether this is what a step left of which other operators, at least, were recorded.
bool is_of_recorded_step(const JudgedCall& call, const Evidence& evidence) {
  const core::OpRecord& record = call.baseline;
  if (record.op->name != core::kStepRecord) return false;
  if (evidence.baseline.manifest().trace.only.empty()) return true;
  for (std::uint64_t op = record.index; op-- > 0;) {
    const core::OpHead before = evidence.baseline.op_head(op);
    if (before.lane != record.lane) continue;
    if (before.step != record.step) return false;
    if (!core::is_named_values(before)) return true;
  }
  return false;
}

/// Of a step whose operators tell nothing: `said` of them, and what `more` of them would take.
/// Nothing before it diverged, or its inputs would be said to.
Attribution from_step(const JudgedCall& call, std::string_view said, Phrase more) {
  const OpFindings& findings = call.findings;
  const bool gradients = first_slot_below(core::kGradientPrefix, findings) != nullptr;
  Attribution result;
  if (call.baseline.op->name == core::kStepRecord && !gradients && !findings.arguments.empty()) {
    result.cause = told_otherwise(findings);
  } else {
    result.cause = {
        CauseKind::kUnobservedWrite, {Phrase(said), parting_of_step(findings)}, std::move(more)};
  }
  return result;
}

/// Of a step that was given and told the same, and works on parameters that all differed before.
std::optional<Attribution> from_parameter(const JudgedCall& call, const Evidence& evidence) {
  const OpFindings& findings = call.findings;
  if (call.baseline.op->name != core::kStepRecord || !findings.arguments.empty())
    return std::nullopt;
  if (findings.outputs.empty()) return std::nullopt;
  const auto writer_of = [&](const TensorComparison& output) {
    return evidence.baseline_writes.differing_writer(output.baseline);
  };
  for (const TensorComparison& output : findings.outputs) {
    if (!output.baseline.slot.starts_with(core::kParameterPrefix) || writer_of(output) < 0 ||
        std::cmp_greater_equal(writer_of(output), call.baseline.index)) {
      return std::nullopt;
    }
  }
  const TensorComparison& first = findings.outputs.front();
  const auto op = static_cast<std::uint64_t>(writer_of(first));
  return inherited_from(
      op,
      Phrase("parameter-comes-from",
             {{"name", first.baseline.slot.substr(core::kParameterPrefix.size())}, {"op", op}}));
}

}  // namespace

std::optional<Attribution> from_data(const JudgedCall& call, const Evidence& evidence) {
  if (call.baseline.phase != core::Phase::kData) return std::nullopt;
  if (call.baseline.op && call.baseline.op->name == core::kOrderRecord) {
    return from_order(call, evidence);
  }
  const auto next = std::ranges::upper_bound(evidence.orders, call.baseline.index);
  if (next == evidence.orders.begin()) return std::nullopt;
  const std::uint64_t order = *std::prev(next);
  if (evidence.outcomes.at(order) != OpOutcome::kDiverged) {
    const bool is_batch = call.baseline.op && call.baseline.op->name == core::kBatchRecord;
    return is_batch ? from_worker(order, call.baseline.index, evidence) : std::nullopt;
  }
  return inherited_from(order, "given-other-samples");
}

std::optional<Attribution> from_unrecorded_step(const JudgedCall& call, const Evidence& evidence) {
  if (!core::is_named_values(call.baseline)) return std::nullopt;
  if (auto by_parameter = from_parameter(call, evidence)) return by_parameter;
  const core::TraceSummary& trace = evidence.baseline.manifest().trace;
  if (trace.optimizer == core::kOptimizerState && is_of_recorded_step(call, evidence)) {
    return from_step(call, "optimizer-not-read", Phrase("do-read-optimizer"));
  }
  if (trace.only.empty()) return std::nullopt;
  for (std::uint64_t op = call.baseline.index; op-- > 0;) {
    if (evidence.outcomes.at(op) == OpOutcome::kDiverged) {
      return inherited_from(op, "behind-unrecorded");
    }
  }
  return from_step(
      call, "part-not-recorded", Phrase("do-record-step", {{"step", call.baseline.step}}));
}

}  // namespace repro_check::comparators
