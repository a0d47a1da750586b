// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comparators/report/compare_options.h"
#include "configs/spec/noise_floors.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// Measures how far runs of one configuration are apart, operator by operator: the greatest l2_rel
/// and the greatest max_abs of any run against the first (TensorMetrics; of a number that an
/// operator returned, |c-b|/|b| and |c-b|). An output has no floor where that is not one finite
/// number: no bytes to measure, a NaN or an infinity that not all runs have, another dtype or
/// shape, no counterpart in some run. Runs are looked at one after the other, so that only the
/// first has to stay.
class NoiseMeter {
 public:
  /// @param first  borrowed for the life of the meter
  /// @throws core::Error{kDumpDamaged}
  explicit NoiseMeter(const core::DumpSource& first);

  /// @param progress  as CompareOptions::progress, of the operators of the first run
  /// @throws core::Error{kDumpDamaged}; {kNotComparable} when the run is of something else
  void add(const core::DumpSource& run,
           const std::function<void(const CompareProgress&)>& progress = nullptr);

  [[nodiscard]] const configs::NoiseFloors& floors() const noexcept { return floors_; }

 private:
  const core::DumpSource& first_;
  configs::NoiseFloors floors_;
};

/// What floors say in numbers.
struct NoiseSummary {
  std::uint64_t operators = 0;       ///< with outputs or results; what a call returned is none
  std::uint64_t quiet = 0;           ///< every floor is 0
  std::uint64_t noisy = 0;           ///< some floor is above 0
  std::uint64_t without_floor = 0;   ///< some output has none
  std::vector<std::uint64_t> worst;  ///< op indices of noisy ones, by l2_rel, the greatest first
};

NoiseSummary summarise(const configs::NoiseFloors& floors);

}  // namespace repro_check::comparators
