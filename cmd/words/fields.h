// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cmd/render/json_form.h"
#include "comparators/report/finding.h"

namespace repro_check::cmd {

/// Fields as an object, by name.
Json fields_json(const std::vector<comparators::Field>& fields);
std::vector<comparators::Field> fields_in(const Json& json);

}  // namespace repro_check::cmd
