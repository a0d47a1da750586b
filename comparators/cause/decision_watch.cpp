// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/decision_watch.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "comparators/measure/scalars.h"
#include "comparators/report/op_text.h"

namespace repro_check::comparators::detail {
namespace {

/// What `if tensor:`, `while tensor:`, `int(tensor)` and their like call.
bool asks_tensor(const core::OperatorInfo& op) {
  static constexpr auto kNames = std::to_array<std::string_view>({"aten::Bool",
                                                                  "aten::Float",
                                                                  "aten::Int",
                                                                  "aten::ScalarImplicit",
                                                                  "aten::_local_scalar_dense",
                                                                  "aten::allclose",
                                                                  "aten::equal",
                                                                  "aten::is_nonzero",
                                                                  "aten::item"});
  return std::ranges::find(kNames, op.name) != kNames.end();
}

}  // namespace

void DecisionWatch::see(const core::OpRecord& baseline,
                        const core::OpRecord& candidate,
                        const OpFindings& findings) {
  const bool differs = !findings.results.empty();
  if (!differs && !(baseline.op && asks_tensor(*baseline.op))) return;
  std::string from = results_text(baseline);
  if (from.empty() && !differs) return;
  Decision decision{
      baseline.index, candidate.index, head_of(baseline), std::move(from), results_text(candidate)};
  (differs ? differing_ : asked_) = std::move(decision);
}

std::optional<Decision> DecisionWatch::last() const { return differing_ ? differing_ : asked_; }

}  // namespace repro_check::comparators::detail
