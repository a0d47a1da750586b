// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "comparators/relate/row_keys.h"
#include "comparators/relate/weights.h"
#include "core/tensor/dtype.h"

namespace repro_check::comparators {

/// A pair of low-rank matrices that adapts a weight: W + scale * up * down. By index into the
/// weights of the sender.
struct Adapter {
  std::size_t base = 0;
  std::size_t down = 0;  ///< [rank, in]
  std::size_t up = 0;    ///< [out, rank]
  double scale = 0;      ///< as the receiver's values have it; 0 where it was not merged

  bool operator==(const Adapter&) const = default;
};

/// Rows of the receiver's tensor that are rows of one of the sender's, proved by their bytes.
struct Segment {
  std::uint64_t begin = 0;  ///< first row of the receiver's, along RelatedWeight::axis
  std::uint64_t rows = 0;
  std::size_t source = 0;   ///< index into the sender's weights
  std::size_t version = 0;  ///< index into its versions
  std::size_t axis = 0;     ///< of the sender's tensor, or kLeadingAxes
  std::uint64_t from = 0;   ///< its first row there
  /// The dtype to which the sender's values were rounded; kUnknown where they were not.
  core::Dtype rounded = core::Dtype::kUnknown;
  /// What was added to the sender's rows, which are all of its weight; the sum is equal up to
  /// rounding.
  std::optional<Adapter> merged = {};
  /// Each row is the sender's times a number of its own, up to rounding: a normalisation behind it
  /// was folded into the weight.
  bool has_factors = false;

  bool operator==(const Segment&) const = default;
};

/// Where one weight of the receiver comes from.
struct RelatedWeight {
  std::size_t receiver = 0;       ///< index into the receiver's weights; its last version
  std::size_t axis = 0;           ///< along which it is cut
  std::uint64_t rows = 1;         ///< that it has along that axis; 1 without dimensions
  std::vector<Segment> segments;  ///< by their first row, none twice
  /// A weight of the sender whose place it takes by its name or its neighbours, where no value says
  /// so.
  std::optional<std::size_t> counterpart;
  bool is_readable = true;  ///< its values, or digest, could be held against those of the sender

  [[nodiscard]] std::uint64_t related_rows() const;
};

/// Finds for each weight of the receiver, as it was last, the rows of the sender's weights that it
/// is made of: whole, transposed, with permuted axes, cut, put together, rounded to another dtype;
/// those of the sender's last values first, then those of the values before them.
///
/// Rows that are the sum of a weight and its adapter are found where names say that these belong
/// together (`lora`, `adapter`): the residual has to be below kMergedUlps of its dtype, in
/// root mean square relative to the sum.
///
/// Equal digests are a relation at any level. Everything else is proposed by row keys and proved by
/// bytes, which the dumps must hold. Rows of one value and tensors of less than kTellingElements
/// are not looked for by content: they go where the other weights of their module go.
/// @param with_factors  weights of which each row is the sender's times a number are related too;
///                      the residual of every row has to be below kMergedUlps
/// @throws core::Error{kDumpDamaged}
std::vector<RelatedWeight> relate_weights(const WeightSide& sender,
                                          const WeightSide& receiver,
                                          bool with_factors = false);

inline constexpr std::uint64_t kTellingElements = 8;
inline constexpr double kMergedUlps = 4;

/// `layers.0` and `q_proj` of `layers.0.q_proj`. Borrowed.
std::string_view name_above(std::string_view name);
std::string_view last_name(std::string_view name);

/// The adapters of a side's weights, by their names and shapes.
std::vector<Adapter> adapters_of(const WeightSide& side);

}  // namespace repro_check::comparators
