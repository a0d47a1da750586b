// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/dump.h"
#include "dumpers/replay/shadow_counts.h"

namespace repro_check::replay {

/// Digits of a tensor are -log10 of its relative L2 distance to float64, from 0 to this.
inline constexpr double kAllDigits = 16;

/// A tensor of the recording.
struct RecordedTensor {
  std::uint64_t op = 0;
  std::uint32_t tensor = 0;  ///< position among the tensors of its record
  bool values = false;       ///< what float64 gives is wanted
};

/// Where a tensor is farthest from float64; both flat, row-major.
struct FarthestElement {
  std::uint64_t element = 0;
  double recorded = 0;
  double float64 = 0;
  std::uint64_t row = 0;  ///< of the rows along the last dimension, by L2 distance
};

/// What one executed call does to the digits.
struct CallPrecision {
  std::uint64_t op = 0;
  std::optional<double> digits_in;   ///< of its worst computed argument
  std::optional<double> digits_out;  ///< of its worst result
  /// Of its worst result against float64 on the recorded arguments: its own rounding.
  std::optional<double> own_digits;
  /// What its own rounding moves in the result, to first order, as a share of the result's error;
  /// negative where it takes some of it away. The shares of all calls add up to about 1.
  double moved = 0;
  /// The share of the result's error that is there behind the call, its own and inherited.
  double passes = 0;
  std::uint64_t terms =
      0;  ///< products or numbers that one element of the result adds up; 0 = none
  std::optional<FarthestElement> farthest;  ///< by its own rounding, of its first result
};

/// The last output that a module made in the forward pass of one step.
struct ModuleOutput {
  std::uint64_t op = 0;
  double digits = 0;
  std::uint64_t rows = 0;  ///< along the last dimension
  /// Of groups of neighbouring rows, as equal as can be and kMostRowGroups at most: of the worst.
  std::vector<double> row_digits;
};
inline constexpr std::uint64_t kMostRowGroups = 128;

struct PrecisionOutcome {
  double digits = 0;                        ///< of the result
  double relative_error = 0;                ///< L2, of the result; inf where it has NaN or infinity
  std::optional<FarthestElement> farthest;  ///< of the result
  std::vector<CallPrecision> calls;         ///< that lead to the result, in their order
  std::vector<ModuleOutput> modules;        ///< in the order of the calls
  /// The first call whose recorded result has NaN or infinity where float64 has none, of a result
  /// that has some.
  std::optional<std::uint64_t> overflow;
  double explained = 0;  ///< sum of CallPrecision::moved; 0 where shares could not be computed
  std::vector<std::string> underived;  ///< operators through which no share was carried, each once
  std::vector<double> values;  ///< of the result in float64, row-major, where they are wanted
  ShadowCounts counts;
  std::vector<ShadowCut> cuts;  ///< of calls that lead to the result
};

/// Executes what leads to `result` in float64 and measures where the recorded one lost its digits.
/// @throws core::Error{kNotComparable} when the dump does not hold the values; {kDumpDamaged}
PrecisionOutcome measure_precision(const core::DumpSource& dump, const RecordedTensor& result);

}  // namespace repro_check::replay
