// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comparators/report/report.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators::detail {

/// Who the two runs are.
std::vector<RunSummary> summarise_runs(const core::DumpSource& baseline,
                                       const core::DumpSource& candidate);

/// Marks runs as damaged that one of the sentences names.
void mark_damage(const std::vector<std::string>& damage, std::vector<RunSummary>& runs);

/// What the comparison could not look at, because a dump refers to one that was not given.
std::vector<std::string> missing_references(const std::vector<RunSummary>& runs);

}  // namespace repro_check::comparators::detail
