// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "core/error.h"

namespace repro_check::cmd {

/// Puts a logger on stderr in the place of spdlog's own, which writes to stdout. First thing in
/// main().
void install_stderr_logger();

/// With verbosity 2 and more, debug lines and timestamps as well; when quiet, errors only.
void set_log_level(int verbosity, bool quiet);

/// Text from outside (names, messages of a recorder) is escaped here, line by line.
void log_warning(const std::string& message);
void log_info(const std::string& message);
void log_debug(const std::string& message);

/// Tells stderr about an exception and gives the exit code it stands for; anything but core::Error
/// is a defect of ours.
core::ExitCode report_exception(const std::exception& error);

}  // namespace repro_check::cmd
