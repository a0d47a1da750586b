// SPDX-License-Identifier: Apache-2.0
// epoch-never-arrives: a dataset is told something that its persistent workers never see.
#include <cstdint>
#include <set>
#include <vector>

#include "comparators/audit/rules.h"

namespace repro_check::comparators {

std::vector<Finding> find_epoch_never_arrives(const AuditTrace& trace) {
  std::set<std::int64_t> told;  // loaders
  std::vector<Finding> findings;
  for (const AuditBatch& batch : trace.batches()) {
    if (!batch.unseen || batch.unseen->empty() || !told.insert(batch.loader).second) continue;
    findings.push_back(
        trace.at(FindingId::kEpochNeverArrives, Finding::Weight::kSuspicion, batch.call)
            .with("names", *batch.unseen)
            .with("epoch", batch.epoch)
            .with("loader", loader_text(batch.loader, trace.data().at(batch.loader))));
  }
  return findings;
}

}  // namespace repro_check::comparators
