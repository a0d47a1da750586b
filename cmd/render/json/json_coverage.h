// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/render/json/json_text.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// How much was compared, and by which rule.
Json json_coverage(const comparators::Coverage& c);
Json json_rules(const comparators::Report& report);
Json json_screened(const comparators::Screened& screened);

}  // namespace repro_check::cmd
