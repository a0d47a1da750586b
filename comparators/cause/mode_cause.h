// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comparators/report/report.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators::detail {

/// Where one model was in training mode and the other was not, or other modules of it were: that
/// comes before `cause`, which follows from it. Nothing where a manifest does not say.
void lead_with_mode(const core::RunManifest& baseline,
                    const core::RunManifest& candidate,
                    Cause& cause);

}  // namespace repro_check::comparators::detail
