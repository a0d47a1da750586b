// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/digest/digest.h"
#include "core/tensor/content_summary.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::capture {

/// Elements of a tensor where they lie in host memory, read in logical (row-major) order without a
/// copy of the whole. Strides may be 0 (expanded) or in any order; they are in elements.
class StridedBytes {
 public:
  /// @param first  the element at index 0 of every dimension; borrowed
  StridedBytes(const std::byte* first,
               std::size_t element_size,
               std::span<const std::int64_t> sizes,
               std::span<const std::int64_t> strides);

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::size_t element_size() const noexcept { return element_size_; }
  [[nodiscard]] std::size_t byte_count() const noexcept { return count_ * element_size_; }

  /// Whether the elements lie one after the other in logical order.
  [[nodiscard]] bool contiguous() const noexcept { return contiguous_; }

  /// Whether an expanded dimension shows the same memory again and again.
  [[nodiscard]] bool overlapping() const noexcept;

  /// The bytes themselves; only where contiguous().
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {first_, byte_count()}; }

  /// Copies elements [begin, begin + into.size() / element_size()) of the logical order.
  void copy(std::size_t begin, std::span<std::byte> into) const;

  /// Bytes that copy() reads best at once where the tensor is transposed, and a row of it takes
  /// an element of many cache lines: the rows that share those. 0 where that makes no difference.
  [[nodiscard]] std::size_t whole_lines() const noexcept;

 private:
  struct Dimension {
    std::size_t size;
    std::int64_t stride;
  };

  /// Whether memory runs along the last dimension but one, so that blocks of rows are worth it.
  [[nodiscard]] bool runs_along_outer() const noexcept;

  /// Rows of the innermost dimension that can be copied as one block from `index` on.
  [[nodiscard]] std::size_t block_rows(std::span<const std::size_t> index,
                                       std::size_t elements) const;

  const std::byte* first_;
  std::size_t element_size_;
  std::size_t count_ = 1;
  bool contiguous_ = true;
  std::vector<Dimension> dimensions_;  ///< merged where they follow each other in memory
};

using core::ContentSummary;

/// Digest of the content by the rule of core::kDigestAlgorithm, and its NaN and infinities or,
/// where `with_stats`, all statistics, in one walk over the leaves, which are shared out over
/// LibTorch's own threads. Nothing is written, no operator is called, no generator moves.
ContentSummary summarise_content(const StridedBytes& content, core::Dtype dtype, bool with_stats);

/// From here on nothing is shared out: for a process in which there are no other threads.
void read_serially();

/// Calls work(i) for each i below `count`, over LibTorch's own threads, each of which takes the
/// next when it is through with one.
/// @param pays  whether there is enough to do to wake them; if not, this one does all
void share_out(std::size_t count, bool pays, const std::function<void(std::size_t)>& work);

/// Many contents, each of which is too small for its leaves to be shared out.
struct ContentOrder {
  const StridedBytes* content = nullptr;  ///< borrowed
  core::Dtype dtype = core::Dtype::kUnknown;
  ContentSummary summary;  ///< to be filled
};
/// Fills all summaries, the contents shared out over LibTorch's own threads.
void summarise_contents(std::span<ContentOrder> orders, bool with_stats);

}  // namespace repro_check::capture
