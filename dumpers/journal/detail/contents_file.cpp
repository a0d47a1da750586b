// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/contents_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "dumpers/journal/detail/write_error.h"
#include "dumpers/journal/size_signal_guard.h"

namespace repro_check::journal {
namespace {

constexpr std::uint64_t kPage = 4096;

}  // namespace

ContentsFile::ContentsFile(std::filesystem::path file) : file_(std::move(file)) {}

ContentsFile::~ContentsFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::uint64_t ContentsFile::append(std::span<const std::byte> bytes) {
  const SizeSignalGuard guard;
  if (fd_ < 0) {
    constexpr mode_t kMode = 0666;
    fd_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
    if (fd_ < 0) write_failed(file_, "cannot create the file", errno);
  }
  const std::uint64_t begin = (end_ + kPage - 1) / kPage * kPage;
  std::uint64_t at = begin;
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) write_failed(file_, "cannot write", written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    at += static_cast<std::uint64_t>(written);
  }
  end_ = at;
  return begin;
}

void ContentsFile::sync() {
  if (fd_ >= 0 && ::fsync(fd_) != 0) write_failed(file_, "cannot force to the disk", errno);
}

}  // namespace repro_check::journal
