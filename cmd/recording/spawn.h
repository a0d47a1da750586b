// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cmd/terminal/signals.h"

namespace repro_check::cmd {

/// The descriptor on which a recorder writes its status lines.
inline constexpr int kStatusDescriptor = 3;

struct SpawnRequest {
  std::filesystem::path program;
  std::vector<std::string> arguments;              ///< without the program's own name
  std::map<std::string, std::string> environment;  ///< set over the inherited one
  std::vector<std::string> unset;
  std::filesystem::path output;   ///< file for stdout and stderr
  bool answer_on_stdout = false;  ///< the pipe is stdout; only stderr goes to `output`
};

/// A running child, leader of its own process group, with the reading end of one pipe from it. Dies
/// with us: the kernel kills it when this process goes, and the destructor kills and reaps it.
class Child {
 public:
  Child(pid_t pid, int pipe) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child(Child&&) = delete;
  Child& operator=(Child&&) = delete;
  ~Child();

  [[nodiscard]] int pipe() const noexcept { return pipe_; }  ///< non-blocking
  /// Whether it has ended; it stays a zombie until reaped, so that its group cannot be reused.
  [[nodiscard]] bool has_ended() const noexcept;
  /// Kills what is left of the group and collects the leader. @return status as waitpid has it
  [[nodiscard]] int reap() const noexcept;

 private:
  pid_t pid_;
  int pipe_;
  GuardedGroup guard_;
  mutable bool reaped_ = false;
};

/// stdin is /dev/null, signal handlers and mask are the default ones.
/// @throws core::Error{kUsage} when the program cannot be started, or `output` not be written
Child spawn(const SpawnRequest& request);

/// An empty file of a fresh name in the temporary directory, removed with the object, and by a
/// signal that leaves no time for that.
class TemporaryFile {
 public:
  /// @throws core::Error{kIo}
  explicit TemporaryFile(const std::string& prefix);
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  TemporaryFile(TemporaryFile&&) = delete;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// @throws core::Error{kIo}
  void write(const std::string& text) const;

 private:
  std::filesystem::path path_;
  std::optional<GuardedFile> guard_;
};

}  // namespace repro_check::cmd
