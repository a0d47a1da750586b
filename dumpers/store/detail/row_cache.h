// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace repro_check::store {

/// What was made of rows of a table, handed out again: direct-mapped, so that a dump in which every
/// operator has a place of its own takes no more memory than another.
template <typename Object>
class RowCache {
 public:
  explicit RowCache(std::uint64_t rows)
      : slots_(std::bit_ceil(
            static_cast<std::size_t>(std::clamp<std::uint64_t>(rows, 1, kMostSlots)))) {}

  /// @return the place for the object of `row`: null until it is set, and after another row took it
  std::shared_ptr<const Object>& at(std::uint32_t row) {
    Slot& slot = slots_[row & (slots_.size() - 1)];
    if (slot.row != row) {
      slot.object.reset();
      slot.row = row;
    }
    return slot.object;
  }

 private:
  static constexpr std::uint64_t kMostSlots = 65'536;

  struct Slot {
    std::uint32_t row = 0;
    std::shared_ptr<const Object> object;
  };

  std::vector<Slot> slots_;
};

}  // namespace repro_check::store
