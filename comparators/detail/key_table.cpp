// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/key_table.h"

#include <functional>

namespace repro_check::comparators::detail {

std::size_t KeyTable::hash(const Key& key) noexcept {
  constexpr std::size_t kMultiplier = 0x9E37'79B9'7F4A'7C15;
  std::size_t hash = 0;
  for (const std::uint32_t part : key) hash = (hash ^ part) * kMultiplier + (hash >> 29U);
  return hash ^ (hash >> 32U);
}

std::uint32_t KeyTable::intern(const core::OpRecord& head, std::uint32_t module, std::uint32_t op) {
  const Key key{head.rank,
                head.lane,
                head.step,
                static_cast<std::uint32_t>(head.phase),
                head.depth,
                module,
                op};
  const auto known = static_cast<std::uint32_t>(keys_.size());
  const std::uint32_t id = key_slots_.find_or_add(
      hash(key),
      known,
      [&](std::uint32_t other) { return keys_[other] == key; },
      [&](std::uint32_t other) { return hash(keys_[other]); });
  if (id == known) keys_.push_back(key);
  return id;
}

std::uint32_t KeyTable::text_id(std::string_view text) {
  const std::hash<std::string_view> hash_of;
  const auto known = static_cast<std::uint32_t>(text_begins_.size() - 1);
  const std::uint32_t id = text_slots_.find_or_add(
      hash_of(text),
      known,
      [&](std::uint32_t other) { return this->text(other) == text; },
      [&](std::uint32_t other) { return hash_of(this->text(other)); });
  if (id == known) {
    text_bytes_.insert(text_bytes_.end(), text.begin(), text.end());
    text_begins_.push_back(text_bytes_.size());
  }
  return id;
}

}  // namespace repro_check::comparators::detail
