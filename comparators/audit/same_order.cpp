// SPDX-License-Identifier: Apache-2.0
// same-order-in-every-epoch, every-worker-reads-all: what loaders hand out.
#include "comparators/audit/rules.h"

namespace repro_check::comparators {
namespace {

/// Of each rank once.
std::vector<Finding> of_data(std::span<const AuditShare> shares, FindingId id) {
  std::vector<Finding> findings;
  for (const AuditShare& share : shares) {
    for (Finding& finding : data_findings(share.data)) {
      if (finding.id != id) continue;
      finding.where.rank = share.rank;
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace

std::vector<Finding> find_same_order(std::span<const AuditShare> shares) {
  return of_data(shares, FindingId::kSameOrder);
}

std::vector<Finding> find_read_by_every_worker(std::span<const AuditShare> shares) {
  return of_data(shares, FindingId::kEveryWorkerReadsAll);
}

}  // namespace repro_check::comparators
