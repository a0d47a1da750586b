// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/id_slots.h"
#include "core/large_memory.h"

namespace repro_check::comparators::detail {

/// Something a storage of one run. An operator may have a storage of its own, so that a trace of a
/// million operators has a million of these.
template <typename Value>
class StorageTable {
 public:
  /// Made where there is none yet.
  Value& operator[](std::int64_t storage) {
    const auto known = static_cast<std::uint32_t>(size_);
    const std::uint32_t id = slots_.find_or_add(
        hash(storage),
        known,
        [&](std::uint32_t other) { return entry(other).storage == storage; },
        [&](std::uint32_t other) { return hash(entry(other).storage); });
    if (id == known) add(storage);
    return entry(id).value;
  }

  /// Null where there is none.
  [[nodiscard]] const Value* find(std::int64_t storage) const {
    const auto id = slots_.find(
        hash(storage), [&](std::uint32_t other) { return entry(other).storage == storage; });
    return id ? &entry(*id).value : nullptr;
  }

  /// Shows every value, in the order in which they were made.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& piece : pieces_) {
      for (const Entry& entry : piece) visit(entry.value);
    }
  }

 private:
  struct Entry {
    std::int64_t storage = 0;
    Value value{};
  };
  static constexpr std::size_t kPiece = 32'768;

  [[nodiscard]] Entry& entry(std::uint32_t id) { return pieces_[id / kPiece][id % kPiece]; }
  [[nodiscard]] const Entry& entry(std::uint32_t id) const {
    return pieces_[id / kPiece][id % kPiece];
  }

  void add(std::int64_t storage) {
    if (size_ % kPiece == 0) {
      pieces_.emplace_back();
      // The first is all that most traces have, and then mostly of a few entries.
      if (size_ != 0) pieces_.back().reserve(kPiece);
    }
    pieces_.back().push_back({storage, {}});
    ++size_;
  }

  /// Storages are mostly numbered as they come, and then each has a slot of its own beside its
  /// neighbour's. Numbers far apart are mixed, so that few fall together.
  static std::size_t hash(std::int64_t storage) noexcept {
    const auto number = static_cast<std::uint64_t>(storage);
    const std::uint64_t mixed = (number >> 24U) * 0x9E37'79B9'7F4A'7C15U;
    return number + (mixed ^ (mixed >> 32U));
  }

  core::IdSlots slots_;
  std::vector<core::LargeVector<Entry>> pieces_;  ///< nothing is held twice when it grows
  std::size_t size_ = 0;
};

}  // namespace repro_check::comparators::detail
