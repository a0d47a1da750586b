// SPDX-License-Identifier: Apache-2.0
#include "cmd/recorder/termination.h"

#include <unistd.h>

#include <csignal>
#include <cstddef>

#include "core/exit_code.h"

namespace repro_check::recorder {
namespace {

volatile std::sig_atomic_t status_descriptor = -1;

// Nothing here may allocate or lock: the signal may have come in the middle of malloc.
extern "C" void end_at_once(int) {
  static constexpr char kLine[] =
      "{\"type\":\"error\",\"kind\":\"interrupted\",\"message\":\"interrupted by a signal\","
      "\"hint\":\"\"}\n";
  if (status_descriptor >= 0) {
    const ssize_t ignored =
        ::write(static_cast<int>(status_descriptor), kLine, sizeof kLine - std::size_t{1});
    static_cast<void>(ignored);
  }
  ::_exit(static_cast<int>(core::ExitCode::kInterrupted));
}

}  // namespace

void install_termination(int descriptor) {
  status_descriptor = descriptor;
  struct sigaction action {};
  action.sa_handler = end_at_once;
  sigfillset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);
}

}  // namespace repro_check::recorder
