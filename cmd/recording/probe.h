// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "cmd/recording/recorder_process.h"

namespace repro_check::cmd {

/// Sees to it that there is a probe for the PyTorch of the program's interpreter, which is asked
/// without importing it; one that has to be built is, as a line on stderr says. Where the command
/// is none of which the interpreter can be told (a script of a shell, a launcher), nothing is done:
/// its Python processes see to it themselves. The same for a program that is linked to LibTorch, by
/// the python3 of its PATH.
/// @param folder   require_libexec()
/// @param program  with the environment that it will have, ours not yet in it
/// @return the probe, where it is the program itself that has to load it
/// @throws core::Error{kUsage} when there can be no probe, saying what to do;
///         core::Error{kInterrupted}
std::optional<std::filesystem::path> prepare_probe(const std::filesystem::path& folder,
                                                   const ProcessPlan& program);

}  // namespace repro_check::cmd
