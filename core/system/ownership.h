// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "core/system/pinned.h"

namespace repro_check::core {

/// Why `path` must not be loaded, in words; empty if only this user and root can change it, or it
/// is not there. A file or folder must belong to one of them, and others must not be able to write
/// to it, nor to a folder above it: no other user, and no group with other members; folders with
/// the sticky bit pass. A link must lie in a folder that these two alone write to. The same rule as
/// python/repro_check/ownership.py has it.
/// @param beside  a file that runs already. Its owner, and the folders above it, are trusted as
///                they are
std::string refusal(const std::filesystem::path& path, const std::filesystem::path& beside = {});

/// The same of all that is below `path` as well.
std::string refusal_of_tree(const std::filesystem::path& path,
                            const std::filesystem::path& beside = {});

/// A folder for its owner alone, made under a name that cannot be guessed; removed with the object.
class PrivateFolder : Pinned {
 public:
  /// @param prefix  path and beginning of the name
  /// @throws Error{kUsage} if it cannot be made
  explicit PrivateFolder(const std::filesystem::path& prefix);
  ~PrivateFolder();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// @param keeps  whether it stays when the object goes
  void keep(bool keeps) noexcept { keeps_ = keeps; }

 private:
  std::filesystem::path path_;
  bool keeps_ = false;
};

}  // namespace repro_check::core
