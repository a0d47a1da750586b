// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "comparators/align/piece_vector.h"
#include "core/system/id_slots.h"

namespace repro_check::comparators::detail {

/// Something a storage of one run. An operator may have a storage of its own, so that a trace of a
/// million operators has a million of these.
template <typename Value>
class StorageTable {
 public:
  /// Made where there is none yet.
  Value& operator[](std::int64_t storage) {
    const auto known = static_cast<std::uint32_t>(entries_.size());
    const std::uint32_t id = slots_.find_or_add(
        hash(storage),
        known,
        [&](std::uint32_t other) { return entries_[other].storage == storage; },
        [&](std::uint32_t other) { return hash(entries_[other].storage); });
    if (id == known) entries_.push_back({storage, {}});
    return entries_[id].value;
  }

  /// Null where there is none.
  [[nodiscard]] const Value* find(std::int64_t storage) const {
    const auto id = slots_.find(
        hash(storage), [&](std::uint32_t other) { return entries_[other].storage == storage; });
    return id ? &entries_[*id].value : nullptr;
  }

  /// Shows every value, in the order in which they were made.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    entries_.for_each([&](const Entry& entry) { visit(entry.value); });
  }

 private:
  struct Entry {
    std::int64_t storage = 0;
    Value value{};
  };

  /// Storages are mostly numbered as they come, and then each has a slot of its own beside its
  /// neighbour's. Numbers far apart are mixed, so that few fall together.
  static std::size_t hash(std::int64_t storage) noexcept {
    const auto number = static_cast<std::uint64_t>(storage);
    const std::uint64_t mixed = (number >> 24U) * 0x9E37'79B9'7F4A'7C15U;
    return number + (mixed ^ (mixed >> 32U));
  }

  core::IdSlots slots_;
  PieceVector<Entry> entries_;
};

}  // namespace repro_check::comparators::detail
