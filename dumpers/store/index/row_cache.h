// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace repro_check::store {

/// What was made of rows of a table, handed out again: direct-mapped and bounded in bytes, so that
/// a dump in which every operator has a place of its own takes no more memory than another.
template <typename Object>
class RowCache {
 public:
  explicit RowCache(std::uint64_t rows)
      : slots_(std::bit_ceil(
            static_cast<std::size_t>(std::clamp<std::uint64_t>(rows, 1, kMostSlots)))) {}

  /// Null where it is not kept, or not any more.
  [[nodiscard]] std::shared_ptr<const Object> find(std::uint32_t row) const {
    const Slot& slot = slots_[row & (slots_.size() - 1)];
    return slot.row == row ? slot.object : nullptr;
  }

  /// @param bytes  that the object takes, about
  void keep(std::uint32_t row, std::shared_ptr<const Object> object, std::size_t bytes) {
    if (bytes > kMostBytes) return;
    if (bytes_ + bytes > kMostBytes) {
      std::ranges::fill(slots_, Slot{});
      bytes_ = 0;
    }
    Slot& slot = slots_[row & (slots_.size() - 1)];
    bytes_ += bytes - slot.bytes;
    slot = {row, bytes, std::move(object)};
  }

 private:
  static constexpr std::uint64_t kMostSlots = 65'536;
  static constexpr std::size_t kMostBytes = std::size_t{8} << 20U;

  struct Slot {
    std::uint32_t row = 0;
    std::size_t bytes = 0;
    std::shared_ptr<const Object> object;
  };

  std::vector<Slot> slots_;
  std::size_t bytes_ = 0;
};

}  // namespace repro_check::store
