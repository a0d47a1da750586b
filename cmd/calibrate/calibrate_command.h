// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check calibrate`: how far runs of one configuration are apart by themselves.
std::unique_ptr<Command> calibrate_command();

}  // namespace repro_check::cmd
