// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"

namespace repro_check::core {

/// One element as a number: real floating dtypes exactly, integers rounded to double above 2^53,
/// quantised ones by their integer, bool as 0 or 1. Empty for complex, float4 and unknown dtypes.
/// @param element  element_size(dtype) bytes, little-endian
std::optional<double> element_number(Dtype dtype, std::span<const std::byte> element) noexcept;

/// All numbers of a content, both parts of complex ones; NaN where the dtype has none.
/// @param content  whole elements
std::vector<double> numbers_of(Dtype dtype, std::span<const std::byte> content);

/// Shortest text that reads back as one element, 8 and 16 bit floats through float32, which holds
/// them exactly: `65504`, `0.1`, `-0`, `nan`, `-inf`. Empty where element_number() is.
/// @param element  as there
std::string number_text(Dtype dtype, std::span<const std::byte> element);

/// Hexadecimal, most significant digit first. @param element  little-endian
std::string hex_text(std::span<const std::byte> element);

/// |b - a| in double, of complex numbers by modulus; NaN where either is NaN, or where the dtype
/// has no numbers. Integers of 64 bits are subtracted before they are rounded. Two equal infinities
/// are 0 apart.
/// @param a, b  element_size(dtype) bytes each
double element_distance(Dtype dtype,
                        std::span<const std::byte> a,
                        std::span<const std::byte> b) noexcept;

/// How many numbers lie where, between the least and the greatest finite one.
struct ValueHistogram {
  double least = 0;
  double greatest = 0;
  std::vector<std::uint64_t> counts;  ///< bins of one width; the last holds `greatest` too
  std::uint64_t not_finite = 0;       ///< NaN and infinities, in no bin

  bool operator==(const ValueHistogram&) const = default;
};

/// Complex elements count as two numbers, as they do in core::TensorStats. One bin where all
/// numbers are equal, none where none is finite.
/// @param content  whole elements
/// @param bins     not 0
/// @return empty for float4 and unknown dtypes
std::optional<ValueHistogram> value_histogram(Dtype dtype,
                                              std::span<const std::byte> content,
                                              std::size_t bins);

/// Whether converted() can make this dtype: real floating with a sign bit, float4 left out.
bool is_conversion_target(Dtype dtype) noexcept;

/// The same numbers in another dtype, each rounded once, ties to even; what is too large becomes
/// Inf, or NaN where the dtype has none.
/// @param content  whole elements of `from`
/// @throws Error{kUnsupportedDtype} when `to` is no target, or `from` is complex, float4, or of 64
///         bits and integral while `to` is not float64 (a second rounding would be needed)
std::vector<std::byte> converted(Dtype from, std::span<const std::byte> content, Dtype to);

}  // namespace repro_check::core
