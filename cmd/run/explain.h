// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// `run --explain`: executes the first origin of `report` again, each side from its own dump with
/// its own recorder, and puts what that shows into the report. What stands in the way of it, such
/// as a dump without the operator's values, is said there too.
/// @param jobs  that recorded the runs of the report
/// @throws core::Error{kInterrupted}
void explain_origin(const std::vector<RecordingJob>& jobs,
                    comparators::Report& report,
                    Progress& progress);

}  // namespace repro_check::cmd
