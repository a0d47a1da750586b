// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/id_slots.h"
#include "core/large_memory.h"
#include "core/op_record.h"

namespace repro_check::comparators::detail {

/// Numbers for what aligns records, the same for both sides of a comparison.
class KeyTable {
 public:
  /// Of rank, lane, step, phase, depth, and the two texts.
  std::uint32_t intern(const core::OpRecord& head, std::uint32_t module, std::uint32_t op);

  std::uint32_t text_id(std::string_view text);

 private:
  using Key = std::array<std::uint32_t, 7>;

  [[nodiscard]] std::string_view text(std::uint32_t id) const noexcept {
    return {text_bytes_.data() + text_begins_[id], text_begins_[id + 1] - text_begins_[id]};
  }
  static std::size_t hash(const Key& key) noexcept;

  core::LargeVector<char> text_bytes_;
  core::LargeVector<std::uint64_t> text_begins_{0};  ///< one more than there are texts
  core::IdSlots text_slots_;
  core::LargeVector<Key> keys_;
  core::IdSlots key_slots_;
};

}  // namespace repro_check::comparators::detail
