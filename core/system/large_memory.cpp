// SPDX-License-Identifier: Apache-2.0
#include "core/system/large_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "core/system/file_descriptor.h"
#include "core/system/signals_blocked.h"

namespace repro_check::core {
namespace {

/// Of the files, what may be resident however much is in memory because no file could be made.
constexpr std::size_t kLeastResident = std::size_t{32} << 20U;
/// For arrays that are gone through in order, by iterators.
constexpr std::chrono::microseconds kPatience{1000};
/// What is left after handing back are other files, and what other threads brought in meanwhile:
/// of so many readings the lowest is taken.
constexpr unsigned kReadings = 8;

/// LargeMemoryUse::in_files. Apart from LargeMemory, because it is asked for all the time.
std::atomic<std::size_t> in_files{0};

/// Null where there is no room. The space is taken first: where a disk is full, writing to a
/// mapping would be a signal.
void* map_file(std::size_t bytes) {
  // Beyond the limit on the size of files, taking space is a signal too.
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < bytes) return nullptr;
  const TemporaryFile made = open_temporary(temporary_directory());
  const int fd = made.file.get();
  if (fd < 0) return nullptr;
  if (::posix_fallocate(fd, 0, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : at;
}

/// Bytes of files that the page tables of this process hold.
std::optional<std::size_t> resident_of_files(int statm) {
  std::array<char, 128> text{};
  if (::pread(statm, text.data(), text.size() - 1, 0) <= 0) return std::nullopt;
  char* at = text.data();
  std::strtoull(at, &at, 10);  // size
  std::strtoull(at, &at, 10);  // resident
  return std::strtoull(at, &at, 10) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

class LargeMemory {
 public:
  /// Never destroyed: arrays of static objects may outlive it, and the thread looks at it to the
  /// end.
  static LargeMemory& instance() {
    static auto* const memory = new LargeMemory;
    return *memory;
  }

  void* allocate(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (bytes <= limit_ && in_memory_ <= limit_ - bytes) return in_memory(bytes);
    }
    void* at = map_file(bytes);
    const std::lock_guard lock(mutex_);
    if (at == nullptr) return in_memory(bytes);
    hand_back();
    regions_.emplace(at, bytes);
    in_files += bytes;
    watch();
    return at;
  }

  void release(void* at, std::size_t bytes) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (regions_.erase(at) == 0) {
        in_memory_ -= bytes;
      } else {
        in_files -= bytes;
        ::munmap(at, bytes);
        return;
      }
    }
    ::operator delete(at);
  }

  /// Waits for another thread that is at it: whoever looks elements up meanwhile brings pages in
  /// as fast as they are handed back.
  void relieve() noexcept {
    const std::lock_guard lock(mutex_);
    if (!regions_.empty()) hand_back();
  }

  LargeMemoryUse use() noexcept {
    const std::lock_guard lock(mutex_);
    return {in_memory_, in_files};
  }

  std::size_t limit(std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    return std::exchange(limit_, bytes);
  }

 private:
  void* in_memory(std::size_t bytes) {
    void* at = ::operator new(bytes);
    in_memory_ += bytes;
    return at;
  }

  /// Starts the thread that hands pages back, with the first region. It takes no signal: those are
  /// for the threads that wait for them.
  void watch() {
    if (watched_) {
      wake_.notify_one();
      return;
    }
    const SignalsBlocked blocked;
    try {
      std::thread([this] { hand_back_now_and_then(); }).detach();
      watched_ = true;
    } catch (const std::system_error&) {
      // Without it the pages stay until the system wants them.
    }
  }

  void hand_back_now_and_then() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return !regions_.empty(); });
      hand_back();
      wake_.wait_for(lock, kPatience, [] { return false; });
    }
  }

  void hand_back() noexcept {
    if (statm_.get() < 0) statm_ = FileDescriptor(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
    const auto resident = resident_of_files(statm_.get());
    if (!resident) return;
    others_ = std::min(others_, *resident);
    const std::size_t room = kMostLargeResident - std::min(in_memory_, kMostLargeResident);
    if (*resident - others_ <= std::max(room, kLeastResident)) return;
    // The bytes stay in the file, which the system writes to the disk as it likes.
    for (const auto& [at, bytes] : regions_) ::madvise(at, bytes, MADV_DONTNEED);
    lowest_left_ = std::min(lowest_left_, resident_of_files(statm_.get()).value_or(*resident));
    if (++handed_back_ % kReadings != 0) return;
    others_ = std::exchange(lowest_left_, SIZE_MAX);
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<void*, std::size_t> regions_;
  std::size_t limit_ = kMostLargeInMemory;
  std::size_t in_memory_ = 0;  ///< LargeMemoryUse::in_memory
  bool watched_ = false;
  FileDescriptor statm_;
  std::size_t others_ = SIZE_MAX;       ///< resident of other files than the regions
  std::size_t lowest_left_ = SIZE_MAX;  ///< resident after handing back, since others_ was set
  unsigned handed_back_ = 0;
};

}  // namespace

void* allocate_large(std::size_t bytes) {
  if (bytes < kLeastLarge) return ::operator new(bytes);
  return LargeMemory::instance().allocate(bytes);
}

void release_large(void* at, std::size_t bytes) noexcept {
  if (bytes < kLeastLarge) {
    ::operator delete(at);
  } else {
    LargeMemory::instance().release(at, bytes);
  }
}

void relieve_large_memory() noexcept {
  if (in_files.load(std::memory_order_relaxed) != 0) LargeMemory::instance().relieve();
}

LargeMemoryUse large_memory_use() noexcept { return LargeMemory::instance().use(); }

std::size_t limit_large_memory(std::size_t bytes) noexcept {
  return LargeMemory::instance().limit(bytes);
}

}  // namespace repro_check::core
