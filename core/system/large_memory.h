// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace repro_check::core {

/// Memory for what grows with the number of records of a dump. As long as all of it together is
/// small it is ordinary memory. Beyond that, what is asked for lies in temporary files without a
/// name, in the directory for those (TMPDIR), and what is not in use of it is handed back to the
/// system: a process stays small however long its arrays are. Where no such file can be made, or
/// the disk is full, it is ordinary memory all the same; and where TMPDIR is a tmpfs, the pages
/// stay in memory, though not in the process. Safe to call from any thread.
/// @throws std::bad_alloc
void* allocate_large(std::size_t bytes);
/// @param at     from allocate_large(bytes)
void release_large(void* at, std::size_t bytes) noexcept;

/// Below this an allocation is always ordinary memory and is not counted.
inline constexpr std::size_t kLeastLarge = std::size_t{256} << 10U;
/// Ordinary memory that all large allocations together may take.
inline constexpr std::size_t kMostLargeInMemory = std::size_t{80} << 20U;
/// That, and what may be resident of the files.
inline constexpr std::size_t kMostLargeResident = std::size_t{144} << 20U;

/// How much of the large allocations lies where.
struct LargeMemoryUse {
  std::size_t in_memory = 0;
  std::size_t in_files = 0;
};
LargeMemoryUse large_memory_use() noexcept;

/// For tests: another value in the place of kMostLargeInMemory, from the next allocation on.
/// @return the value before
std::size_t limit_large_memory(std::size_t bytes) noexcept;

template <typename T>
class LargeAllocator {
 public:
  using value_type = T;

  LargeAllocator() = default;
  template <typename Other>
  LargeAllocator(const LargeAllocator<Other>& /*other*/) noexcept {}

  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(allocate_large(count * sizeof(T)));
  }
  void deallocate(T* at, std::size_t count) noexcept { release_large(at, count * sizeof(T)); }

  friend bool operator==(const LargeAllocator& /*left*/, const LargeAllocator& /*right*/) noexcept {
    return true;
  }
};

/// Hands back what files have resident, where that has become too much. A fault brings in sixteen
/// pages of a file, so that looking up elements at random fills memory faster than a thread that
/// waits for a processor can hand it back: whoever looks them up has to.
void relieve_large_memory() noexcept;

namespace detail {
inline constexpr unsigned kLookUpsBetween = 256;  ///< 16 MiB of faults; a power of 2
inline thread_local unsigned look_ups = 0;
}  // namespace detail

/// A std::vector for elements that hold no memory of their own.
template <typename T>
class LargeVector : public std::vector<T, LargeAllocator<T>> {
  using Base = std::vector<T, LargeAllocator<T>>;

 public:
  using Base::Base;

  decltype(auto) operator[](std::size_t at) {
    count_look_up();
    return Base::operator[](at);
  }
  decltype(auto) operator[](std::size_t at) const {
    count_look_up();
    return Base::operator[](at);
  }

 private:
  static void count_look_up() noexcept {
    if ((++detail::look_ups & (detail::kLookUpsBetween - 1)) == 0) relieve_large_memory();
  }
};

}  // namespace repro_check::core
