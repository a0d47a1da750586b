// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comparators/report/finding.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {

/// Why two recordings cannot be a pass, whatever their operators say.
struct Obstacles {
  Phrases reasons;  ///< empty = there is none
  Phrases notes;    ///< what could not be looked at
};

/// Of how the programs ended, and of hooks of the recorder that failed.
Obstacles obstacles_of(const core::RunManifest& baseline, const core::RunManifest& candidate);

}  // namespace repro_check::comparators
