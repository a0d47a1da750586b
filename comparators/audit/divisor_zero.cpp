// SPDX-License-Identifier: Apache-2.0
// divisor-zero: a loss is divided by a stored 0, and the NaN reaches the weights.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "comparators/audit/rules.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

bool any_nan(std::span<const AuditTensor> tensors) {
  return std::ranges::any_of(tensors, &AuditTensor::has_nan);
}

/// Whether NaN was in the loss, and then in the parameters, of the step of a call: a loss scale
/// leaves such a step out, as do programs that look at the loss.
bool reaches_weights(const AuditTrace& trace, std::uint32_t call) {
  const auto& steps = trace.steps();
  const auto step = std::ranges::upper_bound(steps, call, {}, &AuditStep::call);
  if (step == steps.end()) return false;
  const bool in_loss = std::ranges::any_of(trace.losses(), [&](std::uint32_t loss) {
    return loss > call && loss < step->call && any_nan(trace.outputs(loss));
  });
  return in_loss && std::ranges::any_of(trace.outputs(step->call), [&](const AuditTensor& left) {
           return left.has_nan && trace.text(left.slot).starts_with(core::kParameterPrefix);
         });
}

}  // namespace

std::vector<Finding> find_divisor_zero(const AuditTrace& trace) {
  constexpr std::array<std::string_view, 4> kDivisions{
      "aten::div", "aten::div_", "aten::divide", "aten::true_divide"};
  const TextId other = trace.id_of("other");
  std::vector<Finding> findings;
  for (std::uint32_t call = 0; call < trace.size(); ++call) {
    const auto outputs = trace.outputs(call);
    if (outputs.empty() || !outputs.front().has_nan || any_nan(trace.inputs(call))) continue;
    if (std::ranges::find(kDivisions, trace.text(trace[call].base)) == kDivisions.end()) continue;
    const AuditTensor* divisor = trace.input(call, other);
    if (divisor == nullptr || !divisor->is_known() || !divisor->is_zero) continue;
    if (!reaches_weights(trace, call)) continue;
    findings.push_back(trace.at(FindingId::kDivisorZero, Finding::Weight::kProof, call));
  }
  return findings;
}

}  // namespace repro_check::comparators
