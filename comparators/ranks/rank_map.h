// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "comparators/ranks/rank_reads.h"
#include "comparators/ranks/ranks.h"

namespace repro_check::comparators {

/// Steps of a rank, one behind the other, in which the same kind parts before any other.
struct PartingRun {
  std::uint32_t first = 0;
  std::uint32_t steps = 1;
  ReplicaKind kind = ReplicaKind::kParameters;
  std::uint64_t op = 0;      ///< op index of the record that holds it, at the first step
  std::uint64_t stride = 0;  ///< from that of one step to that of the next
};

/// Where one rank has something else than most have; where no majority says which is wrong, than
/// any has.
struct RankPartings {
  std::uint32_t rank = 0;
  std::vector<PartingRun> runs;  ///< by step; not empty
};

/// Of each rank that parts, by rank.
std::vector<RankPartings> partings_of(const RankReads& reads);

}  // namespace repro_check::comparators
