// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "cmd/recording/space_estimate.h"

namespace repro_check::cmd {

/// As record(), of a run that the disk can take: one that is known to need more than is free is
/// refused before its model is loaded. Where nothing is known of a recording of tensors and there
/// is little room, the run is recorded with digests alone first, into `<dump>.measure`, which tells
/// its size; that recording is removed again.
/// @param known  what it will take; without it, what an earlier dump or a measurement tells
RecordingResult record_where_it_fits(const RecordingJob& job,
                                     const std::optional<SpaceEstimate>& known,
                                     Progress& progress);

}  // namespace repro_check::cmd
