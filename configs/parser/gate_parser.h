// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "configs/parser/json_reader.h"
#include "configs/parser/parse_context.h"
#include "configs/spec/gate_spec.h"

namespace repro_check::configs::detail {

/// The members of the top level that are about a gate: baselines, expected, min_judged.
void read_gate_members(const ObjectReader& object, const ParseContext& context, GateSpec& gate);

}  // namespace repro_check::configs::detail
