// SPDX-License-Identifier: Apache-2.0
// Compiled with OpenMP: at::parallel_for is a template, and runs on one thread without it.
#include "dumpers/capture/tensors/strided_bytes.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

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

/// Elements of 16 bytes that lie one after the other.
template <typename Lane>
struct Run {
  static constexpr std::size_t kLanes = 16 / sizeof(Lane);
  using Vector [[gnu::vector_size(16)]] = Lane;
  struct Square {
    // As the argument of a template it were no vector any more.
    Vector rows[kLanes];  // NOLINT(modernize-avoid-c-arrays)
  };

  template <std::size_t kFirst, std::size_t... kLane>
  static Vector interleaved(const Vector& left,
                            const Vector& right,
                            std::index_sequence<kLane...>) noexcept {
    return __builtin_shufflevector(left, right, (kFirst + kLane / 2 + kLane % 2 * kLanes)...);
  }

  /// Interleaves the first half with the second until rows have become columns.
  static void transpose(Square& square) noexcept {
    constexpr std::size_t kHalf = kLanes / 2;
    constexpr std::make_index_sequence<kLanes> kAll;
    for (std::size_t round = 1; round < kLanes; round *= 2) {
      const Square before = square;
      for (std::size_t i = 0; i < kHalf; ++i) {
        const Vector& left = before.rows[i];
        const Vector& right = before.rows[i + kHalf];
        square.rows[2 * i] = interleaved<0>(left, right, kAll);
        square.rows[2 * i + 1] = interleaved<kHalf>(left, right, kAll);
      }
    }
  }
};

template <std::size_t kSize>
using LaneOf = std::conditional_t<
    kSize == 1,
    std::uint8_t,
    std::conditional_t<kSize == 2,
                       std::uint16_t,
                       std::conditional_t<kSize == 4, std::uint32_t, std::uint64_t>>>;

/// `columns` up to a tile's, of `rows` up to a tile's, element by element.
template <std::size_t kSize>
void copy_edge(const std::byte* from,
               const Block& block,
               std::size_t rows,
               std::size_t columns,
               std::byte* into) {
  for (std::size_t row = 0; row < rows; ++row) {
    gather<kSize>(from + static_cast<std::int64_t>(row) * block.row_step,
                  block.column_step,
                  columns,
                  into + row * block.columns * kSize);
  }
}

/// A tile of whole cache lines, read line by line and written row by row: a line that is touched
/// again later may have had to make room for the others, which lie a power of two apart.
template <std::size_t kSize>
void copy_tile(const std::byte* from, const Block& block, std::byte* into) {
  using Lanes = Run<LaneOf<kSize>>;
  constexpr std::size_t kTile = kTileBytes / kSize;
  constexpr std::size_t kRun = sizeof(typename Lanes::Vector);
  alignas(kTileBytes) std::array<std::byte, kTile * kTileBytes> tile;
  for (std::size_t column = 0; column < kTile; column += Lanes::kLanes) {
    const std::byte* lines = from + static_cast<std::int64_t>(column) * block.column_step;
    for (std::size_t row = 0; row < kTile; row += Lanes::kLanes) {
      typename Lanes::Square square;
      for (std::size_t i = 0; i < Lanes::kLanes; ++i) {
        const std::byte* line = lines + static_cast<std::int64_t>(i) * block.column_step;
        std::memcpy(&square.rows[i], line + row * kSize, kRun);
      }
      Lanes::transpose(square);
      for (std::size_t i = 0; i < Lanes::kLanes; ++i) {
        std::memcpy(&tile[(row + i) * kTileBytes + column * kSize], &square.rows[i], kRun);
      }
    }
  }
  for (std::size_t row = 0; row < kTile; ++row) {
    std::memcpy(into + row * block.columns * kSize, &tile[row * kTileBytes], kTileBytes);
  }
}

