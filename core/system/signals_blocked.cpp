// SPDX-License-Identifier: Apache-2.0
#include "core/system/signals_blocked.h"

#include <ctime>

namespace repro_check::core {

namespace {

sigset_t only_size_signal() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

}  // namespace

SizeSignalGuard::SizeSignalGuard() noexcept {
  const sigset_t set = only_size_signal();
  if (pthread_sigmask(SIG_BLOCK, &set, &previous_) != 0) return;
  active_ = sigismember(&previous_, SIGXFSZ) == 0;
}

SizeSignalGuard::~SizeSignalGuard() {
  if (!active_) return;
  // The kernel sends this signal to the writing thread: what is pending now is ours to swallow.
  const sigset_t set = only_size_signal();
  const timespec at_once{};
  while (sigtimedwait(&set, nullptr, &at_once) == SIGXFSZ) {
  }
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

}  // namespace repro_check::core
