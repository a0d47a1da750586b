// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace repro_check::replay {

/// A recorded value that stands in the shadow where another one would have been computed.
struct ShadowCut {
  std::uint64_t op = 0;
  std::string why;
};

struct ShadowCounts {
  std::uint64_t executed = 0;      ///< calls, in float64
  std::uint64_t draws = 0;         ///< calls whose random numbers were taken from the record
  std::uint64_t outside = 0;       ///< arguments that no recorded call made: inputs, weights
  std::uint64_t decisions = 0;     ///< integers and booleans that float64 makes otherwise
  std::uint64_t numbers_read = 0;  ///< computed values that the program read as its own numbers
};

}  // namespace repro_check::replay
