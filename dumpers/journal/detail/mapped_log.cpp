// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/mapped_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "dumpers/journal/size_signal_guard.h"
#include "dumpers/journal/write_error.h"

namespace repro_check::journal {
namespace {

constexpr std::size_t kFirstWindow = std::size_t{256}
                                     << 10U;  // short runs should not pay for 4 MiB
constexpr std::size_t kLargestWindow = std::size_t{4} << 20U;
constexpr std::size_t kReserve = 4096;

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// Blocks are allocated before they are mapped: writing to a hole on a full disk would be a SIGBUS.
int allocate(int fd, std::uint64_t begin, std::size_t size) noexcept {
  const SizeSignalGuard guard;
  int code = EINTR;
  while (code == EINTR) {
    code = ::posix_fallocate(fd, static_cast<off_t>(begin), static_cast<off_t>(size));
  }
  return code;
}

/// Takes the page faults of the whole window at once, which is several times cheaper than one by
/// one, and turns what would be a SIGBUS later (a disk that is full after all) into an error now.
/// Kernels before 5.14 do not know how; there the faults come one by one.
int make_writable(void* begin, std::size_t size) noexcept {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(begin, size, MADV_POPULATE_WRITE) != 0 && errno == EFAULT) return ENOSPC;
#endif
  (void)begin;
  (void)size;
  return 0;
}

}  // namespace

MappedLog::MappedLog(std::filesystem::path file)
    : file_(std::move(file)), next_size_(kFirstWindow) {
  constexpr mode_t kMode = 0666;
  fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (fd_ < 0) fail("cannot create the journal", errno);
  // Held as long as the recording lives, so that another one can tell it from an abandoned one. A
  // file system without locks only loses that courtesy.
  (void)::flock(fd_, LOCK_EX | LOCK_NB);
}

MappedLog::~MappedLog() {
  try {
    close();
  } catch (const core::Error&) {
    // The file keeps zeros behind its last entry; readers stop there.
    if (fd_ >= 0) ::close(fd_);
  }
}

void MappedLog::grow(std::size_t needed) {
  const std::uint64_t position = window_begin_ + used_;
  const std::uint64_t begin = position / page_size() * page_size();
  const auto lead = static_cast<std::size_t>(position - begin);
  const std::size_t least = lead + needed + kReserve;
  const std::size_t size =
      std::max(next_size_, (least + page_size() - 1) / page_size() * page_size());
  if (fd_ < 0) fail("cannot write to the journal", EBADF);
  if (const int code = allocate(fd_, begin, size); code != 0) fail("cannot grow the journal", code);
  void* mapped =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(begin));
  if (mapped == MAP_FAILED) fail("cannot map the journal", errno);
  if (const int code = make_writable(mapped, size); code != 0) {
    ::munmap(mapped, size);
    fail("cannot grow the journal", code);
  }
  unmap();
  window_ = static_cast<std::byte*>(mapped);
  window_size_ = size;
  window_begin_ = begin;
  used_ = lead;
  reserve_ = kReserve;
  room_ = size - lead - kReserve;
  next_size_ = std::min(2 * next_size_, kLargestWindow);
}

void MappedLog::store(std::span<const std::byte> bytes) noexcept {
  std::memcpy(window_ + used_, bytes.data(), bytes.size());
  used_ += bytes.size();
  room_ -= bytes.size();
}

void MappedLog::append_last(std::span<const std::byte> bytes) {
  if (bytes.size() > last_room()) fail("cannot grow the journal", ENOSPC);
  if (bytes.size() > room_) {
    room_ += std::exchange(reserve_, 0);
  }
  store(bytes);
}

void MappedLog::unmap() noexcept {
  if (window_ != nullptr) ::munmap(window_, window_size_);
  window_ = nullptr;
}

void MappedLog::close() {
  if (fd_ < 0) return;
  unmap();
  room_ = 0;
  reserve_ = 0;
  const int cut = ::ftruncate(fd_, static_cast<off_t>(window_begin_ + used_)) == 0 ? 0 : errno;
  const int closed = ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno;
  if (cut != 0 || closed != 0) fail("cannot close the journal", cut != 0 ? cut : closed);
}

void MappedLog::fail(std::string_view what, int code) const { write_failed(file_, what, code); }

}  // namespace repro_check::journal
