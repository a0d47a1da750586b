// SPDX-License-Identifier: Apache-2.0
// read-unwritten: a parameter or buffer is read that nothing has filled since it was allocated.
#include "comparators/audit/rules.h"

namespace repro_check::comparators {

std::vector<Finding> find_read_unwritten(const AuditTrace& trace) {
  std::vector<Finding> findings;
  for (const UnwrittenRead& read : trace.unwritten()) {
    Finding& finding = findings.emplace_back(trace.at(FindingId::kReadUnwritten,
                                                      Finding::Weight::kSuspicion,
                                                      static_cast<std::uint32_t>(read.reader)));
    finding.where.tensor = read.name;
    finding.with("slot", read.name)
        .with("allocator", trace.said(static_cast<std::uint32_t>(read.allocated)));
  }
  return findings;
}

}  // namespace repro_check::comparators
