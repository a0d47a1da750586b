// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// Whether recording changes what runs return.
struct ObserverCheck {
  std::vector<comparators::ObserverFinding> findings;
  std::vector<RecordingResult> results;  ///< of the runs that were asked, up to one that failed

  [[nodiscard]] bool failed() const { return !results.empty() && !results.back().totals; }
  [[nodiscard]] bool changed() const;
};

/// Runs each job twice without recording, once recorded with digests and once with tensors, and
/// compares what it returns, with dropout and random draws as the model has them. The recordings go
/// beside the dump, to `<dump>.observer`, and are removed. Jobs that differ in their names alone
/// are asked once.
/// @throws core::Error{kUsage, kInterrupted, kIo}
ObserverCheck check_observer(const std::vector<RecordingJob>& jobs, Progress& progress);

/// The verdict when recording changed something.
comparators::Report observer_report(const std::vector<RecordingJob>& jobs,
                                    const ObserverCheck& check);

}  // namespace repro_check::cmd
