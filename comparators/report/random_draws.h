// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace repro_check::comparators {

/// Operators that drew random numbers in both runs, those left out that another recorded one
/// called. Where the runs agree, they do because their generators were seeded alike.
struct RandomDraws {
  static constexpr std::size_t kMostSeeds = 4;

  std::uint64_t operators = 0;
  std::vector<std::string> devices;  ///< of the generators, `cpu`, by their first draw
  /// The generators' own, at most kMostSeeds; where draws are moved to the host, the run's.
  std::vector<std::uint64_t> seeds;
  std::string parting;  ///< where the generators parted, in words; empty where they did not
};

}  // namespace repro_check::comparators
