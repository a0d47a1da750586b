// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// What became of one operator, as a reader of the whole trace wants to see it.
enum class OpState : std::uint8_t {
  kEqual,
  kWithin,
  kOrigin,
  kPropagated,
  kMismatch,
  kBaselineOnly,
  kCandidateOnly,
  kSkipped,
  kNotJudged,
};

/// Of all outputs of one operator the greatest error; NaN where it is not known. The counts are of
/// elements, and of NaN and Inf on either side.
struct OpErrors {
  double max_abs = std::numeric_limits<double>::quiet_NaN();
  double max_rel = std::numeric_limits<double>::quiet_NaN();  ///< over nonzero baselines
  double l2_rel = std::numeric_limits<double>::quiet_NaN();
  std::optional<std::uint64_t> ulp_max;
  std::uint64_t differing = 0;
  std::uint64_t elements = 0;  ///< of the outputs that were measured
  std::uint64_t nan_baseline = 0;
  std::uint64_t nan_candidate = 0;
  std::uint64_t inf_baseline = 0;
  std::uint64_t inf_candidate = 0;
};

/// One operator, by numbers into the tables of its OpTrail.
struct TrailRow {
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::uint32_t baseline = kNone;   ///< op index; kNone where the baseline has none
  std::uint32_t candidate = kNone;  ///< the same of the candidate
  std::uint32_t op = 0;             ///< in OpTrail::operators
  std::uint32_t place = 0;          ///< in OpTrail::places
  std::uint32_t type = 0;           ///< in OpTrail::types: of its first output
  std::uint32_t errors = kNone;     ///< in OpTrail::errors; kNone where nothing differs
  std::uint32_t producers = 0;      ///< how many in OpTrail::producers are its own
  std::uint32_t first_producer = 0;
  std::uint32_t step = 0;
  OpState state = OpState::kEqual;
  core::Phase phase = core::Phase::kForward;

  /// The op index to call it by: the baseline's, where that has one.
  [[nodiscard]] std::uint32_t shown() const noexcept {
    return baseline != kNone ? baseline : candidate;
  }
};

/// Where in the model an operator is called.
struct OpPlace {
  std::string module_path;
  std::string file;  ///< of the display frame; empty where unknown
  std::uint32_t line = 0;
};

/// Where the elements of one output differ: the last two dimensions cut into blocks, the leading
/// ones summed up. A tensor of one dimension has one row.
struct DifferenceMap {
  std::uint64_t op = 0;  ///< baseline op index
  std::string slot;
  std::uint64_t rows = 0;  ///< of elements
  std::uint64_t columns = 0;
  std::uint64_t leading = 1;  ///< how many matrices lie on top of each other
  std::uint32_t row_blocks = 0;
  std::uint32_t column_blocks = 0;
  std::vector<std::uint64_t> differing;  ///< elements whose bits differ, by block, row-major
};

/// One call that drew random numbers on a side.
struct TrailDraw {
  std::uint32_t row_baseline = TrailRow::kNone;  ///< op index
  std::uint32_t row_candidate = TrailRow::kNone;
  std::uint32_t op = 0;
  std::optional<core::GeneratorUse> baseline;
  std::optional<core::GeneratorUse> candidate;
};

/// Every operator of a comparison in a row each, small enough to hold all of a long trace.
struct OpTrail {
  static constexpr std::size_t kMostRows = 1'000'000;
  static constexpr std::size_t kMostDraws = 10'000;
  static constexpr std::size_t kMostMaps = 200;

  std::vector<std::string> operators;  ///< with their overloads
  std::vector<OpPlace> places;
  std::vector<std::string> types;  ///< `float32 [8, 512]`; empty for no output
  std::vector<TrailRow> rows;      ///< by TrailRow::shown(), those of the baseline first
  std::vector<OpErrors> errors;
  std::vector<std::uint32_t> producers;  ///< op indices of the side that a row is shown by
  std::vector<TrailDraw> draws;
  std::vector<DifferenceMap> maps;
  std::uint64_t rows_total = 0;
  std::uint64_t draws_total = 0;
};

}  // namespace repro_check::comparators
