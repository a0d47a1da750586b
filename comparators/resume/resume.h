// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comparators/align/names.h"
#include "comparators/report/report.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// Where a resumed run meets the run that made its checkpoint.
struct ResumePoint {
  ResumeSummary summary;
  std::uint32_t steps_before =
      0;  ///< by which the steps of the candidate are counted on, modulo 2^32
  /// That both have made, as the baseline counts them; 0 where nobody counted.
  std::uint32_t steps = 0;
  /// Whether one of them made more: what comes behind the last that both have is compared with
  /// nothing.
  bool goes_on = false;
  std::optional<Phrase> obstacle;  ///< why the two cannot be held against each other
};

/// Finds the checkpoint that the candidate loaded among those that the baseline saved, by what is
/// in them, and judges every kind of state at its first use afterwards. Both recordings must hold
/// the records of core::kCheckpointRecords.
/// @throws core::Error{kDumpDamaged}
ResumePoint find_resume(const core::DumpSource& baseline, const core::DumpSource& candidate);

/// Root modules have a number in the order in which a process calls them, and the resumed one does
/// not begin where the other did: those of one class are paired by that order from where the two
/// meet.
/// @throws core::Error{kDumpDamaged}
ModuleRenames rename_roots(const core::DumpSource& baseline,
                           const core::DumpSource& candidate,
                           const ResumePoint& point);

}  // namespace repro_check::comparators
