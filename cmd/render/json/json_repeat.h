// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/render/json/json_text.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// The schema's `repeat`: what N runs say together, or how much a pass of two runs says; null for
/// two runs that did not pass.
Json json_repeat(const comparators::Report& report);

}  // namespace repro_check::cmd
