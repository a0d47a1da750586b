// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "comparators/align/pairing.h"
#include "comparators/report/report.h"
#include "configs/spec/compare_spec.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// The records of two runs that hold numbers: ascending op indices.
struct NumberRecords {
  std::vector<std::uint64_t> baseline;
  std::vector<std::uint64_t> candidate;
  NumbersSummary summary;  ///< but for the operators
};

/// Finds the records that are judged by CompareSpec::numbers. Of a partial dump and its counterpart
/// as many as both hold: what comes behind them was not reached.
/// @param wanted  empty: all kinds that are recorded
/// @throws core::Error{kDumpDamaged}
NumberRecords find_numbers(const core::DumpSource& baseline,
                           const core::DumpSource& candidate,
                           const std::vector<configs::NumberKind>& wanted);

/// A record with the numbers of some kinds alone, and with what is told beside them.
core::OpRecord with_numbers(core::OpRecord record, const std::vector<configs::NumberKind>& kinds);

/// Counts the operators whose results are not bit-equal, and those of one side alone. Records that
/// stand for no operator are none.
/// @throws core::Error{kDumpDamaged}
ChangedOperators changed_operators(const core::DumpSource& baseline,
                                   const core::DumpSource& candidate,
                                   const Pairing& pairing);

/// Puts in the place of causes, which operators would have, where operators begin to differ.
void explain_numbers(Report& report);

}  // namespace repro_check::comparators
