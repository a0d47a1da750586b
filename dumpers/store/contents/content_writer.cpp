// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/contents/content_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "core/system/signals_blocked.h"
#include "core/tensor/dtype.h"
#include "core/trace/dump.h"

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

DirectFile::DirectFile(std::filesystem::path file)
    : file_(std::move(file)), ordinary_fd_(::open(file_.c_str(), O_WRONLY | O_CLOEXEC)) {
  if (ordinary_fd_.get() < 0) core::write_failed(file_, "cannot open", errno);
  if (!may_be_direct(ordinary_fd_.get())) return;
  direct_fd_ = core::FileDescriptor(::open(file_.c_str(), O_WRONLY | O_CLOEXEC | O_DIRECT));
  direct_ = direct_fd_.get() >= 0;
}

void DirectFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const bool direct = direct_ && bytes.size() >= kDirectBlock && offset % kDirectBlock == 0 &&
                        reinterpret_cast<std::uintptr_t>(bytes.data()) % kDirectBlock == 0;
    const std::size_t length = direct ? bytes.size() / kDirectBlock * kDirectBlock : bytes.size();
    const ssize_t written = ::pwrite((direct ? direct_fd_ : ordinary_fd_).get(),
                                     bytes.data(),
                                     length,
                                     static_cast<off_t>(offset));
    if (written > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      offset += static_cast<std::uint64_t>(written);
      continue;
    }
    const int code = written == 0 ? ENOSPC : errno;
    if (direct && code == EINVAL) {
      direct_ = false;  // it was taken at open, and is refused now
    } else if (code != EINTR) {
      core::write_failed(file_, "cannot write a tensor", code);
    }
  }
}

namespace {

/// A huge page makes 512 page faults one, and 512 pages to pin for a direct write one.
constexpr std::size_t kHugePage = std::size_t{2} << 20U;

std::size_t whole_blocks(std::size_t size) noexcept {
  return (size + kDirectBlock - 1) / kDirectBlock * kDirectBlock;
}

}  // namespace

/// Bytes on their way to the disk: a block of aligned memory that holds pieces of contents, each
/// with the place in the file where it belongs.
class StagingBuffer {
 public:
  /// The size for buffers that share `memory` bytes. Fewer and larger writes reach more of a disk.
  [[nodiscard]] static std::size_t size_for(std::size_t memory) noexcept {
    constexpr std::size_t kLeastBytes = std::size_t{4} << 20U;
    constexpr std::size_t kMostBytes = std::size_t{16} << 20U;
    constexpr std::size_t kEnough = 16;
    return std::clamp(memory / kEnough, kLeastBytes, kMostBytes) / kHugePage * kHugePage;
  }

  /// @param bytes  from size_for()
  /// @throws core::Error{kIo} when there is no memory
  explicit StagingBuffer(std::size_t bytes)
      : bytes_(bytes), memory_(static_cast<std::byte*>(std::aligned_alloc(kHugePage, bytes))) {
    if (memory_ == nullptr) {
      throw core::io_error("no memory for a buffer between the model and the disk",
                           "lower dump.memory, or record with dump.level \"digest\"");
    }
    (void)::madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // a wish; many kernels have none
  }

  /// Copies as much of `bytes` from `begin` on as there is room for.
  /// @param offset  where byte 0 of `bytes` belongs in the file
  /// @return how many bytes that were; at least one block where the buffer is not full
  std::size_t take(std::uint64_t offset, const core::ContentBytes& bytes, std::size_t begin) {
    const std::size_t length = std::min(bytes_ - used_, bytes.size() - begin);
    const std::span<std::byte> room{memory_.get() + used_, length};
    bytes.read(begin, room);
    pieces_.push_back({offset + begin, room});
    used_ += whole_blocks(length);
    return length;
  }

  [[nodiscard]] bool full() const noexcept { return used_ == bytes_; }

  void write_to(DirectFile& file) const {
    for (const Piece& piece : pieces_) file.write(piece.offset, piece.bytes);
  }
  void clear() noexcept {
    pieces_.clear();
    used_ = 0;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  struct Piece {
    std::uint64_t offset;  ///< in the file
    std::span<const std::byte> bytes;
  };

  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t used_ = 0;  ///< a multiple of the block
  std::vector<Piece> pieces_;
};

namespace {

constexpr std::size_t kFewestBuffers = 2;  // one is filled while the other is written

}  // namespace

StagingQueue::StagingQueue(DirectFile& file, std::size_t memory)
    : file_(file),
      buffer_bytes_(StagingBuffer::size_for(memory)),
      most_buffers_(std::max(kFewestBuffers, memory / buffer_bytes_)) {
  // A signal is for the threads of the model: the new one inherits that all are blocked. That holds
  // SIGXFSZ back as well, so that a write beyond the limit is an error here and no death.
  const core::SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw core::io_error("cannot start the thread that writes tensors: " + error.code().message(),
                         "raise the limit on processes (ulimit -u)");
  }
}

StagingQueue::~StagingQueue() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  thread_.join();
}

