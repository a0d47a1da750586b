// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/digest/digest.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::core {

/// Which contents are stored as some of their elements, and which elements those are: the ones at
/// the row-major positions 0, stride, 2 * stride and so on.
struct SliceRule {
  std::uint64_t elements = 0;          ///< so many at most; not 0
  std::uint64_t stride = 1;            ///< not 0
  std::optional<std::uint64_t> above;  ///< contents of more bytes; empty = of more than `elements`
  bool operator==(const SliceRule&) const = default;
};

/// The elements that are stored of a content, which is not stored whole.
struct ContentSlice {
  std::uint64_t elements = 0;
  std::uint64_t stride = 1;
  Digest digest;  ///< of those elements
  bool operator==(const ContentSlice&) const = default;
};

/// How many of `total` elements stand at the positions 0, stride and so on.
/// @param stride  not 0
constexpr std::uint64_t slice_length(std::uint64_t total, std::uint64_t stride) noexcept {
  return total == 0 ? 0 : (total - 1) / stride + 1;
}

/// Whether a content of `total` elements can have such a slice.
constexpr bool is_slice_of(const ContentSlice& slice, std::uint64_t total) noexcept {
  return slice.elements != 0 && slice.stride != 0 &&
         slice.elements <= slice_length(total, slice.stride) && slice.elements < total;
}

/// What a slice is stored as: a content of one dimension.
ContentKey slice_key(const ContentKey& whole, const ContentSlice& slice);

/// `the first 8 of 4096 elements`, `8 of 4096 elements, one in 512 from the first on`
std::string describe_slice(const ContentSlice& slice, std::uint64_t total);

}  // namespace repro_check::core
