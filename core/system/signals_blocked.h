// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <ctime>

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
  SizeSignalGuard() noexcept {
    sigemptyset(&only_that_);
    sigaddset(&only_that_, SIGXFSZ);
    if (pthread_sigmask(SIG_BLOCK, &only_that_, &previous_) != 0) return;
    active_ = sigismember(&previous_, SIGXFSZ) == 0;
  }
  ~SizeSignalGuard() {
    if (!active_) return;
    // The kernel sends this signal to the writing thread: what is pending now is ours to swallow.
    const timespec at_once{};
    while (sigtimedwait(&only_that_, nullptr, &at_once) == SIGXFSZ) {
    }
    pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  }

 private:
  sigset_t only_that_{};
  sigset_t previous_{};
  bool active_ = false;
};

}  // namespace repro_check::core
