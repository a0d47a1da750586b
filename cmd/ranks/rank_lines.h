// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "cmd/render/json_form.h"
#include "cmd/reports/rank_slices.h"
#include "comparators/ranks/rank_reads.h"
#include "comparators/ranks/ranks.h"

namespace repro_check::cmd {

DESCRIBE(comparators::RankState,
         NAMED("rank", recording.rank) NAMED("dump", recording.location) MEMBER(operators)
             MEMBER(steps) TEXT(last_operator) SOMETIMES(raised) SOMETIMES(said) TEXT(message))

/// What ranks say as JSON Lines: a line a rank, in which what is as on a rank before it is told by
/// that rank; then what differs first, looked at closely.
std::vector<Json> lines_of(const comparators::RankReads& reads);

/// What slices of `ranks` say together. @param slices  one at least
/// @throws core::Error{kDumpDamaged} where a line makes no sense, kNotComparable as joined()
comparators::RankReads reads_of(std::span<const RankSlice> slices);

}  // namespace repro_check::cmd
