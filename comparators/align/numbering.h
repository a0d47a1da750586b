// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/system/id_slots.h"
#include "core/system/large_memory.h"

namespace repro_check::comparators {

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

  core::IdSlots slots_;
  core::LargeVector<Key> keys_;
};

}  // namespace repro_check::comparators
