// SPDX-License-Identifier: Apache-2.0
// copy-did-not-copy: what a copy left is not what it was given, since both lie in one memory.
#include "comparators/audit/rules.h"

namespace repro_check::comparators {

std::vector<Finding> find_copy_that_did_not(const AuditTrace& trace) {
  const TextId copy = trace.id_of("aten::copy_");
  const TextId source_slot = trace.id_of("src");
  const TextId target_slot = trace.id_of("self");
  std::vector<Finding> findings;
  for (std::uint32_t index = 0; index < trace.size(); ++index) {
    if (!trace.is(index, copy) || trace.outputs(index).empty()) continue;
    const AuditTensor* source = trace.input(index, source_slot);
    const AuditTensor* target = trace.input(index, target_slot);
    const AuditTensor& left = trace.outputs(index).front();
    if (source == nullptr || target == nullptr || source->storage < 0) continue;
    const bool is_one_memory = source->storage == target->storage &&
                               source->dtype == target->dtype && source->shape == target->shape;
    if (!is_one_memory || !source->is_known() || !left.is_known()) continue;
    if (left.digest == source->digest) continue;
    findings.push_back(trace.at(FindingId::kCopyDidNotCopy, Finding::Weight::kProof, index));
  }
  return findings;
}

}  // namespace repro_check::comparators
