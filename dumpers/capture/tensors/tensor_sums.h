// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/trace/program_records.h"

namespace repro_check::capture {

/// Of every 64 elements in a row, each is added to another sum.
using ColumnSums = std::array<double, core::kSketchSums>;

/// Elements of all of some tensors to be added up, in double: the same bits whatever the number of
/// threads, and on a device.
struct SumOrder {
  bool squares = false;  ///< else the elements, all of a row with one sign that is drawn for it
  /// Strided, of float64, float32, float16 or bfloat16; undefined ones count as empty.
  std::vector<at::Tensor> tensors;
  /// To be filled; empty where a tensor is of another kind, or there is none, and while a graph is
  /// captured.
  std::optional<ColumnSums> sums = {};
};

/// Fills all sums. Where tensors lie in host memory they are shared out over LibTorch's own
/// threads, and no operator is called; what lies on a device is added up there, and all orders of
/// one device are waited for together.
void add_up(std::span<SumOrder> orders);

/// L2 norm of the tensors whose squares these are. NaN where an element is.
double norm_of(const ColumnSums& squares);

/// Of one order, on the host.
std::optional<ColumnSums> sums_on_host(const SumOrder& order);

/// Elements that are added up at a time. Sums of pieces are added in order.
inline constexpr std::size_t kSumPiece = std::size_t{1} << 16U;

/// Calls `each` with the first element, the number of elements and the first row of each piece of a
/// tensor of `count` elements.
/// @param row  of the tensor's first element; then of what follows it
template <class Each>
void for_each_piece(std::size_t count, std::uint64_t& row, const Each& each) {
  for (std::size_t begin = 0; begin < count; begin += kSumPiece) {
    const std::size_t size = std::min(kSumPiece, count - begin);
    each(begin, size, row);
    row += (size + core::kSketchSums - 1) / core::kSketchSums;
  }
}

}  // namespace repro_check::capture
