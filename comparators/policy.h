// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "configs/run_config.h"
#include "core/dtype.h"

namespace repro_check::comparators {

/// A policy as one element sees it. A pair of finite elements passes when |c-b| <= atol + rtol*|b|,
/// evaluated in double; bitwise is the same with both 0, since finite doubles that differ have a
/// difference that is not 0.
struct ElementPolicy {
  double rtol = 0;
  double atol = 0;
  configs::EqualNan equal_nan = configs::EqualNan::kBits;
  bool signed_zero_distinct = true;
  bool canonical_bool = true;  ///< bool bytes 1 and 2 differ
};

/// The policy of `spec` for elements of `dtype`. Without rtol and atol, tolerance takes the
/// defaults of torch.testing.assert_close; quantised dtypes are judged by their integers, so
/// exactly. Source: torch/testing/_comparison.py.
ElementPolicy element_policy(const configs::CompareSpec& spec, core::Dtype dtype) noexcept;

/// Whether a difference of digests alone is enough to fail under `spec`.
bool digests_decide(const configs::CompareSpec& spec) noexcept;

/// `bitwise`, `tolerance, rtol 0.001, atol 1e-05, NaN equals NaN`.
std::string describe_policy(const configs::CompareSpec& spec);

}  // namespace repro_check::comparators
