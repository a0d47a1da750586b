// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/render/gate_outcome.h"
#include "cmd/render/json/json_text.h"

namespace repro_check::cmd {

/// The gate's part of the JSON report; null where there was none.
Json json_gate(const GateOutcome* gate);
/// What every expected divergence did; an empty array without a gate.
Json json_expected(const GateOutcome* gate);

}  // namespace repro_check::cmd
