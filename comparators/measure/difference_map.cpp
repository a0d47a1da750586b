// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/difference_map.h"

#include <algorithm>
#include <cstring>

namespace repro_check::comparators::detail {
namespace {

/// Adds what differs in one row of elements to the blocks of that row.
void add_row(std::span<const std::byte> baseline,
             std::span<const std::byte> candidate,
             std::size_t element_size,
             std::uint64_t columns,
             std::span<std::uint64_t> blocks) {
  if (std::memcmp(baseline.data(), candidate.data(), baseline.size()) == 0) return;
  for (std::uint64_t column = 0; column < columns; ++column) {
    const std::size_t at = column * element_size;
    if (std::memcmp(&baseline[at], &candidate[at], element_size) == 0) continue;
    ++blocks[column * blocks.size() / columns];
  }
}

}  // namespace

DifferenceMap map_differences(std::span<const std::int64_t> shape,
                              std::size_t element_size,
                              std::span<const std::byte> baseline,
                              std::span<const std::byte> candidate) {
  DifferenceMap map;
  map.columns = shape.empty() ? 1 : static_cast<std::uint64_t>(shape.back());
  map.rows = shape.size() < 2 ? 1 : static_cast<std::uint64_t>(shape[shape.size() - 2]);
  map.row_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(map.rows, kMapBlocks));
  map.column_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(map.columns, kMapBlocks));
  map.differing.assign(std::size_t{map.row_blocks} * map.column_blocks, 0);
  const std::size_t stride = map.columns * element_size;
  map.leading = baseline.size() / stride / map.rows;
  const std::span<std::uint64_t> all(map.differing);
  for (std::uint64_t line = 0; line < map.leading * map.rows; ++line) {
    const std::uint64_t block = line % map.rows * map.row_blocks / map.rows;
    add_row(baseline.subspan(line * stride, stride),
            candidate.subspan(line * stride, stride),
            element_size,
            map.columns,
            all.subspan(block * map.column_blocks, map.column_blocks));
  }
  return map;
}

}  // namespace repro_check::comparators::detail
