// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/system/large_memory.h"

namespace repro_check::core {

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

}  // namespace repro_check::core
