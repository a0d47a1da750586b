// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/rank_map.h"

#include <map>
#include <utility>

namespace repro_check::comparators {
namespace {

/// Moments come by step and, of a step, by kind: what is noted first of a step stays.
void note(std::vector<PartingRun>& runs, const ReplicaMoment& moment, std::uint64_t op) {
  if (!runs.empty()) {
    PartingRun& last = runs.back();
    const std::uint32_t end = last.first + last.steps;
    if (moment.step < end) return;
    if (moment.step == end && moment.series.kind == last.kind && op >= last.op) {
      if (last.steps == 1) last.stride = op - last.op;
      if (op == last.op + last.stride * last.steps) {
        ++last.steps;
        return;
      }
    }
  }
  runs.push_back({moment.step, 1, moment.series.kind, op, 0});
}

}  // namespace

std::vector<RankPartings> partings_of(const RankReads& reads) {
  const ReplicaMoments moments(reads.ranks);
  std::map<std::uint32_t, std::vector<PartingRun>> runs;
  moments.for_each([&](const ReplicaMoment& moment) {
    if (!moments.is_compared(moment)) return;
    const auto roots = by_frequency(moment.held);
    if (roots.size() == 1) return;
    const bool has_majority = roots[0].second > roots[1].second;
    for (const auto& [rank, root] : moment.held) {
      if (has_majority && root.digest == roots[0].first) continue;
      note(runs[rank->state.recording.rank], moment, root.op);
    }
  });
  std::vector<RankPartings> partings;
  partings.reserve(runs.size());
  for (auto& [rank, list] : runs) partings.push_back({rank, std::move(list)});
  return partings;
}

}  // namespace repro_check::comparators
