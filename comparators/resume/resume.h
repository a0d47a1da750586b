// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "comparators/report/report.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// Where a resumed run meets the run that made its checkpoint.
struct ResumePoint {
  ResumeSummary summary;
  std::uint32_t steps_before =
      0;                 ///< by which the steps of the candidate are counted on, modulo 2^32
  std::string obstacle;  ///< why the two cannot be held against each other; empty = they can
  std::string mend;
};

/// Finds the checkpoint that the candidate loaded among those that the baseline saved, by what is
/// in them, and judges every kind of state at its first use afterwards. Both recordings must hold
/// the records of core::kCheckpointRecords.
/// @throws core::Error{kDumpDamaged}
ResumePoint find_resume(const core::DumpSource& baseline, const core::DumpSource& candidate);

}  // namespace repro_check::comparators
