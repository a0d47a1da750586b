// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/byte_ranges.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "dumpers/capture/torch/torch_compat.h"

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

namespace {

/// What the arguments after the first are.
enum class Picking : std::uint8_t { kIndices, kMask, kScatter, kIndex };

struct Picker {
  std::string_view base;
  Picking by;
};

constexpr std::array<Picker, 10> kPickers{{{"index_put_", Picking::kIndices},
                                           {"_index_put_impl_", Picking::kIndices},
                                           {"masked_fill_", Picking::kMask},
                                           {"masked_scatter_", Picking::kMask},
                                           {"scatter_", Picking::kScatter},
                                           {"scatter_add_", Picking::kScatter},
                                           {"scatter_reduce_", Picking::kScatter},
                                           {"index_fill_", Picking::kIndex},
                                           {"index_copy_", Picking::kIndex},
                                           {"index_add_", Picking::kIndex}}};

const Picker* find_picker(std::string_view base) {
  const auto* found = std::ranges::find(kPickers, base, &Picker::base);
  return found == kPickers.end() ? nullptr : found;
}

/// A mask of bytes is an old spelling of truths, which not every kernel takes: `index_put_` does,
/// and the `masked_fill_` that it becomes for one value does not.
at::Tensor without_byte_mask(const at::Tensor& index) {
  return index.scalar_type() == at::kByte ? index.to(at::kBool) : index;
}

/// Sets what the operator picks, by doing the same to truths.
void pick(Picking by, const c10::IValue* arguments, at::Tensor& picked) {
  switch (by) {
    case Picking::kIndices: {
      c10::List<c10::optional<at::Tensor>> indices;
      for (const c10::IValue& index : arguments[1].toListRef()) {
        indices.push_back(index.isNone() ? c10::optional<at::Tensor>()
                                         : without_byte_mask(index.toTensor()));
      }
      picked.index_put_(indices, at::ones({}, picked.options()));
      return;
    }
    case Picking::kMask:
      picked.masked_fill_(without_byte_mask(arguments[1].toTensor()), true);
      return;
    case Picking::kScatter:
      picked.scatter_(arguments[1].toInt(), arguments[2].toTensor(), true);
      return;
    case Picking::kIndex:
      picked.index_fill_(arguments[1].toInt(), arguments[2].toTensor(), true);
      return;
  }
}

}  // namespace

bool picks_elements(std::string_view base) { return find_picker(base) != nullptr; }

std::optional<std::vector<ByteRange>> picked_bytes(std::string_view base,
                                                   const c10::IValue* arguments) {
  const Picker* picker = find_picker(base);
  const at::Tensor& self = arguments[0].toTensor();
  if (picker == nullptr || !self.is_contiguous() || self.is_meta()) return std::nullopt;
  const EngineCalls guard;
  const UnheardWarnings quiet;
  at::Tensor picked = at::zeros(self.sizes(), self.options().dtype(at::kBool).requires_grad(false));
  try {
    pick(picker->by, arguments, picked);
  } catch (const c10::Error&) {
    return std::nullopt;  // the operator itself is about to say what is wrong
  }
  picked = picked.cpu();
  const bool* at = picked.data_ptr<bool>();
  const auto width = static_cast<std::size_t>(self.element_size());
  const std::size_t first = extent_of(self).begin;
  std::vector<ByteRange> pieces;
  for (std::int64_t i = 0; i < picked.numel(); ++i) {
    if (!at[i]) continue;
    const std::size_t begin = first + static_cast<std::size_t>(i) * width;
    if (!pieces.empty() && pieces.back().end == begin) {
      pieces.back().end += width;
    } else if (pieces.size() == kMostPieces) {
      return std::nullopt;
    } else {
      pieces.push_back({begin, begin + width});
    }
  }
  return pieces;
}

}  // namespace repro_check::capture
