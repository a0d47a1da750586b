// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/render/gate_outcome.h"
#include "cmd/render/json/json_fields.h"

namespace repro_check::cmd {

// Sections of the JSON report, each read into the members that it is made of.

void read_differences(const Json& json, comparators::Report& report);
void read_alignment(const Json& json, comparators::Report& report);
void read_control_flow(const Json& json, comparators::Report& report);
void read_ranks(const Json& json, comparators::Report& report);
/// `origins` and `growth`.
void read_spread(const Json& origins, const Json& growth, comparators::Report& report);
void read_repeat(const Json& json, comparators::Report& report);
void read_replay(const Json& json, comparators::Report& report);
void read_observer(const Json& json, comparators::Report& report);
/// `gate`, which is not null, and `expected`.
GateOutcome read_gate(const Json& gate, const Json& expected);

}  // namespace repro_check::cmd
