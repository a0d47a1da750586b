// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check report`: renders a JSON report again, or the history of a gate.
std::unique_ptr<Command> report_command();

}  // namespace repro_check::cmd
