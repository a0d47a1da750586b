// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/tensor/element_number.h"

namespace repro_check::comparators {
namespace {

using core::Dtype;

std::uint64_t bits_of(std::span<const std::byte> element) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element.data(), std::min(element.size(), sizeof bits));
  return bits;
}

std::string complex_text(Dtype dtype, std::span<const std::byte> element) {
  const std::size_t half = element.size() / 2;
  const std::string re = core::number_text(core::part_dtype(dtype), element.first(half));
  const std::string im = core::number_text(core::part_dtype(dtype), element.last(half));
  return fmt::format("({}{}{}j)", re, im.starts_with('-') ? "" : "+", im);
}

std::optional<std::uint64_t> sample_ulp(Dtype dtype,
                                        std::span<const std::byte> baseline,
                                        std::span<const std::byte> candidate) {
  if (core::is_complex(dtype)) {
    const std::size_t half = baseline.size() / 2;
    const Dtype part = core::part_dtype(dtype);
    const auto re =
        core::ulp_distance(part, bits_of(baseline.first(half)), bits_of(candidate.first(half)));
    const auto im =
        core::ulp_distance(part, bits_of(baseline.last(half)), bits_of(candidate.last(half)));
    if (!re || !im) return std::nullopt;
    return std::max(*re, *im);
  }
  if (!core::is_floating(dtype) || dtype == Dtype::kFloat4E2M1FNX2) return std::nullopt;
  return core::ulp_distance(dtype, bits_of(baseline), bits_of(candidate));
}

}  // namespace

std::string element_text(Dtype dtype, std::span<const std::byte> element) {
  const std::uint64_t bits = bits_of(element);
  if (dtype == Dtype::kBool && bits <= 1) return bits == 1 ? "True" : "False";
  if (dtype == Dtype::kFloat4E2M1FNX2) return "0x" + core::hex_text(element);
  return core::is_complex(dtype) ? complex_text(dtype, element) : core::number_text(dtype, element);
}

void add_differences(core::TensorView baseline,
                     core::TensorView candidate,
                     std::uint64_t first,
                     std::size_t limit,
                     std::vector<Sample>& samples,
                     const WantedElement& wanted) {
  const std::size_t size = core::element_size(baseline.dtype);
  if (size == 0 || baseline.bytes.size() != candidate.bytes.size()) return;
  std::size_t at = 0;
  while (samples.size() < limit && at < baseline.bytes.size()) {
    const auto [here, there] =
        std::mismatch(baseline.bytes.begin() + static_cast<std::ptrdiff_t>(at),
                      baseline.bytes.end(),
                      candidate.bytes.begin() + static_cast<std::ptrdiff_t>(at));
    if (here == baseline.bytes.end()) break;
    const auto element = static_cast<std::size_t>(here - baseline.bytes.begin()) / size;
    const auto from = baseline.bytes.subspan(element * size, size);
    const auto to = candidate.bytes.subspan(element * size, size);
    at = (element + 1) * size;
    if (wanted && !wanted(from.data(), to.data())) continue;
    samples.push_back({first + element,
                       core::unravel(first + element, baseline.shape),
                       element_text(baseline.dtype, from),
                       element_text(baseline.dtype, to),
                       core::hex_text(from),
                       core::hex_text(to),
                       sample_ulp(baseline.dtype, from, to)});
  }
}

std::vector<Sample> first_differences(core::TensorView baseline,
                                      core::TensorView candidate,
                                      std::size_t limit) {
  std::vector<Sample> samples;
  add_differences(baseline, candidate, 0, limit, samples);
  return samples;
}

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

}  // namespace repro_check::comparators
