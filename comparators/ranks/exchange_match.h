// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comparators/ranks/collectives.h"
#include "comparators/ranks/rank_reads.h"
#include "comparators/ranks/ranks.h"

namespace repro_check::comparators {

/// What has to be looked at closely before ranks can be matched: where they part, of one rank for
/// each that made the same. Without the calls.
std::vector<ToldCalls> calls_to_read(std::span<const RankRead> ranks);

/// All members of a group make the same collectives in the same order: operator, dtypes, root, and
/// where they must be equal sizes. What one rank sends to another with a tag that one receives, in
/// the same order, of the same dtypes and as many elements. Says of each the first that is not, of
/// those that no other explains.
/// @param report  gets its collectives, messages, unplaced and findings
/// @return whether all match
bool match_exchanges(const RankReads& reads, RanksReport& report);

}  // namespace repro_check::comparators
