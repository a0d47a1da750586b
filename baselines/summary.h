// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "baselines/baseline.h"
#include "core/trace/dump_source.h"
#include "core/trace/op_record.h"

namespace repro_check::baselines {

/// What would be accepted of one operator: its name, its place and its outputs.
std::string to_line(const core::OpRecord& record);
/// Its results that are no tensors; empty = there are none.
std::string scalars_of(const core::OpRecord& record);

/// What would be accepted of a recording, with a line for every operator and tensor, however many
/// there are: fold() makes the file. Only digests are read, no contents. Lane after lane, since
/// which of them was first is a matter of luck, as all order in a pool is.
/// @param platform  the recording's, see platform_of()
/// @throws core::Error{kDumpDamaged}
Baseline summarise(const core::DumpSource& dump,
                   const Platform& platform,
                   const std::string& gate,
                   const std::string& policy);

/// Puts a line a module in place of a line an operator, where there are more than kMostLines; the
/// same of the tensors of a kind.
Baseline fold(Baseline baseline);

/// The same of the operators alone, however few there are: to compare with what has been folded.
Baseline fold_operators(Baseline baseline);

/// Whether it says what the calls returned: one that was accepted before that was recorded does
/// not.
bool holds_returned(const Baseline& baseline);

/// @param baseline  not folded
Baseline without_returned(Baseline baseline);

}  // namespace repro_check::baselines