/// Copies by small tiles: going along whole rows would fetch a cache line for every element, and
/// the same lines again for the next row.
template <std::size_t kSize>
void copy_tiles(const std::byte* from, const Block& block, std::byte* into) {
  constexpr std::size_t kTile = kTileBytes / kSize;
  for (std::size_t row = 0; row < block.rows; row += kTile) {
    const std::size_t rows = std::min(kTile, block.rows - row);
    for (std::size_t column = 0; column < block.columns; column += kTile) {
      const std::size_t columns = std::min(kTile, block.columns - column);
      const std::byte* at = from + static_cast<std::int64_t>(row) * block.row_step +
                            static_cast<std::int64_t>(column) * block.column_step;
      std::byte* there = into + (row * block.columns + column) * kSize;
      if constexpr (kSize < 16) {
        if (block.row_step == kSize && rows == kTile && columns == kTile) {
          // No processor guesses what comes after so wide a step.
          for (std::size_t i = 0; i < kTile; ++i) {
            __builtin_prefetch(at + static_cast<std::int64_t>(kTile + i) * block.column_step);
          }
          copy_tile<kSize>(at, block, there);
          continue;
        }
      }
      copy_edge<kSize>(at, block, rows, columns, there);
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
  if (!runs_along_outer() || index.back() != 0) return 0;
  const std::size_t last = dimensions_.size() - 1;
  return std::min(elements / dimensions_[last].size, dimensions_[last - 1].size - index[last - 1]);
}

bool StridedBytes::runs_along_outer() const noexcept {
  if (dimensions_.size() < 2 || !has_block_size(element_size_)) return false;
  const Dimension& inner = dimensions_.back();
  const Dimension& outer = dimensions_[dimensions_.size() - 2];
  return inner.stride != 1 && outer.stride != 0 && outer.stride < inner.stride;
}

std::size_t StridedBytes::whole_lines() const noexcept {
  if (!runs_along_outer()) return 0;
  return kTileBytes * dimensions_.back().size;
}

namespace {

/// Memory of the calling thread that is used again: what is handed out anew is cleared page by page
/// first, which takes as long as the digest.
std::span<std::byte> scratch(std::size_t size) {
  struct Scratch {
    std::unique_ptr<std::byte[]> bytes;  // NOLINT(modernize-avoid-c-arrays)
    std::size_t size = 0;
  };
  thread_local Scratch mine;
  if (mine.size < size) {
    mine = {};
    // NOLINTNEXTLINE(modernize-avoid-c-arrays)
    mine = {std::make_unique_for_overwrite<std::byte[]>(size), size};
  }
  return {mine.bytes.get(), size};
}

/// What one thread reads at once: a leaf; of a transposed tensor with long rows so many that every
/// cache line is fetched once or twice.
std::size_t leaves_at_once(const StridedBytes& content) {
  constexpr std::size_t kMost = 16;
  return std::clamp<std::size_t>(content.whole_lines() / core::kDigestChunk, 1, kMost);
}

std::span<const std::byte> bytes_at(const StridedBytes& content,
                                    std::size_t begin,
                                    std::size_t size) {
  if (content.contiguous()) return content.bytes().subspan(begin, size);
  const std::span<std::byte> copied = scratch(size);
  content.copy(begin / content.element_size(), copied);
  return copied;
}

std::atomic<bool> shares_out = true;

}  // namespace

void read_serially() { shares_out = false; }

ContentSummary summarise_content(const StridedBytes& content, core::Dtype dtype, bool with_stats) {
  const std::size_t bytes = content.byte_count();
  if (bytes <= core::kDigestChunk) {
    const std::span<const std::byte> leaf = bytes_at(content, 0, bytes);
    if (!with_stats) {
      const core::CountedLeaf counted = core::count_leaf(dtype, leaf);
      return {counted.digest, counted.counts, std::nullopt};
    }
    const core::LeafSummary summary = core::summarise_leaf(dtype, leaf);
    return {summary.digest, {}, core::stats_of_leaves({&summary.stats, 1})};
  }
  core::SummaryOfLeaves leaves(dtype, with_stats, bytes);
  const std::size_t at_once = leaves_at_once(content) * core::kDigestChunk;
  const auto walk = [&](std::int64_t first, std::int64_t last) {
    for (auto part = static_cast<std::size_t>(first); part < static_cast<std::size_t>(last);
         ++part) {
      const std::size_t begin = part * at_once;
      const auto read = bytes_at(content, begin, std::min(at_once, bytes - begin));
      for (std::size_t at = 0; at < read.size(); at += core::kDigestChunk) {
        leaves.set((begin + at) / core::kDigestChunk,
                   read.subspan(at, std::min(core::kDigestChunk, read.size() - at)));
      }
    }
  };
  const std::int64_t grain = shares_out ? 1 : std::numeric_limits<std::int64_t>::max();
  at::parallel_for(0, static_cast<std::int64_t>((bytes + at_once - 1) / at_once), grain, walk);
  return leaves.put_together();
}

void share_out(std::size_t count, bool pays, const std::function<void(std::size_t)>& work) {
  if (!pays || !shares_out) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::atomic<std::size_t> next = 0;
  const auto take = [&](std::int64_t /*first*/, std::int64_t /*last*/) {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  at::parallel_for(0, at::get_num_threads(), 1, take);
}

void summarise_contents(std::span<ContentOrder> orders, bool with_stats) {
  share_out(orders.size(), true, [&](std::size_t i) {
    orders[i].summary = summarise_content(*orders[i].content, orders[i].dtype, with_stats);
  });
}

}  // namespace repro_check::capture
