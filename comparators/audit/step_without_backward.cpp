// SPDX-License-Identifier: Apache-2.0
// step-without-backward: an optimizer makes a step before any loss, and goes on from its state.
#include <algorithm>
#include <set>
#include <vector>

#include "comparators/audit/rules.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

std::set<std::int32_t> state_of(const AuditTrace& trace, std::uint32_t step) {
  std::set<std::int32_t> storages;
  for (const AuditTensor& tensor : trace.outputs(step)) {
    const bool is_state = trace.text(tensor.slot).starts_with(core::kStatePrefix);
    if (is_state && tensor.storage >= 0) storages.insert(tensor.storage);
  }
  return storages;
}

bool share_some(const std::set<std::int32_t>& one, const std::set<std::int32_t>& other) {
  return std::ranges::any_of(one, [&](std::int32_t each) { return other.contains(each); });
}

bool was_written(const AuditTrace& trace,
                 const std::set<std::int32_t>& storages,
                 std::uint32_t first,
                 std::uint32_t end) {
  for (std::uint32_t call = first; call < end; ++call) {
    for (const AuditTensor& output : trace.outputs(call)) {
      if (trace.wrote(call, output) && storages.contains(output.storage)) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Finding> find_step_without_backward(const AuditTrace& trace) {
  const auto& steps = trace.steps();
  const auto& losses = trace.losses();
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < steps.size() && !losses.empty(); ++i) {
    const AuditStep& step = steps[i];
    if (step.call > losses.front()) break;
    if (!step.gradient_norm || *step.gradient_norm != 0) continue;
    const std::set<std::int32_t> state = state_of(trace, step.call);
    // The next step of the same optimizer, which had the state by then.
    const auto next = std::find_if(
        steps.begin() + static_cast<std::ptrdiff_t>(i) + 1,
        steps.end(),
        [&](const AuditStep& later) { return share_some(state, state_of(trace, later.call)); });
    if (next == steps.end() || next->call < losses.front()) continue;
    if (was_written(trace, state, step.call + 1, next->call)) continue;
    findings.push_back(
        trace.at(FindingId::kStepWithoutBackward, Finding::Weight::kSuspicion, step.call)
            .with("first", trace.said(next->call)));
  }
  return findings;
}

}  // namespace repro_check::comparators
