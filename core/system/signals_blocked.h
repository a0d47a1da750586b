// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

#include "core/system/pinned.h"

namespace repro_check::core {

/// Blocks every signal for the calling thread until the object dies. A thread started meanwhile
/// inherits that: signals are for those that wait for them, and SIGXFSZ is an error of the write.
class SignalsBlocked : core::Pinned {
 public:
  SignalsBlocked() noexcept {
    sigset_t all{};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// While it lives, a write beyond the file size limit (`ulimit -f`) fails with EFBIG on this thread
/// instead of killing the process by SIGXFSZ. Whatever the process does with that signal otherwise
/// is left as it was.
class SizeSignalGuard : Pinned {
 public:
  SizeSignalGuard() noexcept;
  ~SizeSignalGuard();

 private:
  sigset_t previous_{};
  bool active_ = false;
};

}  // namespace repro_check::core
