// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check inspect`: looks into one dump.
std::unique_ptr<Command> inspect_command();

}  // namespace repro_check::cmd
