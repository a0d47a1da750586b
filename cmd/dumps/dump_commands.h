// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check pack`: a dump as one compressed file.
std::unique_ptr<Command> pack_command();
/// `repro-check unpack`: the dump that was packed.
std::unique_ptr<Command> unpack_command();
/// `repro-check recover`: a dump of what a killed recording has left.
std::unique_ptr<Command> recover_command();
/// `repro-check import`: a dump of a recording that was made without HDF5.
std::unique_ptr<Command> import_command();
/// `repro-check verify`: checks what dumps hold, each of them, and ends with the worst exit code.
std::unique_ptr<Command> verify_command();

}  // namespace repro_check::cmd
