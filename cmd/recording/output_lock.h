// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/system/file_descriptor.h"
#include "core/system/pinned.h"
#include "core/trace/dump.h"

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

/// What this process has had recorded: each place, and the digest of the manifest that its recorder
/// wrote there. Another command may record in the same place meanwhile, and its dump is whole as
/// well, so that nothing but this tells the two apart.

/// Notes the dump that a recorder of this process has made in `place`; for a directory that holds
/// the dumps of several ranks that of its lowest stands, and each is noted in its own place too.
void note_own(const std::filesystem::path& place, const core::Digest& manifest);

/// The dump has been moved, or those of its ranks, and is expected in its new place from now on.
void note_own_moved(const std::filesystem::path& from, const std::filesystem::path& to);

/// Passes where nothing was recorded by this process.
/// @param opened  what was found in `place`
/// @throws core::Error{kRunFailed} where it is another dump than the one that was noted
void expect_own(const core::DumpSource& opened, const std::filesystem::path& place);

/// Opens the dump in `place`, of several ranks that of the lowest, which expect_own() lets pass.
/// @param references  where dumps may be that it refers to
/// @throws as store::open_dump() and expect_own()
std::unique_ptr<core::DumpSource> open_own(
    const std::filesystem::path& place, const std::vector<std::filesystem::path>& references = {});

/// What `run` leaves in its directories, which the next `run` may replace, and nothing else that
/// lies there: while one lives, a file in each directory says which dumps were noted in it. One at
/// a time, held by whoever holds the directories.
class RunOutputs : core::Pinned {
 public:
  explicit RunOutputs(const std::vector<std::filesystem::path>& directories);
  /// Takes the file away where there is nothing beside it.
  ~RunOutputs();

  /// Whether an earlier `run` has left what is in `place`. A recording without an end is taken for
  /// its own where it has recorded before: nobody's baseline is one.
  [[nodiscard]] bool may_replace(const std::filesystem::path& place) const;

  /// Removes, with their logs, the dumps of an earlier `run` that are none of `kept`: beside those
  /// of this one they would be taken for its runs. One that somebody has put files into stays, with
  /// a warning.
  void discard_others(const std::vector<std::filesystem::path>& kept);

  /// The directories that an earlier `run` has written to.
  [[nodiscard]] std::vector<std::filesystem::path> used_before() const;

 private:
  friend void note_own(const std::filesystem::path& place, const core::Digest& manifest);

  struct Directory {
    bool was_used = false;                     ///< by an earlier `run`
    std::map<std::string, std::string> dumps;  ///< by name, the digest of each manifest
  };
  void note(const std::filesystem::path& place, const core::Digest& manifest);

  std::map<std::filesystem::path, Directory> directories_;
};

}  // namespace repro_check::cmd
