// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/system/pinned.h"

namespace repro_check::cmd {

/// Holds a directory that a command writes in, from before its first write until it has read the
/// last of it; another command that wants it is refused. The lock is advisory, is the kernel's
/// (flock on the directory), and ends with the process. A directory that is not there is made, and
/// is taken away again where nothing was put into it. Where the file system knows no locks there is
/// none: see expect_own() for what then still holds.
class OutputLock : core::Pinned {
 public:
  enum class Mode {
    kAlone,
    kBeside,  ///< others may write beside what this command writes
  };

  /// @param patience  how long to wait for another command
  /// @throws core::Error{kUsage} saying who holds it, or that it cannot be made
  explicit OutputLock(const std::filesystem::path& directory,
                      Mode mode = Mode::kAlone,
                      std::chrono::milliseconds patience = std::chrono::milliseconds(0));
  ~OutputLock();

 private:
  /// @return whether what is locked is still what stands there
  bool take(Mode mode, std::chrono::milliseconds patience);
  void make();
  void release() noexcept;

  std::filesystem::path directory_;
  std::vector<std::filesystem::path> made_;  ///< the innermost first
  core::FileDescriptor descriptor_;
};

/// Several at once, all or none.
using OutputLocks = std::vector<std::unique_ptr<OutputLock>>;

/// Holds each directory alone; one that is named twice is held once.
/// @throws as OutputLock
OutputLocks hold_alone(const std::vector<std::filesystem::path>& directories);

}  // namespace repro_check::cmd
