// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/trace/dump.h"

namespace repro_check::comparators {

/// Of two recordings of one program, of which one has the operators of optimizers' steps
/// (core::TraceSummary::optimizer) and the other what the steps left: the op indices of the former
/// that are such operators, ascending. What stands between a backward pass and a step is in both,
/// so that of the operators before the record of a step those count that are more than in the
/// other. Empty where both were recorded alike.
/// @throws core::Error{kDumpDamaged} when a record cannot be read
std::vector<std::uint64_t> operators_of_hidden_steps(const core::DumpSource& dump,
                                                     const core::DumpSource& other);

}  // namespace repro_check::comparators
