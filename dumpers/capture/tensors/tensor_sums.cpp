// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/tensor_sums.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/tensor/dtype.h"
#include "core/trace/program_records.h"
#include "dumpers/capture/tensors/tensor_recorder.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

constexpr std::size_t kRow = core::kSketchSums;
/// Elements that one thread sums at a time; sums of pieces are added in order.
constexpr std::size_t kPiece = std::size_t{1} << 16U;
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

struct Squares {
  static void add(const double* values, std::size_t count, std::uint64_t /*row*/, Sums& sums) {
    for (std::size_t i = 0; i < count; ++i) sums[i] += values[i] * values[i];
  }
};

struct Signed {
  static void add(const double* values, std::size_t count, std::uint64_t row, Sums& sums) {
    const double sign = sign_of(row);
    for (std::size_t i = 0; i < count; ++i) sums[i] += sign * values[i];
  }
};

/// Row by row, widened exactly.
template <typename Rule, typename Raw, typename Widen>
void add_rows(std::span<const std::byte> bytes, std::uint64_t row, Widen widen, Sums& sums) {
  std::array<Raw, kRow> raws;
  Sums values;
  for (; bytes.size() >= sizeof raws; bytes = bytes.subspan(sizeof raws), ++row) {
    std::memcpy(raws.data(), bytes.data(), sizeof raws);
    for (std::size_t i = 0; i < kRow; ++i) values[i] = widen(raws[i]);
    Rule::add(values.data(), kRow, row, sums);
  }
  const std::size_t rest = bytes.size() / sizeof(Raw);
  if (rest == 0) return;
  std::memcpy(raws.data(), bytes.data(), rest * sizeof(Raw));
  for (std::size_t i = 0; i < rest; ++i) values[i] = widen(raws[i]);
  Rule::add(values.data(), rest, row, sums);
}

template <typename Rule>
Sums sums_of(const Piece& piece) {
  const StridedBytes& content = piece.content->bytes;
  const std::size_t size = content.element_size();
  std::vector<std::byte> buffer;
  std::span<const std::byte> bytes;
  if (content.contiguous()) {
    bytes = content.bytes().subspan(piece.begin * size, piece.count * size);
  } else {
    buffer.resize(piece.count * size);
    content.copy(piece.begin, buffer);
    bytes = buffer;
  }
  Sums sums{};
  const auto widened = [](auto raw) { return static_cast<double>(raw); };
  switch (piece.dtype) {
    case core::Dtype::kFloat64:
      add_rows<Rule, double>(bytes, piece.row, widened, sums);
      break;
    case core::Dtype::kFloat32:
      add_rows<Rule, float>(bytes, piece.row, widened, sums);
      break;
    case core::Dtype::kFloat16:
      add_rows<Rule, std::uint16_t>(
          bytes,
          piece.row,
          [](std::uint16_t raw) { return static_cast<double>(core::half_to_float(raw)); },
          sums);
      break;
    default:
      add_rows<Rule, std::uint16_t>(
          bytes,
          piece.row,
          [](std::uint16_t raw) { return static_cast<double>(core::bfloat_to_float(raw)); },
          sums);
      break;
  }
  return sums;
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
  at::parallel_for(
      0, static_cast<std::int64_t>(pieces.size()), 4, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
          sums[i] = sums_of<Rule>(pieces[i]);
        }
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
