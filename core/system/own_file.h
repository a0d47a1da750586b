// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

#include "core/system/file_descriptor.h"

namespace repro_check::core {

/// A file that this object has made, and that is opened again by its name for each use. A process
/// that belongs to somebody else may close any descriptor and give its number to another file: none
/// is kept, and none is used that is not of the file that was made.
class OwnFile {
 public:
  explicit OwnFile(const std::filesystem::path& file);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Makes the file. @throws Error{kIo}; an existing file is refused
  FileDescriptor create(std::string_view what);
  /// To read and write. @throws Error{kIo} also where another file has its name
  [[nodiscard]] FileDescriptor open(std::string_view what) const;
  /// Whether the descriptor is of this file, with errno set where it is not.
  [[nodiscard]] bool is_open_in(const FileDescriptor& opened) const noexcept;

 private:
  std::filesystem::path path_;  ///< absolute: the process may change its directory
  dev_t device_ = 0;
  ino_t number_ = 0;
};

}  // namespace repro_check::core
