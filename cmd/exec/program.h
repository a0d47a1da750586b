// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "cmd/recording/recorder_process.h"

namespace repro_check::cmd {

struct ProgramEnd {
  int code = 0;    ///< its exit code; of no meaning where a signal ended it
  int signal = 0;  ///< 0 = none did
  bool timed_out = false;
  pid_t process = 0;
};

/// Runs a program, looked for in PATH, as the shell would: with our streams, working directory and
/// process group. What a terminal sends reaches both of us, and is left to the program; what is
/// sent to us alone is passed on to it.
/// @throws core::Error{kUsage} when it cannot be started
ProgramEnd run_program(const ProcessPlan& plan,
                       const std::optional<std::chrono::duration<double>>& timeout);

/// Ends this process as `end` did, by the same signal; returns where no signal did.
void end_alike(const ProgramEnd& end);

}  // namespace repro_check::cmd
