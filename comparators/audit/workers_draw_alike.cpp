// SPDX-License-Identifier: Apache-2.0
// workers-draw-alike: each worker of a loader has a copy of one generator.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "comparators/audit/rules.h"
#include "core/tensor/dtype.h"

namespace repro_check::comparators {
namespace {

/// Batches of one epoch of a loader, in order: its workers make them in turn.
using WorkerEpoch = std::vector<const AuditBatch*>;

/// An entry of them all; empty where some batch has none.
std::vector<const AuditTensor*> entries(const AuditTrace& trace,
                                        const WorkerEpoch& epoch,
                                        TextId slot) {
  std::vector<const AuditTensor*> list;
  for (const AuditBatch* batch : epoch) {
    const auto outputs = trace.outputs(batch->call);
    const auto found = std::ranges::find(outputs, slot, &AuditTensor::slot);
    if (found == outputs.end() || !found->is_known()) return {};
    list.push_back(&*found);
  }
  return list;
}

/// Whether the batches of each round are equal, and those of no two rounds.
bool repeats_in_rounds(const std::vector<const AuditTensor*>& list, std::size_t workers) {
  std::set<core::Digest> rounds;
  for (std::size_t at = 0; at < list.size(); ++at) {
    const AuditTensor& first = *list[at - at % workers];
    if (!list[at]->equals(first)) return false;
    if (at % workers == 0 && !rounds.insert(first.digest).second) return false;
  }
  return true;
}

bool all_differ(const std::vector<const AuditTensor*>& list) {
  std::set<core::Digest> seen;
  return std::ranges::all_of(
      list, [&](const AuditTensor* each) { return seen.insert(each->digest).second; });
}

}  // namespace

std::vector<Finding> find_workers_draw_alike(const AuditTrace& trace) {
  std::map<std::pair<std::int64_t, std::int64_t>, WorkerEpoch> epochs;
  for (const AuditBatch& batch : trace.batches()) {
    if (batch.workers > 1) epochs[{batch.loader, batch.epoch}].push_back(&batch);
  }
  std::vector<Finding> findings;
  std::set<std::pair<std::int64_t, TextId>> told;
  for (auto& each : epochs) {
    auto& epoch = each.second;
    const auto workers = static_cast<std::size_t>(epoch.front()->workers);
    // Workers that had none to make say nothing.
    epoch.resize(epoch.size() / workers * workers);
    if (epoch.size() < 2 * workers) continue;
    const auto outputs = trace.outputs(epoch.front()->call);
    // Where all else repeats as well, the data does.
    const bool has_other = std::ranges::any_of(outputs, [&](const AuditTensor& entry) {
      const auto list = entries(trace, epoch, entry.slot);
      return !list.empty() && all_differ(list);
    });
    for (const AuditTensor& entry : outputs) {
      // Labels may come in rounds; numbers that are drawn do not.
      if (!has_other || !core::is_floating(entry.dtype) || entry.is_single) continue;
      const auto list = entries(trace, epoch, entry.slot);
      if (list.empty() || !repeats_in_rounds(list, workers)) continue;
      if (!told.insert({each.first.first, entry.slot}).second) continue;
      findings.push_back(
          trace.at(FindingId::kWorkersDrawAlike, Finding::Weight::kProof, epoch.front()->call)
              .with("slot", trace.text(entry.slot))
              .with("workers", workers)
              .with("batches", epoch.size()));
    }
  }
  return findings;
}

}  // namespace repro_check::comparators
