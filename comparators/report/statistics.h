// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace repro_check::comparators {

/// The chance of a wrong statement that is taken by default.
inline constexpr double kAlpha = 0.05;

/// Two probabilities, low <= high.
struct Interval {
  double low = 0;
  double high = 1;
};

/// How likely two runs are to differ, from how often each result came: 1 - sum n_j (n_j - 1) /
/// (n (n - 1)), unbiased when the runs are independent.
/// @param counts  runs that gave each of the distinct results
/// @return 0 to 1; 0 for fewer than two runs
double disagreement(std::span<const std::uint64_t> counts) noexcept;

/// Exact two-sided interval of the chance behind `hits` of `trials`.
/// @param hits   at most `trials`; no trials give [0, 1]
/// @param alpha  chance that the interval misses, shared by its two ends; above 0, below 1
/// Source: C. Clopper, E. Pearson, Biometrika 26 (1934).
Interval clopper_pearson(std::uint64_t hits, std::uint64_t trials, double alpha = kAlpha) noexcept;

/// Upper bound, with confidence 1 - alpha, of the chance of something that never came in `trials`
/// independent trials: 1 - alpha^(1/trials), about 3/trials. Of n runs that agree, n - 1 are trials
/// of "differs from the first": which result the first one gave is not known beforehand.
/// @return 1 for no trials
double undetected_share(std::uint64_t trials, double alpha = kAlpha) noexcept;

/// Runs in all after which a second result that comes with chance `share` has been seen, with
/// confidence 1 - alpha, beside the first one: the least n with (1-f)^n + f^n <= alpha.
/// @param share  of all runs; empty for 0, 1, NaN and what is outside
std::optional<std::uint64_t> runs_needed(double share, double alpha = kAlpha) noexcept;

}  // namespace repro_check::comparators
