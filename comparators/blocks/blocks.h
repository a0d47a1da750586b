// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comparators/report/report.h"
#include "core/trace/dump.h"
#include "core/trace/recorded_part.h"

namespace repro_check::comparators {

/// Compares two recordings of blocks: calls by step, phase, path and number, whatever their order;
/// parameters by step and name. What batches, losses and generators are, records say.
/// @throws core::Error{kDumpDamaged}
BlockComparison compare_blocks(const core::DumpSource& baseline, const core::DumpSource& candidate);

/// Makes the first border, or parameter, that differs the first divergence of a report, unless a
/// record that differs comes before it in its step.
void lead_with_block(Report& report);

/// The steps that recordings of operators have to hold so that they show where the first divergence
/// of a report on blocks began: since all parameters were last read and were equal, which is not
/// behind each step, and the step before at least, since gradients are not read; or from the
/// program's start.
/// @param report  with a first divergence
core::OpRange steps_to_open(const Report& report);

/// Whether an operator is of these steps, and no later than what the report on blocks leads with.
bool is_opened(const Report& report, const core::OpRecord& record);

}  // namespace repro_check::comparators
