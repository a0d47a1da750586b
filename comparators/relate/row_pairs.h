// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/tensor/tensor_record.h"

namespace repro_check::comparators {

/// Rows of a tensor: its slices from one index of an axis on.
struct RowsFrom {
  std::size_t axis = 0;  ///< or kLeadingAxes
  std::uint64_t first = 0;
};

/// The elements of rows of two tensors that stand in each other's place.
class RowPairs {
 public:
  /// Of rows that are equal, bit by bit, under some order of their other axes; empty where they are
  /// not. Of more than six axes one order alone is tried.
  /// @param a, b  of one dtype
  static std::optional<RowPairs> of_equal(
      core::TensorView a, RowsFrom from_a, core::TensorView b, RowsFrom from_b, std::uint64_t rows);

  /// Calls see(element of a, element of b), indices in row-major order, until it says false.
  /// @return whether it never did
  template <typename See>
  bool for_each(See see) const;

 private:
  /// A tensor as rows of what remains when one axis is taken out of it.
  struct Cut {
    std::uint64_t first = 0;   ///< row
    std::uint64_t stride = 0;  ///< elements from row to row
    std::vector<std::uint64_t> sizes;
    std::vector<std::uint64_t> strides;

    Cut(std::span<const std::int64_t> shape, RowsFrom from);
    /// Makes all axes one, where they lie in order.
    void flatten();
  };

  RowPairs(Cut a, Cut b, std::uint64_t rows);

  Cut a_;
  Cut b_;
  std::uint64_t rows_;
  std::vector<std::size_t> order_;  ///< by b's other axes, a's
};

template <typename See>
bool RowPairs::for_each(See see) const {
  std::vector<std::uint64_t> at(order_.size());
  for (std::uint64_t row = 0; row < rows_; ++row) {
    std::ranges::fill(at, 0);
    std::uint64_t element_a = (a_.first + row) * a_.stride;
    std::uint64_t element_b = (b_.first + row) * b_.stride;
    for (bool more = true; more;) {
      if (!see(element_a, element_b)) return false;
      more = false;
      for (std::size_t k = at.size(); k-- > 0;) {
        const std::uint64_t step_a = a_.strides[order_[k]];
        if (++at[k] < b_.sizes[k]) {
          element_a += step_a;
          element_b += b_.strides[k];
          more = true;
          break;
        }
        element_a -= step_a * (b_.sizes[k] - 1);
        element_b -= b_.strides[k] * (b_.sizes[k] - 1);
        at[k] = 0;
      }
    }
  }
  return true;
}

}  // namespace repro_check::comparators
