// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/tensor/tensor_record.h"

namespace repro_check::comparators {

/// All axes of a tensor but its last one, as one.
inline constexpr std::size_t kLeadingAxes = std::numeric_limits<std::size_t>::max();

/// A tensor as rows: the slices at each index of one of its axes.
struct Rows {
  std::size_t axis = 0;     ///< or kLeadingAxes
  std::uint64_t width = 0;  ///< elements of a row
  /// One key per row: the sum modulo 2^64 over its elements' bits, each mixed. It does not depend
  /// on the order of the elements, so that rows meet whose other axes are permuted; equal keys only
  /// propose that rows are equal.
  std::vector<std::uint64_t> keys;
  /// Whether all elements of a row, of more than one, are the same bits. Such a row (of zeros, of
  /// ones) is found everywhere, and pairs nothing.
  std::vector<bool> constant;

  bool operator==(const Rows&) const = default;
};

/// The rows along every axis, and from three dimensions on along the leading ones as one (experts
/// that are stacked in one tensor). Of a tensor without dimensions or elements there are none.
/// @param view  any dtype; elements are compared by their bits, NaN included
/// The mix is the finaliser of MurmurHash3 (A. Appleby, public domain), of the bits plus 2^64/phi.
std::vector<Rows> rows_of(core::TensorView view);

/// How many rows a tensor has along an axis or kLeadingAxes, and elements in each.
/// @param shape  at least one dimension
std::uint64_t row_count(const std::vector<std::int64_t>& shape, std::size_t axis);

}  // namespace repro_check::comparators
