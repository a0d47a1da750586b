// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace repro_check::journal {

/// While it lives, a write beyond the file size limit (`ulimit -f`) fails with EFBIG on this thread
/// instead of killing the process by SIGXFSZ. Whatever the process does with that signal otherwise
/// is left as it was.
class SizeSignalGuard {
 public:
  SizeSignalGuard() noexcept;
  SizeSignalGuard(const SizeSignalGuard&) = delete;
  SizeSignalGuard& operator=(const SizeSignalGuard&) = delete;
  SizeSignalGuard(SizeSignalGuard&&) = delete;
  SizeSignalGuard& operator=(SizeSignalGuard&&) = delete;
  ~SizeSignalGuard();

 private:
  sigset_t previous_{};
  bool active_ = false;
};

}  // namespace repro_check::journal
