// SPDX-License-Identifier: Apache-2.0
// Compiled with OpenMP: at::parallel_for is a template, and runs on one thread without it.
#include "dumpers/capture/tensors/strided_bytes.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <vector>

#include "core/tensor/tensor_stats.h"

#ifndef _OPENMP
#error "strided_bytes.cpp needs -fopenmp"
#endif

namespace repro_check::capture {

namespace {

/// `count` elements a stride apart. The size is a constant so that each copy is one move.
template <std::size_t kSize>
void gather(const std::byte* from, std::int64_t step, std::size_t count, std::byte* into) {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(into + i * kSize, from, kSize);
    from += step;
  }
}

/// Calls work<size>(), so that what it copies by is a constant. False for no power of two up to 16.
template <typename Work>
bool with_size(std::size_t size, const Work& work) {
  switch (size) {
    case 1:
      return work.template operator()<1>(), true;
    case 2:
      return work.template operator()<2>(), true;
    case 4:
      return work.template operator()<4>(), true;
    case 8:
      return work.template operator()<8>(), true;
    case 16:
      return work.template operator()<16>(), true;
    default:
      return false;
  }
}

void copy_run(const std::byte* from,
              std::int64_t stride,
              std::size_t element_size,
              std::size_t count,
              std::byte* into) {
  if (stride == 1) {
    std::memcpy(into, from, count * element_size);
    return;
  }
  const std::int64_t step = stride * static_cast<std::int64_t>(element_size);
  if (with_size(element_size,
                [&]<std::size_t kSize>() { gather<kSize>(from, step, count, into); })) {
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(into + i * element_size, from, element_size);
    from += step;
  }
}

/// A cache line of elements, and as many lines as a set of the smallest cache holds.
constexpr std::size_t kTileBytes = 64;

/// What a block of a transposed tensor is copied by.
struct Block {
  std::size_t rows;
  std::size_t columns;
  std::int64_t row_step;     ///< in bytes
  std::int64_t column_step;  ///< in bytes
};

/// Copies row by row inside of small tiles: going along whole rows would fetch a cache line for
/// every element, and the same lines again for the next row.
template <std::size_t kSize>
void copy_tiles(const std::byte* from, const Block& block, std::byte* into) {
  constexpr std::size_t kTile = kTileBytes / kSize;
  for (std::size_t row = 0; row < block.rows; row += kTile) {
    const std::size_t row_end = std::min(row + kTile, block.rows);
    for (std::size_t column = 0; column < block.columns; column += kTile) {
      const std::size_t count = std::min(kTile, block.columns - column);
      for (std::size_t r = row; r < row_end; ++r) {
        gather<kSize>(from + static_cast<std::int64_t>(r) * block.row_step +
                          static_cast<std::int64_t>(column) * block.column_step,
                      block.column_step,
                      count,
                      into + (r * block.columns + column) * kSize);
      }
    }
  }
}

bool has_block_size(std::size_t element_size) {
  return element_size <= 16 && (element_size & (element_size - 1)) == 0;
}

}  // namespace

StridedBytes::StridedBytes(const std::byte* first,
                           std::size_t element_size,
                           std::span<const std::int64_t> sizes,
                           std::span<const std::int64_t> strides)
    : first_(first), element_size_(element_size) {
  std::int64_t expected = 1;
  for (std::size_t i = sizes.size(); i > 0; --i) {
    const std::int64_t size = sizes[i - 1];
    count_ *= static_cast<std::size_t>(size);
    if (size == 1) continue;
    contiguous_ = contiguous_ && strides[i - 1] == expected;
    expected *= size;
  }
  if (count_ == 0) contiguous_ = true;
  if (contiguous_) return;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    const auto size = static_cast<std::size_t>(sizes[i]);
    if (!dimensions_.empty() && dimensions_.back().stride == strides[i] * sizes[i]) {
      dimensions_.back() = {dimensions_.back().size * size, strides[i]};
    } else {
      dimensions_.push_back({size, strides[i]});
    }
  }
}

bool StridedBytes::overlapping() const noexcept {
  return std::any_of(dimensions_.begin(), dimensions_.end(), [](const Dimension& dimension) {
    return dimension.stride == 0 && dimension.size > 1;
  });
}

