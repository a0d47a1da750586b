// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check gate`: judges runs among themselves and by what was accepted.
std::unique_ptr<Command> gate_command();

}  // namespace repro_check::cmd
