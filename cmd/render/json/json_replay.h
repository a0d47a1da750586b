// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/render/json/json_text.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// What `run --explain` found; null where nobody asked or nothing diverged.
Json json_replay(const comparators::Report& report);

}  // namespace repro_check::cmd
