// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cmd/terminal/signals.h"
#include "core/system/file_descriptor.h"
#include "core/system/pinned.h"

namespace repro_check::cmd {

/// A program with what it is to be told.
struct ProcessPlan {
  std::filesystem::path program;
  std::vector<std::string> arguments;  ///< without the program's own name
  /// Set over the inherited one; empty = taken out of it.
  std::map<std::string, std::optional<std::string>> environment = {};
};

/// A running child, leader of its own process group, with the reading end of one pipe from it. Dies
/// with us: the kernel kills it when this process goes, and the destructor kills and reaps it.
class Child : core::Pinned {
 public:
  Child(pid_t pid, core::FileDescriptor pipe) noexcept;
  ~Child();

  [[nodiscard]] int pipe() const noexcept { return pipe_.get(); }  ///< non-blocking
  /// Whether it has ended; it stays a zombie until reaped, so that its group cannot be reused.
  [[nodiscard]] bool has_ended() const noexcept;
  /// Kills what is left of the group and collects the leader. @return status as waitpid has it
  [[nodiscard]] int reap() const noexcept;

 private:
  pid_t pid_;
  core::FileDescriptor pipe_;
  GuardedGroup guard_;
  mutable bool reaped_ = false;
};

/// stdin is /dev/null, signal handlers and mask are the default ones.
/// @param output       descriptor of what becomes its stdout and stderr
/// @param pipe_target  the descriptor, of its own, that the pipe is; stdout too
/// @throws core::Error{kUsage} when the program cannot be started
Child spawn(const ProcessPlan& plan, int output, int pipe_target);

}  // namespace repro_check::cmd
