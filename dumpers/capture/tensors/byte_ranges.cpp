// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/byte_ranges.h"

#include <algorithm>
#include <utility>

namespace repro_check::capture {
namespace {

struct Dimension {
  std::size_t stride = 0;  ///< in bytes
  std::size_t size = 0;
};

/// Appends, or joins with the last one where they touch or overlap.
void append(std::vector<ByteRange>& ranges, const ByteRange& next) {
  if (!ranges.empty() && next.begin <= ranges.back().end) {
    ranges.back().end = std::max(ranges.back().end, next.end);
  } else {
    ranges.push_back(next);
  }
}

/// The outermost first; without those along which nothing moves.
std::vector<Dimension> dimensions_of(const at::Tensor& tensor) {
  const auto width = static_cast<std::size_t>(tensor.element_size());
  std::vector<Dimension> dimensions;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) == 1 || tensor.stride(d) == 0) continue;
    dimensions.push_back({static_cast<std::size_t>(tensor.stride(d)) * width,
                          static_cast<std::size_t>(tensor.size(d))});
  }
  std::ranges::stable_sort(dimensions, std::ranges::greater{}, &Dimension::stride);
  return dimensions;
}

}  // namespace

ByteRange extent_of(const at::Tensor& tensor) {
  const auto width = static_cast<std::size_t>(tensor.element_size());
  ByteRange range{static_cast<std::size_t>(tensor.storage_offset()) * width, 0};
  range.end = range.begin;
  if (tensor.numel() == 0) return range;
  for (const Dimension& dimension : dimensions_of(tensor)) {
    range.end += (dimension.size - 1) * dimension.stride;
  }
  range.end += width;
  return range;
}

std::optional<std::vector<ByteRange>> pieces_of(const at::Tensor& tensor) {
  std::vector<ByteRange> pieces;
  if (tensor.numel() == 0) return pieces;
  std::vector<Dimension> dimensions = dimensions_of(tensor);
  const auto width = static_cast<std::size_t>(tensor.element_size());
  std::size_t length = width;
  while (!dimensions.empty() && dimensions.back().stride <= length) {
    length += (dimensions.back().size - 1) * dimensions.back().stride;
    dimensions.pop_back();
  }
  std::size_t count = 1;
  for (const Dimension& dimension : dimensions) {
    if (dimension.size > kMostPieces / count) return std::nullopt;
    count *= dimension.size;
  }
  pieces.reserve(count);
  std::vector<std::size_t> index(dimensions.size(), 0);
  std::size_t begin = static_cast<std::size_t>(tensor.storage_offset()) * width;
  for (std::size_t piece = 0; piece < count; ++piece) {
    pieces.push_back({begin, begin + length});
    for (std::size_t d = index.size(); d-- > 0;) {
      begin += dimensions[d].stride;
      if (++index[d] < dimensions[d].size) break;
      begin -= dimensions[d].stride * dimensions[d].size;
      index[d] = 0;
    }
  }
  // Views that overlap themselves are not ascending.
  std::ranges::sort(pieces, {}, &ByteRange::begin);
  std::vector<ByteRange> apart;
  for (const ByteRange& piece : pieces) append(apart, piece);
  return apart;
}

void ByteRanges::add(const std::vector<ByteRange>& pieces) {
  std::vector<ByteRange> merged;
  merged.reserve(ranges_.size() + pieces.size());
  auto known = ranges_.begin();
  for (const ByteRange& piece : pieces) {
    for (; known != ranges_.end() && known->begin < piece.begin; ++known) append(merged, *known);
    append(merged, piece);
  }
  for (; known != ranges_.end(); ++known) append(merged, *known);
  ranges_ = std::move(merged);
}

bool ByteRanges::contains(const std::vector<ByteRange>& pieces) const {
  auto known = ranges_.begin();
  for (const ByteRange& piece : pieces) {
    known = std::find_if(
        known, ranges_.end(), [&](const ByteRange& range) { return range.end >= piece.end; });
    if (known == ranges_.end() || !known->holds(piece)) return false;
  }
  return true;
}

}  // namespace repro_check::capture
