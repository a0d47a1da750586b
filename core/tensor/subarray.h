// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace repro_check::core {

/// One dimension of a subscript.
struct SubscriptPart {
  enum class Kind : std::uint8_t { kIndex, kRange, kEllipsis };
  Kind kind = Kind::kRange;
  std::int64_t index = 0;             ///< of kIndex; from the end when negative
  std::optional<std::int64_t> start;  ///< of kRange, as the next two
  std::optional<std::int64_t> stop;
  std::int64_t step = 1;

  bool operator==(const SubscriptPart&) const = default;
};

using Subscript = std::vector<SubscriptPart>;

/// Integers, ranges and one `...`, by commas: `0,:8`, `...,-1`, `::-2`; in brackets or not. Empty
/// brackets, and nothing, are the whole tensor.
/// @throws Error{kUsage} for all else, a step of 0 and numbers beyond 64 bits included
Subscript parse_subscript(const std::string& text);

/// The elements of a tensor that a subscript shows, in its order.
class Subarray {
 public:
  /// All of a tensor of this shape.
  /// @throws Error{kDumpDamaged} as element_count()
  explicit Subarray(std::span<const std::int64_t> whole);

  /// As NumPy has it: a range is cut to what there is, an index beyond is an error, an index takes
  /// its dimension away.
  /// @throws Error{kNotComparable} when the tensor has too few dimensions, or no such index
  Subarray(std::span<const std::int64_t> whole, const Subscript& subscript);

  /// Without the dimensions that an index took away.
  [[nodiscard]] std::vector<std::int64_t> shape() const;
  [[nodiscard]] std::uint64_t elements() const noexcept { return elements_; }
  [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }

  /// Row-major position in the whole tensor of the element at `position` of what is shown.
  /// @param position  below elements()
  [[nodiscard]] std::uint64_t flat(std::uint64_t position) const;

  /// What is shown of the content of the whole tensor, row-major.
  /// @param size  bytes an element takes
  /// @throws Error{kInternal} when `content` does not fill the tensor
  [[nodiscard]] std::vector<std::byte> take(std::span<const std::byte> content,
                                            std::size_t size) const;

 private:
  struct Dimension {
    std::int64_t first = 0;
    std::int64_t step = 1;
    std::int64_t count = 0;
    std::int64_t stride = 1;  ///< elements between neighbours in the whole
    bool dropped = false;
  };

  std::vector<Dimension> dimensions_;
  std::uint64_t elements_ = 1;
  std::uint64_t whole_elements_ = 1;
  bool is_whole_ = true;
};

}  // namespace repro_check::core
