// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comparators/report/finding.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// How many ranks the program of a recording ran on; one that says nothing ran on one.
std::uint32_t ranks_of(const core::DumpSource& dump);

/// Whether the programs of two recordings ran on as many ranks.
bool ran_on_as_many_ranks(const core::DumpSource& baseline, const core::DumpSource& candidate);

/// What two recordings of one rank have to have alike although their programs ran on other numbers
/// of ranks: the parameters before the first step, and losses for as long as the rank reads the
/// same.
struct CommonOfWorlds {
  std::vector<std::uint64_t> baseline;  ///< op indices of the records that hold it, ascending
  std::vector<std::uint64_t> candidate;
  Phrases said;  ///< what that is, and what it is not
};

/// @throws core::Error{kDumpDamaged}
CommonOfWorlds common_of_worlds(const core::DumpSource& baseline,
                                const core::DumpSource& candidate);

/// Of a core::kReplicaRecord the parameters that the rank holds whole and that have a digest, and
/// nothing else; any other record as it is.
core::OpRecord whole_parameters(core::OpRecord record);

}  // namespace repro_check::comparators
