// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace repro_check::configs {

/// Whether a gate may be called so: its name is part of the names of files.
bool is_gate_name(std::string_view text);

}  // namespace repro_check::configs
