// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/row_pairs.h"

#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "comparators/relate/row_keys.h"
#include "core/tensor/dtype.h"

namespace repro_check::comparators {
namespace {

/// Of more axes one order alone is tried.
constexpr std::size_t kMostAxes = 6;

}  // namespace

RowPairs::Cut::Cut(std::span<const std::int64_t> shape, RowsFrom from) : first(from.first) {
  std::uint64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto size = static_cast<std::uint64_t>(shape[i]);
    const bool is_row = from.axis == kLeadingAxes ? i + 1 != shape.size() : i == from.axis;
    if (is_row && stride == 0) stride = step;
    if (!is_row && size != 1) {
      sizes.insert(sizes.begin(), size);
      strides.insert(strides.begin(), step);
    }
    step *= size;
  }
}

void RowPairs::Cut::flatten() {
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (strides[i] != strides[i + 1] * sizes[i + 1]) return;
  }
  if (sizes.size() < 2) return;
  const std::uint64_t all =
      std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{1}, std::multiplies<>());
  sizes = {all};
  strides = {strides.back()};
}

RowPairs::RowPairs(Cut a, Cut b, std::uint64_t rows)
    : a_(std::move(a)), b_(std::move(b)), rows_(rows), order_(b_.sizes.size()) {
  std::iota(order_.begin(), order_.end(), 0);
}

std::optional<RowPairs> RowPairs::of_equal(
    core::TensorView a, RowsFrom from_a, core::TensorView b, RowsFrom from_b, std::uint64_t rows) {
  Cut cut_a(a.shape, from_a);
  Cut cut_b(b.shape, from_b);
  if (!std::ranges::is_permutation(cut_a.sizes, cut_b.sizes)) {
    cut_a.flatten();
    cut_b.flatten();
    if (cut_a.sizes != cut_b.sizes) return std::nullopt;
  }
  RowPairs pairs(std::move(cut_a), std::move(cut_b), rows);
  const std::size_t size = core::element_size(a.dtype);
  const auto is_equal = [&](std::uint64_t one, std::uint64_t other) {
    return std::memcmp(a.bytes.data() + (one * size), b.bytes.data() + (other * size), size) == 0;
  };
  do {
    bool fits = true;
    for (std::size_t k = 0; k < pairs.order_.size(); ++k) {
      fits = fits && pairs.a_.sizes[pairs.order_[k]] == pairs.b_.sizes[k];
    }
    if (fits && pairs.for_each(is_equal)) return pairs;
  } while (pairs.order_.size() <= kMostAxes && std::ranges::next_permutation(pairs.order_).found);
  return std::nullopt;
}

}  // namespace repro_check::comparators
