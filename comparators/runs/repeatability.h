// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "comparators/report/report.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// Recordings whose operators are looked at together; files are open for each.
inline constexpr std::size_t kMostAssessed = 256;
/// Operators whose differing outputs are measured, where the recordings hold them.
inline constexpr std::size_t kMostMeasured = 32;

/// Compares like with like: of every operator of the first run the records that other runs have at
/// its place are grouped by their inputs (arguments, tensors, generator), and the results inside
/// the largest group are counted, so that what follows a flaky operator is not flaky itself. Works
/// by digests; streams that part are aligned. Holds one record of each run at a time.
/// @param runs       the first one's operators are the ones assessed; those beyond kMostAssessed,
///                   and those with digests of another rule, are left out, which is noted
/// @param max_items  flaky operators kept; all are counted
/// A record that cannot be read is noted, and ends the part of its run.
OpRepeatability assess_ops(std::span<const core::DumpSource* const> runs, std::size_t max_items);

}  // namespace repro_check::comparators
