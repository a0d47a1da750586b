// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comparators/relate/forward_pass.h"
#include "comparators/relate/related_modules.h"
#include "comparators/relate/row_map.h"
#include "core/tensor/dtype.h"

namespace repro_check::comparators {

/// What a shadow says of one output of A; all of its shape, row-major.
struct ShadowValues {
  std::vector<double> exact;  ///< float64, along the whole chain
  /// Float64 of what lies between it and the related outputs before it, which are as A recorded
  /// them.
  std::vector<double> own;
  std::vector<double> other;  ///< the same, these being B's, brought to A's rows and axes
};

/// In the record of a dump that has them as outputs.
inline constexpr std::size_t kExactOutput = 0;
inline constexpr std::size_t kOwnOutput = 1;
inline constexpr std::size_t kOtherOutput = 2;

enum class ModuleState : std::uint8_t {
  kWithin,     ///< B is as near to float64 as A is
  kFault,      ///< it is not, and what B is given does not explain it
  kInherited,  ///< what it is given does
  kUndecided,  ///< A itself is no measure here
};

/// How far both sides are from float64 at one related module.
struct JudgedModule {
  std::size_t module = 0;  ///< index into RelatedModules::modules
  ModuleState state = ModuleState::kWithin;
  double error_a = 0;  ///< relative L2 distance to float64, along the whole chain
  double error_b = 0;
  double ratio = 0;  ///< of error_b to the floor: error_a, and the rounding of the dtypes
  /// Of B's own error, A's function on B's inputs being the measure, to the floor of it.
  double own_ratio = 0;
  double row_ratio = 0;     ///< the same in the row where it is most
  std::uint64_t row = 0;    ///< that row of B
  std::uint64_t rows = 0;   ///< that were compared
  std::uint64_t above = 0;  ///< rows whose own ratio is beyond kRowBound
};

/// A module is beyond the floor where its own error is so many times A's, over all rows or in one.
/// Set from pairs of implementations that are right; see tests/models/test_relate.py.
inline constexpr double kOwnBound = 8;
inline constexpr double kRowBound = 32;
/// Where the error of A's own slice is more than that of its value, float64 is no measure.
inline constexpr double kMostOwnError = 0.1;

/// Outputs of A that are judged: of these a shadow is asked.
std::vector<std::size_t> judged_calls(const ForwardPass& a, const RelatedModules& related);

/// Reads an output as numbers.
using ReadNumbers = std::function<std::vector<double>(const PassTensor&)>;

/// The rows that an output of A and one of B have in common, by B's rows; null where they have no
/// rows in common, or nobody knows which. Borrowed.
/// @param tokens  the rows of what was looked up; null where nothing was
const RowMap* rows_of_outputs(const PassTensor& a,
                              const PassTensor& b,
                              const RowMap* tokens,
                              RowMap& same);

/// B's values at the outputs of A that are judged, in A's rows and features; where B has none, A's.
std::vector<std::vector<double>> brought_to_a(const ForwardPass& a,
                                              const ReadNumbers& numbers_a,
                                              const ForwardPass& b,
                                              const ReadNumbers& numbers_b,
                                              const RelatedModules& related,
                                              const RowMap* tokens);

struct JudgedPass {
  std::vector<JudgedModule> modules;  ///< in the order of A's operators
  std::uint64_t unjudged = 0;         ///< related modules whose rows or features are cut otherwise
};

/// @param shadow  by judged_calls()
JudgedPass judge_modules(const ForwardPass& a,
                         const ReadNumbers& numbers_a,
                         const ForwardPass& b,
                         const ReadNumbers& numbers_b,
                         const RelatedModules& related,
                         const RowMap* tokens,
                         const std::function<ShadowValues(std::size_t)>& shadow);

}  // namespace repro_check::comparators
