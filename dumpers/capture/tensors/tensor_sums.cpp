// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/tensor_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "core/tensor/dtype.h"
#include "core/tensor/stats_block.h"
#include "core/trace/program_records.h"
#include "dumpers/capture/tensors/strided_bytes.h"
#include "dumpers/capture/tensors/tensor_recorder.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

constexpr std::size_t kRow = core::kSketchSums;
static_assert(kRow == core::detail::kRowElements);
/// What is widened at a time stays in the processor's first cache.
constexpr std::size_t kBlockRows = 16;
/// Elements that one thread sums at a time; sums of pieces are added in order.
constexpr std::size_t kPiece = std::size_t{1} << 16U;
/// Not worth waking other threads for.
constexpr std::size_t kFewPieces = 4;
using Sums = std::array<double, kRow>;

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
      const Loops& loops, const float* rows, std::size_t count, std::uint64_t, Sums& sums) {
    loops.add_squares(rows, count, sums.data());
  }
  static void add(const Loops&, const double* rows, std::size_t count, std::uint64_t, Sums& sums) {
    for (std::size_t i = 0; i < count * kRow; ++i) sums[i % kRow] += rows[i] * rows[i];
  }
};

struct Signed {
  static void add(
      const Loops& loops, const float* rows, std::size_t count, std::uint64_t first, Sums& sums) {
    std::array<double, kBlockRows> signs;
    for (std::size_t row = 0; row < count; ++row) signs[row] = sign_of(first + row);
    loops.add_signed(rows, signs.data(), count, sums.data());
  }
  static void add(
      const Loops&, const double* rows, std::size_t count, std::uint64_t first, Sums& sums) {
    for (std::size_t i = 0; i < count * kRow; ++i) {
      sums[i % kRow] += sign_of(first + i / kRow) * rows[i];
    }
  }
};

/// Widened exactly, block by block. Elements that the last row has not got are 0, which changes no
/// sum.
/// @tparam Number  that holds each element: float or double
template <typename Rule, typename Number, typename Raw, typename Widen>
void add_elements(std::span<const Raw> elements, std::uint64_t row, Widen widen, Sums& sums) {
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
Sums sums_of(const Piece& piece) {
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
  Sums sums{};
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
Sums sums_of(const Piece& piece) {
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
std::optional<Sums> sums_over(std::span<const at::Tensor> tensors) {
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
    const std::size_t count = content->bytes.count();
    contents.push_back(*std::move(content));
    for (std::size_t begin = 0; begin < count; begin += kPiece) {
      const std::size_t size = std::min(kPiece, count - begin);
      pieces.push_back({&contents.back(), dtype, begin, size, row});
      row += (size + kRow - 1) / kRow;
    }
  }
  if (contents.empty()) return std::nullopt;
  std::vector<Sums> sums(pieces.size());
  share_out(pieces.size(), pieces.size() > kFewPieces, [&](std::size_t i) {
    sums[i] = sums_of<Rule>(pieces[i]);
  });
  Sums total{};
  for (const Sums& piece : sums) {
    for (std::size_t i = 0; i < kRow; ++i) total[i] += piece[i];
  }
  return total;
}

}  // namespace

std::optional<double> l2_norm(std::span<const at::Tensor> tensors) {
  const std::optional<Sums> squares = sums_over<Squares>(tensors);
  if (!squares) return std::nullopt;
  double sum = 0;
  for (const double part : *squares) sum += part;
  return std::sqrt(sum);
}

std::optional<std::vector<double>> sketch(std::span<const at::Tensor> tensors) {
  const std::optional<Sums> sums = sums_over<Signed>(tensors);
  if (!sums) return std::nullopt;
  return std::vector<double>(sums->begin(), sums->end());
}

}  // namespace repro_check::capture
