// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check bisect`: which of the differences between two runs make them diverge.
std::unique_ptr<Command> bisect_command();

}  // namespace repro_check::cmd
