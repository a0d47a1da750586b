// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comparators/report/report.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// Compares two recordings of blocks: calls by step, phase, path and number, whatever their order;
/// parameters by step and name. What batches, losses and generators are, records say.
/// @throws core::Error{kDumpDamaged}
BlockComparison compare_blocks(const core::DumpSource& baseline, const core::DumpSource& candidate);

/// Makes the first border, or parameter, that differs the first divergence of a report, unless a
/// record that differs comes before it in its step.
void lead_with_block(Report& report);

}  // namespace repro_check::comparators
