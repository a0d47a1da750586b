// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/row_keys.h"

#include <cstring>
#include <span>

namespace repro_check::comparators {
namespace {

std::uint64_t mixed(std::uint64_t bits) noexcept {
  bits += 0x9E3779B97F4A7C15;
  bits = (bits ^ (bits >> 33)) * 0xFF51AFD7ED558CCD;
  bits = (bits ^ (bits >> 33)) * 0xC4CEB9FE1A85EC53;
  return bits ^ (bits >> 33);
}

template <typename Bits>
std::uint64_t mixed_at(const std::byte* bytes, std::uint64_t element) noexcept {
  Bits bits{};
  std::memcpy(&bits, bytes + (element * sizeof(Bits)), sizeof(Bits));
  return mixed(static_cast<std::uint64_t>(bits));
}

struct Pair {
  std::uint64_t low;
  std::uint64_t high;
};
template <>
std::uint64_t mixed_at<Pair>(const std::byte* bytes, std::uint64_t element) noexcept {
  return mixed(mixed_at<std::uint64_t>(bytes, 2 * element) +
               (2 * mixed_at<std::uint64_t>(bytes, (2 * element) + 1)));
}

/// Adds each element to the row of every axis that it is in, in one pass.
template <typename Bits>
void add_elements(core::TensorView view, std::vector<Rows>& rows) {
  const std::size_t rank = view.shape.size();
  const auto last = static_cast<std::uint64_t>(view.shape.back());
  const std::uint64_t lines = rows.back().axis == kLeadingAxes
                                  ? rows.back().keys.size()
                                  : view.bytes.size() / sizeof(Bits) / last;
  std::vector<std::size_t> at(rank - 1);
  std::uint64_t* const columns = rows[rank - 1].keys.data();
  for (std::uint64_t line = 0; line < lines; ++line) {
    std::uint64_t sum = 0;
    const std::byte* bytes = view.bytes.data() + (line * last * sizeof(Bits));
    for (std::uint64_t j = 0; j < last; ++j) {
      const std::uint64_t one = mixed_at<Bits>(bytes, j);
      columns[j] += one;
      sum += one;
    }
    for (std::size_t axis = 0; axis + 1 < rank; ++axis) rows[axis].keys[at[axis]] += sum;
    if (rank > 2) rows[rank].keys[line] = sum;
    for (std::size_t axis = rank - 1; axis-- > 0;) {
      if (++at[axis] < static_cast<std::size_t>(view.shape[axis])) break;
      at[axis] = 0;
    }
  }
  // A row of one value has as its key the value's mix, as often as the row is wide.
  for (Rows& each : rows) {
    std::uint64_t stride = each.axis == kLeadingAxes ? last : 1;
    for (std::size_t axis = each.axis + 1; each.axis != kLeadingAxes && axis < rank; ++axis) {
      stride *= static_cast<std::uint64_t>(view.shape[axis]);
    }
    each.constant.resize(each.keys.size());
    for (std::size_t row = 0; row < each.keys.size(); ++row) {
      each.constant[row] =
          each.width > 1 &&
          each.keys[row] == each.width * mixed_at<Bits>(view.bytes.data(), row * stride);
    }
  }
}

}  // namespace

std::uint64_t row_count(const std::vector<std::int64_t>& shape, std::size_t axis) {
  if (axis != kLeadingAxes) return static_cast<std::uint64_t>(shape[axis]);
  return static_cast<std::uint64_t>(core::element_count(std::span(shape).first(shape.size() - 1)));
}

std::vector<Rows> rows_of(core::TensorView view) {
  const auto elements = static_cast<std::uint64_t>(core::element_count(view.shape));
  if (view.shape.empty() || elements == 0) return {};
  const std::vector<std::int64_t> shape(view.shape.begin(), view.shape.end());
  std::vector<Rows> rows;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::uint64_t count = row_count(shape, axis);
    rows.push_back({axis, elements / count, std::vector<std::uint64_t>(count), {}});
  }
  if (shape.size() > 2) {
    const std::uint64_t count = row_count(shape, kLeadingAxes);
    rows.push_back({kLeadingAxes, elements / count, std::vector<std::uint64_t>(count), {}});
  }
  switch (core::element_size(view.dtype)) {
    case 1:
      add_elements<std::uint8_t>(view, rows);
      break;
    case 2:
      add_elements<std::uint16_t>(view, rows);
      break;
    case 4:
      add_elements<std::uint32_t>(view, rows);
      break;
    case 8:
      add_elements<std::uint64_t>(view, rows);
      break;
    default:
      add_elements<Pair>(view, rows);
  }
  return rows;
}

}  // namespace repro_check::comparators
