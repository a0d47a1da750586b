// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/render/json/json_fields.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// What the calls returned, and how it compares.
Json json_returned(const comparators::ReturnedValues& returned);
comparators::ReturnedValues read_returned(const Json& json);

}  // namespace repro_check::cmd
