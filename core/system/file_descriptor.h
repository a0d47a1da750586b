// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace repro_check::core {

/// An open file, closed with the object.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  /// Negative when nothing is open.
  [[nodiscard]] int get() const noexcept { return fd_; }
  /// @return what ::close() does; nothing is open any more
  int close() noexcept { return fd_ < 0 ? 0 : ::close(std::exchange(fd_, -1)); }

 private:
  int fd_ = -1;
};

/// @return false with errno set
inline bool write_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      // Whoever shares a terminal or a pipe with us may have made it non-blocking, for us as well.
      pollfd waiting{descriptor, POLLOUT, 0};
      if (::poll(&waiting, 1, -1) < 0 && errno != EINTR) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

inline bool write_all(int descriptor, std::span<const std::byte> bytes) noexcept {
  return write_all(descriptor, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// Writes all of `bytes` from `offset` on. @return false with errno set
bool write_all_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes) noexcept;

/// Reads from `offset` on until `into` is full or the file ends.
/// @return how many bytes that were; empty, with errno set, where the system refused
std::optional<std::size_t> read_at(int descriptor,
                                   std::uint64_t offset,
                                   std::span<std::byte> into) noexcept;

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

/// Where temporary files belong: TMPDIR, else /tmp.
std::string temporary_directory();

/// An empty file to read and write, for nobody but its owner.
struct TemporaryFile {
  FileDescriptor file;  ///< negative, with errno, where none could be made
  TemporaryName name;   ///< only where the file system knows no files without
};
TemporaryFile open_temporary(const std::string& directory);

/// Bytes that are free where a file is or will be; empty where the file system does not know how
/// large it is.
std::optional<std::uint64_t> free_space(const std::filesystem::path& place);

/// @param code  errno of what the system refused
/// @throws Error{kIo} with the path, the reason, and how to mend it where that is known
[[noreturn]] void write_failed(const std::filesystem::path& file, std::string_view what, int code);

/// Forces a file, or a directory, to the disk. @throws as write_failed()
void sync_path(const std::filesystem::path& path);

}  // namespace repro_check::core
