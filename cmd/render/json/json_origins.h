// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/render/json/json_text.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// Where differences began, and what each of them reached.
Json json_origins(const comparators::Report& report);
/// How the error went through the trace, and how many origins there are.
Json json_growth(const comparators::Report& report);

}  // namespace repro_check::cmd
