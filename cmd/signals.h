// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

namespace repro_check::cmd {

/// SIGINT and SIGTERM: while a recorder runs they kill its process group and interrupted() turns
/// true; otherwise they end this process at once with exit code 130. Either way nothing has been
/// written to stdout, because a document is written there in one go at the end. SIGPIPE is ignored,
/// so that a reader that went away is an error code of write().
void install_signal_handlers();

[[nodiscard]] bool interrupted() noexcept;

/// The process group to kill on a signal, while alive. One at a time.
class GuardedGroup {
 public:
  explicit GuardedGroup(pid_t group) noexcept;
  GuardedGroup(const GuardedGroup&) = delete;
  GuardedGroup& operator=(const GuardedGroup&) = delete;
  GuardedGroup(GuardedGroup&&) = delete;
  GuardedGroup& operator=(GuardedGroup&&) = delete;
  ~GuardedGroup();
};

}  // namespace repro_check::cmd
