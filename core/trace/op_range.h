// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace repro_check::core {

/// Operators by op index, `last` included.
struct OpRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;

  bool operator==(const OpRange&) const = default;
};

/// In ascending order, neither overlapping nor touching.
using OpRanges = std::vector<OpRange>;

/// The same operators as a sorted list without overlaps.
OpRanges united(OpRanges ranges);

/// @param ranges  as united() gives them
bool contains(const OpRanges& ranges, std::uint64_t index) noexcept;

/// `op 3`, `op 3 to 11 and op 40`; empty for no ranges.
std::string describe(const OpRanges& ranges);

}  // namespace repro_check::core
