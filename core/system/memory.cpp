// SPDX-License-Identifier: Apache-2.0
#include "core/system/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "core/system/file_descriptor.h"

namespace repro_check::core {
namespace {

/// Of the files, what may be resident however much is in memory because no file could be made.
constexpr std::size_t kLeastResident = std::size_t{32} << 20U;

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

struct LargeMemory {
  std::mutex mutex;
  std::map<void*, std::size_t> regions;
  std::size_t limit = kMostLargeInMemory;
  std::size_t in_memory = 0;  ///< LargeMemoryUse::in_memory
  FileDescriptor statm;
  std::size_t others = SIZE_MAX;  ///< resident of other files than the regions

  /// Bytes of files that the page tables of this process hold.
  std::optional<std::size_t> resident_of_files() {
    if (statm.get() < 0) statm = FileDescriptor(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
    std::array<char, 128> text{};
    if (::pread(statm.get(), text.data(), text.size() - 1, 0) <= 0) return std::nullopt;
    char* at = text.data();
    std::strtoull(at, &at, 10);  // size
    std::strtoull(at, &at, 10);  // resident
    return std::strtoull(at, &at, 10) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  }

  void hand_back() {
    const auto resident = resident_of_files();
    if (!resident) return;
    others = std::min(others, *resident);
    const std::size_t room = kMostLargeResident - std::min(in_memory, kMostLargeResident);
    if (*resident - others <= std::max(room, kLeastResident)) return;
    // The bytes stay in the file, which the system writes to the disk as it likes.
    for (const auto& [at, bytes] : regions) ::madvise(at, bytes, MADV_DONTNEED);
    others = resident_of_files().value_or(others);
  }
};

/// Never destroyed: arrays of static objects may outlive it.
LargeMemory& large_memory() {
  static auto* const memory = new LargeMemory;
  return *memory;
}

}  // namespace

void* allocate_large(std::size_t bytes) {
  if (bytes < kLeastLarge) return ::operator new(bytes);
  LargeMemory& memory = large_memory();
  const std::lock_guard lock(memory.mutex);
  const bool has_room = bytes <= memory.limit && memory.in_memory <= memory.limit - bytes;
  if (void* at = has_room ? nullptr : map_file(bytes)) {
    memory.hand_back();
    memory.regions.emplace(at, bytes);
    in_files += bytes;
    return at;
  }
  void* at = ::operator new(bytes);
  memory.in_memory += bytes;
  return at;
}

void release_large(void* at, std::size_t bytes) noexcept {
  if (bytes < kLeastLarge) return ::operator delete(at);
  LargeMemory& memory = large_memory();
  const std::lock_guard lock(memory.mutex);
  if (memory.regions.erase(at) != 0) {
    in_files -= bytes;
    ::munmap(at, bytes);
  } else {
    memory.in_memory -= bytes;
    ::operator delete(at);
  }
}

void relieve_large_memory() noexcept {
  if (in_files.load(std::memory_order_relaxed) == 0) return;
  LargeMemory& memory = large_memory();
  const std::lock_guard lock(memory.mutex);
  memory.hand_back();
}

LargeMemoryUse large_memory_use() noexcept {
  const std::lock_guard lock(large_memory().mutex);
  return {large_memory().in_memory, in_files};
}

std::size_t limit_large_memory(std::size_t bytes) noexcept {
  const std::lock_guard lock(large_memory().mutex);
  return std::exchange(large_memory().limit, bytes);
}

}  // namespace repro_check::core
