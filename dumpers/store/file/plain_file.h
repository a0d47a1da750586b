// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "core/system/file_descriptor.h"

namespace repro_check::store {

/// Writes all of `bytes` where the file stands.
/// @param name  for messages
/// @throws core::Error{kIo}
void write_whole(int fd, std::span<const std::byte> bytes, const std::string& name);

/// Reads at least one byte unless the file ends at `offset`.
/// @return how many bytes of `into` were filled
/// @throws core::Error{kIo}
std::size_t read_some(int fd,
                      std::uint64_t offset,
                      std::span<std::byte> into,
                      const std::string& name);

/// Opens a file that must be a plain one, and no link, for reading.
/// @throws core::Error{kIo}, also when it is anything else
core::FileDescriptor open_plain(const std::filesystem::path& file);

/// Creates a file that must not be there yet. @throws core::Error{kIo}
core::FileDescriptor create_plain(const std::filesystem::path& file);

std::uint64_t size_of(const core::FileDescriptor& file, const std::string& name);

/// Some file systems do not know how large they are; those are taken at their word later.
/// @throws core::Error{kIo} when there is less than `needed` free where `file` is
void expect_free_space(const core::FileDescriptor& file,
                       const std::string& directory,
                       std::uint64_t needed);

/// Makes the file so long, with the space taken on the disk: what writes to it through a mapping
/// would get a signal, not an error, where there is none left. @throws core::Error{kIo}
void take_space(const core::FileDescriptor& file, std::uint64_t bytes, const std::string& name);

/// The name of a file that shall have none for long: it is removed with the object, the file itself
/// with the last process that has it open, however that ends.
class TemporaryName {
 public:
  TemporaryName() = default;
  explicit TemporaryName(std::string path) : path_(std::move(path)) {}
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  TemporaryName(TemporaryName&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryName& operator=(TemporaryName&& other) noexcept {
    path_.swap(other.path_);
    return *this;
  }
  ~TemporaryName() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  /// Empty where there is none.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

struct TemporaryFile {
  core::FileDescriptor file;
  TemporaryName name;  ///< only where the file system knows no files without
};

/// A new file in the directory for temporary files (TMPDIR).
/// @param needed_space  bytes that must be free there
/// @throws core::Error{kIo}
TemporaryFile create_temporary(std::uint64_t needed_space);

/// Gives a name to a file of create_temporary() that has none. @throws core::Error{kIo}
TemporaryName name_temporary(const core::FileDescriptor& file);

}  // namespace repro_check::store
