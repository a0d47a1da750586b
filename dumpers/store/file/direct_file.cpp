// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/file/direct_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "dumpers/journal/write_error.h"

namespace repro_check::store {
namespace {

/// Whether the file system may be asked at all. tmpfs accepts O_DIRECT and then ignores it; others
/// tell in advance that they cannot, or that they want larger blocks than ours.
bool may_be_direct(int fd) noexcept {
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0 || system.f_type == TMPFS_MAGIC) return false;
#ifdef STATX_DIOALIGN
  struct statx told {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &told) == 0 &&
      (told.stx_mask & STATX_DIOALIGN) != 0) {
    const auto suits = [](std::uint32_t unit) { return unit != 0 && kDirectBlock % unit == 0; };
    return suits(told.stx_dio_offset_align) && suits(told.stx_dio_mem_align);
  }
#endif
  return true;
}

}  // namespace

DirectFile::DirectFile(std::filesystem::path file) : file_(std::move(file)) {
  ordinary_fd_ = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC);
  if (ordinary_fd_ < 0) journal::write_failed(file_, "cannot open", errno);
  if (!may_be_direct(ordinary_fd_)) return;
  direct_fd_ = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC | O_DIRECT);
  direct_ = direct_fd_ >= 0;
}

DirectFile::~DirectFile() {
  ::close(ordinary_fd_);
  if (direct_fd_ >= 0) ::close(direct_fd_);
}

bool DirectFile::can_be_direct(std::uint64_t offset,
                               std::span<const std::byte> bytes) const noexcept {
  return direct_ && bytes.size() >= kDirectBlock && offset % kDirectBlock == 0 &&
         reinterpret_cast<std::uintptr_t>(bytes.data()) % kDirectBlock == 0;
}

void DirectFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const bool direct = can_be_direct(offset, bytes);
    const std::size_t length = direct ? bytes.size() / kDirectBlock * kDirectBlock : bytes.size();
    const ssize_t written = ::pwrite(
        direct ? direct_fd_ : ordinary_fd_, bytes.data(), length, static_cast<off_t>(offset));
    if (written > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      offset += static_cast<std::uint64_t>(written);
      continue;
    }
    const int code = written == 0 ? ENOSPC : errno;
    if (direct && code == EINVAL) {
      direct_ = false;  // it was taken at open, and is refused now
    } else if (code != EINTR) {
      journal::write_failed(file_, "cannot write a tensor", code);
    }
  }
}

}  // namespace repro_check::store
