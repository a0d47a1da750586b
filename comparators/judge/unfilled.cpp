// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/unfilled.h"

#include <algorithm>

#include "comparators/measure/records.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {
namespace {

/// The call that encloses all others around this one; itself where nothing does.
core::OpRecord outermost_around(const core::DumpSource& dump, const core::OpRecord& record) {
  core::OpRecord head = record;
  while (head.parent >= 0) head = dump.op_head(static_cast<std::uint64_t>(head.parent));
  return head;
}

bool hands_out(const core::DumpSource& dump, std::int64_t op) {
  const core::OpRecord head = dump.op_head(static_cast<std::uint64_t>(op));
  return head.parent >= 0 && core::hands_out_memory(core::base_name(head.op->name));
}

}  // namespace

void UnfilledInside::settle(JudgedCall& call) {
  if (call.baseline.parent < 0) return;
  if (!reads_nothing_else(call) || !is_absorbed(call.baseline)) return;
  settled_.insert(call.baseline.index);
  OpFindings& findings = call.findings;
  findings.outcome = OpOutcome::kSkipped;
  findings.outputs.clear();
  findings.inputs.clear();
  findings.bits_differ = false;
}

bool UnfilledInside::reads_nothing_else(const JudgedCall& call) const {
  const OpFindings& findings = call.findings;
  return findings.arguments.empty() && !findings.inputs.empty() &&
         call.baseline.generator == call.candidate.generator &&
         std::ranges::all_of(findings.inputs, [&](const TensorComparison& input) {
           return input.outcome != TensorOutcome::kMismatch && is_unfilled(input, call);
         });
}

bool UnfilledInside::is_unfilled(const TensorComparison& input, const JudgedCall& call) const {
  const std::int64_t here = input.baseline.producer;
  const std::int64_t there = input.candidate.producer;
  if (here < 0 && there < 0) {
    return was_made_inside(baseline_, call.baseline, input.baseline) &&
           was_made_inside(candidate_, call.candidate, input.candidate);
  }
  if (here < 0 || there < 0) return false;
  if (settled_.contains(static_cast<std::uint64_t>(here))) {
    return counterpart_in(pairing_.baseline_of, there) == static_cast<std::uint64_t>(here);
  }
  return hands_out(baseline_, here) && hands_out(candidate_, there);
}

/// Whether nobody is known to have it but the kernel.
bool UnfilledInside::was_made_inside(const core::DumpSource& dump,
                                     const core::OpRecord& record,
                                     const core::TensorRecord& input) const {
  if (input.storage < 0 || !input.name.empty()) return false;
  const core::OpRecord whole = dump.op(outermost_around(dump, record).index);
  return std::ranges::none_of(whole.tensors, [&](const core::TensorRecord& given) {
    return core::is_input(given) && given.storage == input.storage;
  });
}

bool UnfilledInside::is_absorbed(const core::OpRecord& baseline) {
  for (std::int64_t parent = baseline.parent; parent >= 0;) {
    const auto op = static_cast<std::uint64_t>(parent);
    const core::OpRecord head = baseline_.op_head(op);
    const auto [known, is_new] = equal_.try_emplace(op);
    if (is_new) known->second = gave_equal_results(op);
    if (known->second) return true;
    parent = head.parent;
  }
  return false;
}

bool UnfilledInside::gave_equal_results(std::uint64_t op) const {
  const auto other = counterpart_in(pairing_.candidate_of, static_cast<std::int64_t>(op));
  if (!other) return false;
  const core::OpRecord here = baseline_.op(op);
  const core::OpRecord there = candidate_.op(*other);
  const auto left = tensors_of(here, core::TensorRole::kOutput);
  const auto right = tensors_of(there, core::TensorRole::kOutput);
  using core::ContentState;
  return !left.empty() && std::ranges::equal(left, right, [](const auto* one, const auto* two) {
    if (one->state != two->state || !same_form(*one, *two)) return false;
    if (one->state == ContentState::kComposite) return true;  // its parts are records of their own
    return one->state == ContentState::kHashed && one->content_key() == two->content_key();
  });
}

}  // namespace repro_check::comparators
