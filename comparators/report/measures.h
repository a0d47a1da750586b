// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// Elements that passed under a policy that does not look at each of them.
struct Screened {
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t beyond = 0;  ///< the default tolerance of their dtype
};

/// Pairs by ULP distance: names of the buckets, the last one for NaN and Inf on either side.
inline constexpr std::string_view kUlpBuckets =
    "0|1|2|3-4|5-8|9-16|17-64|65-256|257-1024|1025-65536|above|incomparable";
using UlpHistogram = std::array<std::uint64_t, std::ranges::count(kUlpBuckets, '|') + 1>;

/// Finite pairs by floor(log2(|c-b|/|b|)), so that any percentile is known within a factor of 2.
struct RelHistogram {
  static constexpr int kLeast = -64;                              ///< and whatever is less
  static constexpr int kGreatest = 8;                             ///< and whatever is more
  std::uint64_t zero = 0;                                         ///< no difference
  std::uint64_t infinite = 0;                                     ///< baseline 0, candidate not
  std::array<std::uint64_t, kGreatest - kLeast + 1> exponents{};  ///< from kLeast on

  bool operator==(const RelHistogram&) const = default;
};

/// The relative error that `share` of the finite pairs do not exceed lies in [at_least, at_most].
struct RelBounds {
  double at_least = 0;
  double at_most = 0;  ///< infinite where a baseline of 0 has another candidate
};

/// @param share  0 to 1
/// @return empty when there is no finite pair
std::optional<RelBounds> rel_percentile(const RelHistogram& histogram, double share) noexcept;

/// A finite number, NaN or Inf; absent where a metric is null.
using Metric = std::optional<double>;

/// All of one tensor pair, from one pass (docs/DECISIONS.md, metrics). Real-valued metrics run over
/// F, the pairs in which both are finite; n_finite is their number and they are null when it is 0.
struct TensorMetrics {
  std::uint64_t elements = 0;
  std::uint64_t n_diff = 0;    ///< bits differ
  std::uint64_t n_beyond = 0;  ///< fail the policy
  std::uint64_t n_finite = 0;
  std::optional<std::uint64_t> first_diff;  ///< flat row-major index
  std::optional<std::uint64_t> first_beyond;
  std::uint64_t zero_sign_only = 0;  ///< differ in the sign of zero alone
  std::uint64_t nan_both_same = 0;
  std::uint64_t nan_both_payload = 0;  ///< NaN on both sides, other bits
  std::uint64_t nan_baseline = 0;      ///< NaN in the baseline only
  std::uint64_t nan_candidate = 0;
  std::uint64_t inf_sign = 0;  ///< opposite infinities
  std::uint64_t inf_baseline = 0;
  std::uint64_t inf_candidate = 0;
  std::uint64_t noncanonical_bool = 0;
  std::uint64_t false_to_true = 0;  ///< bool only, as the next
  std::uint64_t true_to_false = 0;
  std::uint64_t zeros_both = 0;  ///< equal to 0 on both sides
  std::uint64_t flips = 0;       ///< b*c < 0; not for complex
  std::uint64_t flushed = 0;     ///< a subnormal against 0, either way
  /// c is the dtype's greatest magnitude or infinite, b is finite and less.
  std::uint64_t saturated = 0;
  Metric max_abs;
  std::optional<std::uint64_t> max_abs_index;
  /// |c-b| of integers exactly; set for integral dtypes beside max_abs.
  std::optional<std::uint64_t> max_abs_exact;
  Metric mean_abs;
  Metric max_rel;  ///< inf when some baseline is 0 and its candidate is not
  std::optional<std::uint64_t> max_rel_index;
  Metric max_rel_finite;  ///< over nonzero baselines
  std::optional<std::uint64_t> max_rel_finite_index;
  std::uint64_t zero_baseline = 0;  ///< pairs with b = 0 and c != 0
  Metric mean_rel;
  std::optional<std::uint64_t> ulp_max;  ///< floating dtypes only
  Metric ulp_mean;                       ///< over differing pairs of F
  std::optional<UlpHistogram> ulp_hist;  ///< of all pairs; of complex numbers, part by part
  std::optional<RelHistogram> rel_hist;  ///< of F; not for bool
  Metric rmse;
  Metric nmse;
  Metric l2_rel;
  Metric cosine;
  Metric norm_ratio;
  Metric within_1e3;  ///< share within 1/1000
  Metric within_5e3;
  Metric rtol_needed;  ///< smallest rtol that passes with atol 0
  Metric atol_needed;
  Metric rtol_given_atol;  ///< smallest that passes with the policy's atol
  Metric atol_given_rtol;  ///< smallest that passes with the policy's rtol

  /// Pairs of NaN or Inf and something else, which no size of an error covers.
  [[nodiscard]] std::uint64_t apart() const noexcept {
    return nan_baseline + nan_candidate + inf_sign + inf_baseline + inf_candidate;
  }

  bool operator==(const TensorMetrics&) const = default;
};

/// One element of a differing pair.
struct Sample {
  std::uint64_t flat_index = 0;
  std::vector<std::int64_t> index;
  std::string baseline;  ///< shortest text that reads back in the tensor's own dtype
  std::string candidate;
  std::string baseline_bits;  ///< hexadecimal, most significant first
  std::string candidate_bits;
  std::optional<std::uint64_t> ulp;
};

}  // namespace repro_check::comparators
