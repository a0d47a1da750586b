// SPDX-License-Identifier: Apache-2.0
#include "core/system/own_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace repro_check::core {

OwnFile::OwnFile(const std::filesystem::path& file) : path_(std::filesystem::absolute(file)) {}

FileDescriptor OwnFile::create(std::string_view what) {
  constexpr mode_t kMode = 0666;
  constexpr mode_t kOwn = 0600;
  FileDescriptor made(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  struct stat is {};
  if (made.get() < 0 || ::fstat(made.get(), &is) != 0) write_failed(path_, what, errno);
  // The mask of the program may keep its own files from itself.
  if ((is.st_mode & kOwn) != kOwn && ::fchmod(made.get(), (is.st_mode & kMode) | kOwn) != 0) {
    write_failed(path_, what, errno);
  }
  device_ = is.st_dev;
  number_ = is.st_ino;
  return made;
}

FileDescriptor OwnFile::open(std::string_view what) const {
  FileDescriptor opened(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (opened.get() < 0 || !is_open_in(opened)) write_failed(path_, what, errno);
  return opened;
}

bool OwnFile::is_open_in(const FileDescriptor& opened) const noexcept {
  struct stat is {};
  if (::fstat(opened.get(), &is) != 0) return false;
  errno = ESTALE;
  return is.st_dev == device_ && is.st_ino == number_;
}

}  // namespace repro_check::core