void StridedBytes::copy(std::size_t begin, std::span<std::byte> into) const {
  if (into.empty()) return;  // where there may be no memory to copy from
  if (contiguous_) {
    std::memcpy(into.data(), first_ + begin * element_size_, into.size());
    return;
  }
  std::vector<std::size_t> index(dimensions_.size());
  std::int64_t position = 0;
  std::size_t rest = begin;
  for (std::size_t i = dimensions_.size(); i > 0; --i) {
    const Dimension& dimension = dimensions_[i - 1];
    index[i - 1] = rest % dimension.size;
    rest /= dimension.size;
    position += static_cast<std::int64_t>(index[i - 1]) * dimension.stride;
  }
  const Dimension inner = dimensions_.back();
  const auto element = static_cast<std::int64_t>(element_size_);
  std::size_t left = into.size() / element_size_;
  std::byte* out = into.data();
  while (left > 0) {
    const std::byte* from = first_ + position * element;
    const std::size_t rows = block_rows(index, left);
    std::size_t run = std::min(left, inner.size - index.back());
    if (rows > 1) {
      const std::int64_t row_stride = dimensions_[dimensions_.size() - 2].stride;
      const Block block{rows, inner.size, row_stride * element, inner.stride * element};
      with_size(element_size_, [&]<std::size_t kSize>() { copy_tiles<kSize>(from, block, out); });
      run = rows * inner.size;
      index[index.size() - 2] += rows;
      position += static_cast<std::int64_t>(rows) * row_stride;
    } else {
      copy_run(from, inner.stride, element_size_, run, out);
      index.back() += run;
      position += static_cast<std::int64_t>(run) * inner.stride;
    }
    left -= run;
    out += run * element_size_;
    // Carry into the outer dimensions, as an odometer does.
    for (std::size_t i = dimensions_.size(); i > 1; --i) {
      if (index[i - 1] < dimensions_[i - 1].size) continue;
      position -= static_cast<std::int64_t>(dimensions_[i - 1].size) * dimensions_[i - 1].stride;
      index[i - 1] = 0;
      position += dimensions_[i - 2].stride;
      ++index[i - 2];
    }
  }
}

std::size_t StridedBytes::block_rows(std::span<const std::size_t> index,
                                     std::size_t elements) const {
  if (dimensions_.size() < 2 || index.back() != 0 || !has_block_size(element_size_)) return 0;
  const Dimension& inner = dimensions_.back();
  const Dimension& outer = dimensions_[dimensions_.size() - 2];
  // Worth it where memory runs along the outer dimension.
  if (inner.stride == 1 || outer.stride == 0 || outer.stride >= inner.stride) return 0;
  return std::min(elements / inner.size, outer.size - index[index.size() - 2]);
}

namespace {

/// One leaf as a plain span; `buffer` takes those that are not.
std::span<const std::byte> leaf_at(const StridedBytes& content,
                                   std::size_t leaf,
                                   std::vector<std::byte>& buffer) {
  const std::size_t begin = leaf * core::kDigestChunk;
  const std::size_t length = std::min(core::kDigestChunk, content.byte_count() - begin);
  if (content.contiguous()) return content.bytes().subspan(begin, length);
  buffer.resize(length);
  content.copy(begin / content.element_size(), buffer);
  return buffer;
}

}  // namespace

ContentSummary summarise_content(const StridedBytes& content, core::Dtype dtype, bool with_stats) {
  const std::size_t bytes = content.byte_count();
  const std::size_t leaf_count =
      std::max<std::size_t>(1, (bytes + core::kDigestChunk - 1) / core::kDigestChunk);
  if (leaf_count == 1) {
    std::vector<std::byte> buffer;
    const std::span<const std::byte> leaf = leaf_at(content, 0, buffer);
    if (!with_stats) {
      const core::CountedLeaf counted = core::count_leaf(dtype, leaf);
      return {counted.digest, counted.counts, std::nullopt};
    }
    const core::LeafSummary summary = core::summarise_leaf(dtype, leaf);
    return {summary.digest, {}, core::stats_of_leaves({&summary.stats, 1})};
  }
  std::vector<core::Digest> digests(leaf_count);
  std::vector<core::NonFinite> counts(with_stats ? 0 : leaf_count);
  std::vector<core::LeafStats> stats(with_stats ? leaf_count : 0);
  const auto walk = [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::byte> buffer;
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::span<const std::byte> leaf = leaf_at(content, i, buffer);
      if (!with_stats) {
        const core::CountedLeaf counted = core::count_leaf(dtype, leaf);
        digests[i] = counted.digest;
        counts[i] = counted.counts;
        continue;
      }
      const core::LeafSummary summary = core::summarise_leaf(dtype, leaf);
      digests[i] = summary.digest;
      stats[i] = summary.stats;
    }
  };
  at::parallel_for(0, static_cast<std::int64_t>(leaf_count), 1, walk);
  ContentSummary summary{core::digest_of_leaves(digests), {}, std::nullopt};
  for (const core::NonFinite& leaf : counts) summary.non_finite += leaf;
  if (with_stats) summary.stats = core::stats_of_leaves(stats);
  return summary;
}

}  // namespace repro_check::capture
