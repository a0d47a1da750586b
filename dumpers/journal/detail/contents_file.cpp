// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/contents_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dumpers/journal/size_signal_guard.h"
#include "dumpers/journal/write_error.h"

namespace repro_check::journal {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kPiece = std::size_t{1} << 20U;

}  // namespace

ContentsFile::ContentsFile(std::filesystem::path file) : file_(std::move(file)) {}

std::uint64_t ContentsFile::append(const core::ContentBytes& bytes) {
  const SizeSignalGuard guard;
  if (opened_.get() < 0) {
    constexpr mode_t kMode = 0666;
    opened_ =
        core::FileDescriptor(::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
    if (opened_.get() < 0) write_failed(file_, "cannot create the file", errno);
  }
  const std::uint64_t begin = (end_ + kPage - 1) / kPage * kPage;
  for (std::size_t done = 0; done < bytes.size(); done += piece_.size()) {
    piece_.resize(std::min(kPiece, bytes.size() - done));
    bytes.read(done, piece_);
    write(begin + done, piece_);
  }
  end_ = begin + bytes.size();
  return begin;
}

void ContentsFile::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(opened_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) write_failed(file_, "cannot write", written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void ContentsFile::sync() {
  if (opened_.get() >= 0 && ::fsync(opened_.get()) != 0)
    write_failed(file_, "cannot force to the disk", errno);
}

}  // namespace repro_check::journal
