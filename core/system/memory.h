// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

namespace repro_check::core {

/// Memory to read files into, kept between reads. It begins at a page, as what is large in a file
/// does: the kernel of some processors copies four times slower between places that lie differently
/// within a cache line, and what malloc() returns for large blocks lies 16 bytes into one.
class AlignedBuffer {
 public:
  /// Room for `size` bytes, whose content is unspecified; valid until more is asked for.
  std::span<std::byte> room(std::size_t size) {
    if (size > size_) enlarge(size);
    return {memory_.get(), size};
  }

 private:
  static constexpr std::size_t kPage = 4096;

  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };

  void enlarge(std::size_t size) {
    const std::size_t whole = (size + kPage - 1) / kPage * kPage;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, whole)));
    size_ = memory_ ? whole : 0;
    if (!memory_) throw std::bad_alloc();
  }

  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

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
/// pages of a file: whoever looks up elements at random has to ask for it now and then.
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

  explicit LargeVector(std::size_t count, const T& value = T()) { assign(count, value); }

  /// Piece by piece, so that not all of it is resident at once.
  void assign(std::size_t count, const T& value) {
    constexpr std::size_t kPiece = std::size_t{1} << 20U;
    Base::clear();
    Base::reserve(count);
    while (Base::size() < count) {
      Base::resize(std::min(count, Base::size() + kPiece), value);
      relieve_large_memory();
    }
  }
  void push_back(const T& value) {
    count_look_up();
    Base::push_back(value);
  }
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

/// Slots of ids 0, 1, 2, ... by the hash of what they stand for, which lies elsewhere. A node a
/// thing, as std::unordered_map has it, would take ten times the memory, and a trace may hold a
/// million things of its own.
class IdSlots {
 public:
  /// @param same     whether an id stands for what is looked for
  /// @param hash_of  the hash of what an id stands for
  /// @return its id; `ids` where there is none yet, and from now on that is one
  template <typename Same, typename HashOf>
  std::uint32_t find_or_add(std::size_t hash,
                            std::uint32_t ids,
                            const Same& same,
                            const HashOf& hash_of) {
    if ((std::size_t{ids} + 1) * 4 > slots_.size() * 3) grow(ids, hash_of);
    std::uint32_t& slot = slots_[place_of(hash, same)];
    if (slot == kFree) slot = ids;
    return slot;
  }

  template <typename Same>
  [[nodiscard]] std::optional<std::uint32_t> find(std::size_t hash, const Same& same) const {
    if (slots_.empty()) return std::nullopt;
    const std::uint32_t id = slots_[place_of(hash, same)];
    return id == kFree ? std::nullopt : std::optional(id);
  }

 private:
  static constexpr std::uint32_t kFree = UINT32_MAX;
  static constexpr std::size_t kFewest = 1024;  ///< a power of 2, as every size is

  /// Of the id that `same` knows, or the free slot where it belongs.
  template <typename Same>
  [[nodiscard]] std::size_t place_of(std::size_t hash, const Same& same) const {
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at] != kFree && !same(slots_[at])) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  template <typename HashOf>
  void grow(std::uint32_t ids, const HashOf& hash_of) {
    slots_.assign(slots_.empty() ? kFewest : slots_.size() * 2, kFree);
    for (std::uint32_t id = 0; id < ids; ++id) {
      slots_[place_of(hash_of(id), [](std::uint32_t) { return false; })] = id;
    }
  }

  LargeVector<std::uint32_t> slots_;
};

/// Distinct keys, numbered from 0 on as they are met. A dump may hold a million of its own.
/// @tparam Hash  gives a std::size_t for a key
template <typename Key, typename Hash>
class Numbering {
 public:
  /// A new one, which is size() before, where there is none yet.
  std::uint32_t number_of(const Key& key) {
    const std::uint32_t known = size();
    const std::uint32_t number = slots_.find_or_add(
        Hash()(key), known, is(key), [&](std::uint32_t other) { return Hash()(keys_[other]); });
    if (number == known) keys_.push_back(key);
    return number;
  }

  [[nodiscard]] std::optional<std::uint32_t> find(const Key& key) const {
    return slots_.find(Hash()(key), is(key));
  }

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(keys_.size()); }

 private:
  [[nodiscard]] auto is(const Key& key) const {
    return [this, &key](std::uint32_t other) { return keys_[other] == key; };
  }

  IdSlots slots_;
  LargeVector<Key> keys_;
};

}  // namespace repro_check::core
