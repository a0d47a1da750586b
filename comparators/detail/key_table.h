// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/op_record.h"

namespace repro_check::comparators::detail {

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
    for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at] == kFree) return slots_[at] = ids;
      if (same(slots_[at])) return slots_[at];
    }
  }

 private:
  static constexpr std::uint32_t kFree = UINT32_MAX;
  static constexpr std::size_t kFewest = 1024;  ///< a power of 2, as every size is

  template <typename HashOf>
  void grow(std::uint32_t ids, const HashOf& hash_of) {
    slots_.assign(slots_.empty() ? kFewest : slots_.size() * 2, kFree);
    for (std::uint32_t id = 0; id < ids; ++id) {
      std::size_t at = hash_of(id) & (slots_.size() - 1);
      while (slots_[at] != kFree) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = id;
    }
  }

  std::vector<std::uint32_t> slots_;
};

/// Numbers for what aligns records, the same for both sides of a comparison.
class KeyTable {
 public:
  /// Of rank, lane, step, phase, depth, and the two texts.
  std::uint32_t intern(const core::OpRecord& head, std::uint32_t module, std::uint32_t op);

  std::uint32_t text_id(std::string_view text);

 private:
  using Key = std::array<std::uint32_t, 7>;

  [[nodiscard]] std::string_view text(std::uint32_t id) const noexcept {
    return std::string_view(text_bytes_)
        .substr(text_begins_[id], text_begins_[id + 1] - text_begins_[id]);
  }
  static std::size_t hash(const Key& key) noexcept;

  std::string text_bytes_;
  std::vector<std::uint64_t> text_begins_{0};  ///< one more than there are texts
  IdSlots text_slots_;
  std::vector<Key> keys_;
  IdSlots key_slots_;
};

}  // namespace repro_check::comparators::detail
