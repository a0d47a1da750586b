// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/tensor_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <type_traits>

#include "core/tensor/dtype.h"
#include "core/tensor/stats_block.h"
#include "core/trace/program_records.h"
#include "dumpers/capture/tensors/device_memory.h"
#include "dumpers/capture/tensors/device_sums.h"
#include "dumpers/capture/tensors/strided_bytes.h"
#include "dumpers/capture/tensors/tensor_recorder.h"
#include "dumpers/capture/torch/cuda_driver.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

constexpr std::size_t kRow = core::kSketchSums;
static_assert(kRow == core::detail::kRowElements);
/// What is widened at a time stays in the processor's first cache.
constexpr std::size_t kBlockRows = 16;
/// Not worth waking other threads for.
constexpr std::size_t kFewPieces = 4;

/// Elements of one tensor, and where the rows are counted from.
struct Piece {
  const HostContent* content;
  core::Dtype dtype;
  std::size_t begin;
  std::size_t count;
  std::uint64_t row;
};

/// 1 or -1, by a generator whose state is the row's number.
/// Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators" (2014).
double sign_of(std::uint64_t row) {
  std::uint64_t bits = (row + 1) * 0x9E3779B97F4A7C15U;
  bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
  return ((bits ^ (bits >> 31U)) & 1U) != 0 ? -1.0 : 1.0;
}

using Loops = core::detail::StatsLoops;

/// Each rule adds rows of elements to the sums of their columns.
struct Squares {
  static void add(
      const Loops& loops, const float* rows, std::size_t count, std::uint64_t, ColumnSums& sums) {
    loops.add_squares(rows, count, sums.data());
  }
  static void add(
      const Loops&, const double* rows, std::size_t count, std::uint64_t, ColumnSums& sums) {
    for (std::size_t i = 0; i < count * kRow; ++i) sums[i % kRow] += rows[i] * rows[i];
  }
};

struct Signed {
  static void add(const Loops& loops,
                  const float* rows,
                  std::size_t count,
                  std::uint64_t first,
                  ColumnSums& sums) {
    std::array<double, kBlockRows> signs;
    for (std::size_t row = 0; row < count; ++row) signs[row] = sign_of(first + row);
    loops.add_signed(rows, signs.data(), count, sums.data());
  }
  static void add(
      const Loops&, const double* rows, std::size_t count, std::uint64_t first, ColumnSums& sums) {
    for (std::size_t i = 0; i < count * kRow; ++i) {
      sums[i % kRow] += sign_of(first + i / kRow) * rows[i];
    }
  }
};

/// Widened exactly, block by block. Elements that the last row has not got are 0, which changes no
/// sum.
/// @tparam Number  that holds each element: float or double
template <typename Rule, typename Number, typename Raw, typename Widen>
void add_elements(std::span<const Raw> elements, std::uint64_t row, Widen widen, ColumnSums& sums) {
  const Loops& loops = core::detail::fastest_stats_loops();
  std::array<Number, kBlockRows * kRow> block;
  while (!elements.empty()) {
    const std::size_t count = std::min(block.size(), elements.size());
    const std::size_t rows = (count + kRow - 1) / kRow;
    const Number* numbers = block.data();
    if constexpr (std::is_same_v<Raw, Number>) {
      if (count == rows * kRow) numbers = elements.data();
    }
    if (numbers == block.data()) {
      std::ranges::transform(elements.first(count), block.begin(), widen);
      std::fill(block.begin() + count, block.begin() + rows * kRow, Number{0});
    }
    Rule::add(loops, numbers, rows, row, sums);
    elements = elements.subspan(count);
    row += rows;
  }
}

template <typename Rule, typename Raw>
ColumnSums sums_of(const Piece& piece) {
  const StridedBytes& content = piece.content->bytes;
  std::vector<Raw> copied;
  std::span<const Raw> elements;
  if (content.contiguous()) {
    elements = {reinterpret_cast<const Raw*>(content.bytes().data()) + piece.begin, piece.count};
  } else {
    copied.resize(piece.count);
    content.copy(piece.begin, std::as_writable_bytes(std::span(copied)));
    elements = copied;
  }
  ColumnSums sums{};
  if constexpr (std::is_same_v<Raw, std::uint16_t>) {
    const bool half = piece.dtype == core::Dtype::kFloat16;
    add_elements<Rule, float>(
        elements, piece.row, half ? core::half_to_float : core::bfloat_to_float, sums);
  } else {
    add_elements<Rule, Raw>(elements, piece.row, std::identity(), sums);
  }
  return sums;
}

