// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace repro_check::configs {

/// Whether a recorded run digested each input of an operator anew (`dump.verify_inputs`).
/// @param configuration  the resolved run, as its manifest has it
bool verifies_inputs(const std::string& configuration);

}  // namespace repro_check::configs
