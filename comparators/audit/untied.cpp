// SPDX-License-Identifier: Apache-2.0
// untied: an embedding and a linear layer begin with the same weights, and train them apart.
#include <map>
#include <unordered_map>
#include <vector>

#include "comparators/audit/rules.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

/// The first time that a weight is read.
struct FirstRead {
  std::uint32_t call = 0;
  const AuditTensor* weight = nullptr;
};
using FirstReads = std::map<std::int32_t, FirstRead>;  // by storage

FirstReads first_reads(const AuditTrace& trace, TextId base, std::uint32_t end) {
  const TextId slot = trace.id_of("weight");
  FirstReads reads;
  for (std::uint32_t call = 0; call < end; ++call) {
    if (!trace.is(call, base)) continue;
    const AuditTensor* weight = trace.input(call, slot);
    if (weight == nullptr || weight->storage < 0 || !weight->is_known()) continue;
    reads.try_emplace(weight->storage, FirstRead{call, weight});
  }
  return reads;
}

/// What all steps together left of each parameter last, by storage.
std::unordered_map<std::int32_t, const AuditTensor*> last_of_trained(const AuditTrace& trace) {
  std::unordered_map<std::int32_t, const AuditTensor*> last;
  for (const AuditStep& step : trace.steps()) {
    for (const AuditTensor& tensor : trace.outputs(step.call)) {
      if (trace.text(tensor.slot).starts_with(core::kParameterPrefix))
        last[tensor.storage] = &tensor;
    }
  }
  return last;
}

}  // namespace

std::vector<Finding> find_untied(const AuditTrace& trace) {
  std::vector<Finding> findings;
  if (trace.steps().empty()) return findings;
  const std::uint32_t end = trace.steps().front().call;
  const FirstReads linears = first_reads(trace, trace.id_of("aten::linear"), end);
  const auto last = last_of_trained(trace);
  for (const auto& [storage, read] : first_reads(trace, trace.id_of("aten::embedding"), end)) {
    for (const auto& [other, linear] : linears) {
      if (other == storage || !read.weight->equals(*linear.weight)) continue;
      if (read.weight->is_zero) continue;
      const auto here = last.find(storage);
      const auto there = last.find(other);
      if (here == last.end() || there == last.end() || here->second->equals(*there->second)) {
        continue;
      }
      findings.push_back(trace.at(FindingId::kUntied, Finding::Weight::kSuspicion, linear.call)
                             .with("other", trace.said(read.call)));
    }
  }
  return findings;
}

}  // namespace repro_check::comparators