void StagingQueue::put(std::uint64_t offset, const core::ContentBytes& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    BufferPtr buffer = open_buffer();
    done += buffer->take(offset, bytes, done);
    hand_over(std::move(buffer));
  }
}

StagingQueue::BufferPtr StagingQueue::open_buffer() {
  std::unique_lock lock(mutex_);
  if (failure_) throw core::Error(*failure_);
  if (begun_) return std::move(begun_);
  if (free_.empty() && buffers_ < most_buffers_) {
    lock.unlock();
    auto fresh = std::make_unique<StagingBuffer>(buffer_bytes_);
    ++buffers_;
    return fresh;
  }
  progress_.wait(lock, [this] { return !free_.empty(); });
  BufferPtr buffer = std::move(free_.back());
  free_.pop_back();
  if (failure_) throw core::Error(*failure_);
  return buffer;
}

void StagingQueue::hand_over(BufferPtr buffer) {
  {
    const std::scoped_lock lock(mutex_);
    if (buffer->full()) {
      full_.push_back(std::move(buffer));
    } else {
      begun_ = std::move(buffer);
    }
  }
  work_.notify_one();
}

void StagingQueue::drain() {
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [this] { return full_.empty() && !begun_ && !writing_; });
  if (failure_) throw core::Error(*failure_);
}

void StagingQueue::check() {
  if (!failed_) return;
  const std::scoped_lock lock(mutex_);
  throw core::Error(*failure_);
}

void StagingQueue::run() noexcept {
  while (BufferPtr buffer = next_full()) {
    if (!failed_) write(*buffer);
    buffer->clear();
    {
      const std::scoped_lock lock(mutex_);
      free_.push_back(std::move(buffer));
      writing_ = false;
    }
    progress_.notify_all();
  }
}

/// Empty when there is nothing more to come.
StagingQueue::BufferPtr StagingQueue::next_full() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [this] { return stop_ || begun_ || !full_.empty(); });
  BufferPtr next;
  if (!full_.empty()) {
    next = std::move(full_.front());
    full_.pop_front();
  } else {
    next = std::move(begun_);
  }
  writing_ = next != nullptr;
  return next;
}

/// After a failure nothing more is written: what follows would only hide where it happened.
void StagingQueue::write(const StagingBuffer& buffer) noexcept {
  try {
    buffer.write_to(file_);
  } catch (const core::Error& error) {
    const std::scoped_lock lock(mutex_);
    failure_ = error;
    failed_ = true;
  }
}

namespace {

void check_size(const core::ContentKey& key, std::size_t bytes) {
  const auto elements = static_cast<std::uint64_t>(core::element_count(key.shape));
  const std::size_t element = core::element_size(key.dtype);
  if (element != 0 && elements == bytes / element && bytes % element == 0) return;
  throw core::internal_error(
      fmt::format("content {} was handed {} bytes", core::content_name(key), bytes));
}

}  // namespace

ContentWriter::ContentWriter(std::filesystem::path trace,
                             const ContentDatasets& datasets,
                             journal::JournalWriter& journal,
                             std::size_t memory)
    : trace_(std::move(trace)), datasets_(datasets), journal_(journal), memory_(memory) {}

void ContentWriter::put(const core::ContentKey& key, const core::ContentBytes& bytes) {
  check();
  if (known_.contains(key)) return;
  check_size(key, bytes.size());
  const bool small = bytes.size() <= journal::kSmallContent;
  std::uint64_t offset = 0;
  if (small) {
    small_.resize(bytes.size());
    if (!small_.empty()) bytes.read(0, small_);
  } else {
    offset = stage(key, bytes);
  }
  core::ContentKey read = core::key_of_read(key, bytes);
  if (!small && read.digest != key.digest) relabel(key, read);
  if (known_.contains(read)) return;
  if (small) {
    journal_.content(read, small_);
  } else {
    journal_.content(read, journal::ContentPlace::kTrace, offset);
  }
  known_.insert(std::move(read));
  stored_bytes += bytes.size();
}

void ContentWriter::note_slice(const core::ContentKey& key, const core::ContentSlice& slice) {
  if (slices.try_emplace(key, slice).second) journal_.sliced({key, slice});
}

void ContentWriter::refer(const core::ContentKey& key) {
  if (known_.contains(key)) return;
  journal_.content(key, journal::ContentPlace::kReference, 0);
  known_.insert(key);
  referred.insert(key);
  referred_bytes += core::content_size(key);
}

std::uint64_t ContentWriter::stage(const core::ContentKey& key, const core::ContentBytes& bytes) {
  if (!file_) file_.emplace(trace_);
  if (!queue_) queue_.emplace(*file_, memory_);
  const std::uint64_t offset = datasets_.allocate(key);
  queue_->put(offset, bytes);
  return offset;
}

void ContentWriter::relabel(const core::ContentKey& key, const core::ContentKey& read) {
  if (!known_.contains(read)) return datasets_.rename(key, read);
  queue_->drain();  // HDF5 may give the room to the next dataset
  datasets_.remove(key);
}

void ContentWriter::check() {
  if (queue_) queue_->check();
}

void ContentWriter::drain() {
  if (queue_) queue_->drain();
}

}  // namespace repro_check::store
