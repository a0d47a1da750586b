// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace repro_check::comparators {

/// How far a tensor is from the floor of repeated runs.
struct NoiseDistance {
  double l2_rel_floor = 0;
  double max_abs_floor = 0;
  double times = 0;  ///< the greater of l2_rel and max_abs over its floor; inf where that is 0

  bool operator==(const NoiseDistance&) const = default;
};

/// How far both sides of a tensor are from the same one in float64.
struct Fp64Distance {
  double baseline_rmse = 0;  ///< root mean square error, over elements that are finite in both
  double candidate_rmse = 0;
  double allowed = 0;  ///< what candidate_rmse may be

  bool operator==(const Fp64Distance&) const = default;
};

/// One rule of CompareSpec, and what it was good for.
struct RuleUse {
  std::string match;  ///< `operator aten::.*, dtype float16`
  std::string policy;
  std::uint64_t tensors = 0;  ///< outputs it judged, or ignored
};

/// Elements that passed under a policy that does not look at each of them.
struct Screened {
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t beyond = 0;  ///< the default tolerance of their dtype
};

}  // namespace repro_check::comparators
