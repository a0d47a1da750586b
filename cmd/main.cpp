// SPDX-License-Identifier: Apache-2.0
#include <exception>

#include "cmd/application.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/signals.h"

int main(int argc, char** argv) {
  namespace cmd = repro_check::cmd;
  try {
    cmd::install_stderr_logger();
    cmd::install_signal_handlers();
    const int code = static_cast<int>(cmd::run_application(argc, argv));
    cmd::ignore_signals();
    return code;
  } catch (const std::exception& error) {
    return static_cast<int>(cmd::report_exception(error));
  }
}
