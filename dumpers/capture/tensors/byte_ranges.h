// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace repro_check::capture {

/// Bytes `[begin, end)` of a storage.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] bool holds(const ByteRange& other) const noexcept {
    return begin <= other.begin && other.end <= end;
  }
  bool operator==(const ByteRange&) const = default;
};

/// What lies in more pieces is not followed: to keep them must not cost more than the tensor.
inline constexpr std::size_t kMostPieces = 16384;

/// From the first byte of a strided tensor to its last, what it leaves out in between included.
ByteRange extent_of(const at::Tensor& tensor);

/// The bytes of a strided tensor in its storage, ascending and apart from each other; empty where
/// they lie in too many pieces to be told.
std::optional<std::vector<ByteRange>> pieces_of(const at::Tensor& tensor);

/// A set of bytes of one storage.
class ByteRanges {
 public:
  /// @param pieces  ascending, as pieces_of() gives them
  void add(const std::vector<ByteRange>& pieces);
  [[nodiscard]] bool contains(const std::vector<ByteRange>& pieces) const;
  /// Shows the parts of `range` that are not in the set.
  template <class Visit>
  void for_each_gap(ByteRange range, const Visit& visit) const {
    for (const ByteRange& known : ranges_) {
      if (known.end <= range.begin) continue;
      if (known.begin >= range.end) break;
      if (known.begin > range.begin) visit(ByteRange{range.begin, known.begin});
      range.begin = known.end;
    }
    if (range.begin < range.end) visit(range);
  }

  [[nodiscard]] std::size_t pieces() const noexcept { return ranges_.size(); }
  [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }
  void clear() noexcept { ranges_.clear(); }

 private:
  std::vector<ByteRange> ranges_;  ///< ascending, none touches the next
};

/// Whether an operator (`scatter_`) writes those elements of its first argument that others pick.
bool picks_elements(std::string_view base);

/// Which bytes of the storage of the first argument such an operator is going to write; empty where
/// that cannot be told.
/// @param arguments  as its schema has them
std::optional<std::vector<ByteRange>> picked_bytes(std::string_view base,
                                                   const c10::IValue* arguments);

}  // namespace repro_check::capture
