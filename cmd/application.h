// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/error.h"

namespace repro_check::cmd {

/// Parses the command line and carries out its verb.
/// @throws core::Error; a command line that cannot be understood is Error{kUsage}, whatever CLI11
///         would have ended with
core::ExitCode run_application(int argc, const char* const* argv);

}  // namespace repro_check::cmd