template <typename Rule>
ColumnSums sums_of(const Piece& piece) {
  switch (piece.dtype) {
    case core::Dtype::kFloat64:
      return sums_of<Rule, double>(piece);
    case core::Dtype::kFloat32:
      return sums_of<Rule, float>(piece);
    default:
      return sums_of<Rule, std::uint16_t>(piece);
  }
}

bool is_summed(core::Dtype dtype) {
  return dtype == core::Dtype::kFloat64 || dtype == core::Dtype::kFloat32 ||
         dtype == core::Dtype::kFloat16 || dtype == core::Dtype::kBFloat16;
}

/// Empty where a tensor cannot be read.
template <typename Rule>
std::optional<ColumnSums> sums_over(std::span<const at::Tensor> tensors) {
  std::vector<HostContent> contents;
  contents.reserve(tensors.size());
  std::vector<Piece> pieces;
  std::uint64_t row = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const core::Dtype dtype = dtype_of(tensor.scalar_type());
    if (form_of(tensor) != TensorForm::kStrided || !is_summed(dtype)) return std::nullopt;
    std::optional<HostContent> content = host_content(tensor);
    if (!content) return std::nullopt;
    const HostContent* kept = &contents.emplace_back(*std::move(content));
    for_each_piece(
        kept->bytes.count(), row, [&](std::size_t begin, std::size_t size, std::uint64_t its_row) {
          pieces.push_back({kept, dtype, begin, size, its_row});
        });
  }
  if (contents.empty()) return std::nullopt;
  std::vector<ColumnSums> sums(pieces.size());
  share_out(pieces.size(), pieces.size() > kFewPieces, [&](std::size_t i) {
    sums[i] = sums_of<Rule>(pieces[i]);
  });
  ColumnSums total{};
  for (const ColumnSums& piece : sums) {
    for (std::size_t i = 0; i < kRow; ++i) total[i] += piece[i];
  }
  return total;
}

/// The device on which all of it lies; empty where there is none.
std::optional<c10::Device> device_of(const SumOrder& order) {
  std::optional<c10::Device> device;
  for (const at::Tensor& tensor : order.tensors) {
    if (!tensor.defined() || tensor.numel() == 0) continue;
    if (!lies_on_device(tensor) || !is_summed(dtype_of(tensor.scalar_type())) ||
        device.value_or(tensor.device()) != tensor.device()) {
      return std::nullopt;
    }
    device = tensor.device();
  }
  return device;
}

/// Never destroyed: at the end of a process its device may be gone before it.
DeviceSums& device_sums() {
  static auto* sums = new DeviceSums;
  return *sums;
}

}  // namespace

std::optional<ColumnSums> sums_on_host(const SumOrder& order) {
  return order.squares ? sums_over<Squares>(order.tensors) : sums_over<Signed>(order.tensors);
}

void add_up(std::span<SumOrder> orders) {
  std::map<int, std::vector<SumOrder*>> there;  // by device
  for (SumOrder& order : orders) {
    const auto device = device_of(order);
    if (device && captures_graph(*device)) continue;
    if (device) {
      there[device->index()].push_back(&order);
    } else {
      order.sums = sums_on_host(order);
    }
  }
  for (const auto& [device, its] : there) {
    const auto number = static_cast<c10::DeviceIndex>(device);
    if (device_sums().add_up(c10::Device(c10::kCUDA, number), its)) continue;
    for (SumOrder* order : its) order->sums = sums_on_host(*order);
  }
}

double norm_of(const ColumnSums& squares) {
  double sum = 0;
  for (const double part : squares) sum += part;
  return std::sqrt(sum);
}

}  // namespace repro_check::capture
