// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "comparators/report/report.h"
#include "configs/spec/compare_spec.h"
#include "configs/spec/noise_floors.h"
#include "core/tensor/dtype.h"

namespace repro_check::comparators {

/// A policy as one element sees it. A pair of finite elements passes when |c-b| <= atol + rtol*|b|,
/// evaluated in double, and they are at most max_ulp apart; bitwise is the same with both 0, since
/// finite doubles that differ have a difference that is not 0.
struct ElementPolicy {
  double rtol = 0;
  double atol = 0;  ///< may be infinite: then max_ulp alone decides
  /// In the tensor's own dtype, part by part for complex ones; nothing for any other dtype.
  std::uint64_t max_ulp = std::numeric_limits<std::uint64_t>::max();
  configs::EqualNan equal_nan = configs::EqualNan::kBits;
  bool signed_zero_distinct = true;
  bool canonical_bool = true;  ///< bool bytes 1 and 2 differ
};

/// What `policy` asks of elements of `dtype`. Without rtol and atol, tolerance takes the defaults
/// of torch.testing.assert_close; integers of quantised dtypes are judged exactly.
/// Policies that judge a tensor as a whole count elements as tolerance does. Source:
/// torch/testing/_comparison.py.
ElementPolicy element_policy(const configs::PolicySpec& policy, core::Dtype dtype) noexcept;

/// Of two dtypes that are compared in one: the looser tolerance of the two.
ElementPolicy element_policy(const configs::PolicySpec& policy,
                             core::Dtype one,
                             core::Dtype other) noexcept;

/// Whether a difference of digests alone is enough to fail under `policy`.
bool digests_decide(const configs::PolicySpec& policy) noexcept;

/// Whether one element beyond is enough to fail a tensor.
bool elements_decide(const configs::PolicySpec& policy) noexcept;

/// Whether the elements counted beyond are no more than a remark: another measure decides.
bool is_screening(const configs::PolicySpec& policy) noexcept;

struct TensorVerdict {
  bool passes = false;
  Phrases why;  ///< what the policy looked at, where the metrics do not say it by themselves
};

/// Judges a tensor by its metrics, which were made with element_policy(policy, dtype). A NaN or an
/// infinity that the policy does not accept fails it whatever the other numbers are. Under noise
/// only what is equal passes: see judge_noise().
TensorVerdict judge_metrics(const configs::PolicySpec& policy, const TensorMetrics& metrics);

/// How often a floor passes under noise: the policy's own number, or 2.
double noise_factor(const configs::PolicySpec& policy) noexcept;

NoiseDistance noise_distance(const TensorMetrics& metrics, const configs::OutputFloor& floor);

/// Passes where both l2_rel and max_abs are at most `factor` times their floor: a floor of 0 asks
/// for equal values.
TensorVerdict judge_noise(const configs::PolicySpec& policy,
                          const TensorMetrics& metrics,
                          const configs::OutputFloor& floor);

/// How often the baseline's error passes under fp64: the policy's own number, or 2; 3 for dtypes of
/// 16 bits and fewer a number, and for fewer than 1,000 elements, whose errors scatter more.
/// Source: torch/_dynamo/utils.py, same().
double fp64_factor(const configs::PolicySpec& policy, core::Dtype dtype, std::uint64_t elements);

/// Passes where candidate_rmse <= allowed, and NaN and infinities are where the policy lets them.
/// @param metrics  of the candidate against the baseline
TensorVerdict judge_fp64(const configs::PolicySpec& policy,
                         const TensorMetrics& metrics,
                         const Fp64Distance& distance);

/// Whether NaN, infinities and zeros alone fail the tensor.
bool specials_fail(const configs::PolicySpec& policy, const TensorMetrics& metrics) noexcept;

/// `bitwise`, `tolerance, rtol 0.001, atol 1e-05, NaN equals NaN`.
std::string describe_policy(const configs::PolicySpec& policy);
/// The same, or `2 rules, else an error`.
std::string describe_policy(const configs::CompareSpec& spec);

}  // namespace repro_check::comparators
