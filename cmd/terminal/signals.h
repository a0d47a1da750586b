// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "core/system/pinned.h"

namespace repro_check::cmd {

/// SIGINT and SIGTERM: while a recorder runs they kill its process group and interrupted() turns
/// true, as it does while there is a GuardedWork; otherwise, and at a second signal, they end this
/// process at once with exit code 130, after removing the guarded files and saying so on stderr.
/// Either way nothing has been written to stdout, because a document is written there in one go at
/// the end; between that and ignore_signals() a signal finds everything in its place, and says 130
/// all the same. SIGPIPE is ignored, so that a reader that went away is an error code of write().
void install_signal_handlers();

/// For when the work is done: the exit code is that of the verdict that has been written.
void ignore_signals() noexcept;

[[nodiscard]] bool interrupted() noexcept;

/// The process group to kill on a signal, while alive. One at a time.
class GuardedGroup : core::Pinned {
 public:
  explicit GuardedGroup(pid_t group) noexcept;
  ~GuardedGroup();
};

/// Work that removes itself what it has made: while alive, a first signal only turns interrupted()
/// true, which the work asks for.
class GuardedWork : core::Pinned {
 public:
  GuardedWork() noexcept;
  ~GuardedWork();
};

/// A file, or a directory that is empty by then, that a signal which ends the process removes,
/// while alive; the first that was guarded first. Of more than a few at a time, or of one with too
/// long a path, the rest is left behind.
class GuardedFile : core::Pinned {
 public:
  explicit GuardedFile(const std::string& path) noexcept;
  ~GuardedFile();

 private:
  std::size_t slot_;
};

}  // namespace repro_check::cmd
