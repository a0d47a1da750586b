// SPDX-License-Identifier: Apache-2.0
// filled-on-partial: a number goes into each rank's part of a sum over ranks.
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "comparators/audit/rules.h"

namespace repro_check::comparators {
namespace {

/// Whether a class of the program's made the call, for an operator of the same name on a tensor
/// that it keeps: a DTensor, of which the call writes the part that lies here.
bool is_inside_its_own(const AuditTrace& trace, std::uint32_t call) {
  const std::int32_t parent = trace[call].parent;
  if (parent < 0 || trace[static_cast<std::uint32_t>(parent)].base != trace[call].base)
    return false;
  const auto returned = trace.outputs(static_cast<std::uint32_t>(parent));
  return !returned.empty() && returned.front().state == core::ContentState::kNone;
}

}  // namespace

// DTensor adds up over ranks what is `Partial`, and nothing else: which parts are is in no record,
// and in what becomes of them.
std::vector<Finding> find_filled_on_partial(const AuditTrace& trace) {
  std::set<std::int32_t> filled;
  std::vector<Finding> findings;
  for (std::uint32_t call = 0; call < trace.size(); ++call) {
    if (trace[call].adds_number && is_inside_its_own(trace, call)) {
      filled.insert(static_cast<std::int32_t>(call));
    }
    if (!trace[call].sums_ranks) continue;
    for (const AuditTensor& input : trace.inputs(call)) {
      if (filled.erase(input.producer) == 0) continue;
      const auto fill = static_cast<std::uint32_t>(input.producer);
      findings.push_back(trace.at(FindingId::kFilledOnPartial, Finding::Weight::kProof, fill)
                             .with("sum", trace.said(call)));
    }
  }
  return findings;
}

}  // namespace repro_check::comparators
