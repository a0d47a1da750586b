// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <vector>

#include "core/system/large_memory.h"

namespace repro_check::comparators::detail {

/// Grows without holding anything twice, and without moving what it holds.
template <typename T>
class PieceVector {
 public:
  [[nodiscard]] T& operator[](std::size_t at) { return pieces_[at / kPiece][at % kPiece]; }
  [[nodiscard]] const T& operator[](std::size_t at) const {
    return pieces_[at / kPiece][at % kPiece];
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  void push_back(const T& value) {
    if (size_ % kPiece == 0) {
      pieces_.emplace_back();
      // The first is all that most traces have, and then mostly of a few elements.
      if (size_ != 0) pieces_.back().reserve(kPiece);
    }
    pieces_.back().push_back(value);
    ++size_;
  }

  /// Shows every element, in order.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& piece : pieces_) {
      for (const T& value : piece) visit(value);
    }
  }

 private:
  static constexpr std::size_t kPiece = std::bit_floor((std::size_t{1} << 20U) / sizeof(T));
  static_assert(kPiece * sizeof(T) >= core::kLeastLarge);

  std::vector<core::LargeVector<T>> pieces_;
  std::size_t size_ = 0;
};

}  // namespace repro_check::comparators::detail
