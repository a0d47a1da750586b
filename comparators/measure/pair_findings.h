// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "comparators/measure/float_block.h"
#include "comparators/measure/policy.h"
#include "comparators/report/report.h"

namespace repro_check::comparators {

__extension__ using UInt128 = unsigned __int128;

/// Lanes added.
using LeafTotals = ErrorSums<double>;

/// How many pairs have which code of float_block.h; pairs without a difference may be left out.
struct ErrorCodes {
  std::array<std::uint64_t, kUlpCodes> ulp{};
  std::array<std::uint64_t, kRelCodes> rel{};

  void merge(const ErrorCodes& other) noexcept {
    for (std::size_t i = 0; i < ulp.size(); ++i) ulp[i] += other.ulp[i];
    for (std::size_t i = 0; i < rel.size(); ++i) rel[i] += other.rel[i];
  }

  // What the loops over blocks of floats do, for one pair.
  void add_ulp(std::uint64_t distance) noexcept {
    ++ulp[distance == 0 ? 0 : 1 + static_cast<std::size_t>(std::bit_width(distance - 1))];
  }
  /// @param abs, base  |c-b|, not 0, and |b|
  void add_rel(double abs, double base) noexcept {
    const double clipped = std::clamp(abs / base, 0x1p-64, 0x1p8);
    const int code = base == 0 ? kRelOfZeroBase : std::ilogb(clipped) - kLeastRelExponent + 1;
    ++rel[static_cast<std::size_t>(code)];
  }
};

/// What has no place of its own in TensorMetrics until the pass is over.
struct PairTotals {
  /// d2, b2 and c2 times 2^(2*exponent) of theirs, bc times 2^(b + c exponent).
  LeafTotals sums;
  int d_exponent = 0;
  int b_exponent = 0;
  int c_exponent = 0;
  double max_abs = 0;
  double max_rel = 0;      ///< over baselines that are not 0
  double needed_rtol = 0;  ///< least rtol >= max_rel that passes every pair so far with atol 0
  double given_rtol = 0;   ///< least rtol that passes every pair so far with the policy's atol
  double given_atol = 0;   ///< least atol that does with the policy's rtol
  ErrorCodes codes;
  std::uint64_t n_rel = 0;  ///< finite pairs whose baseline is not 0
  std::uint64_t outside_1e3 = 0;
  std::uint64_t outside_5e3 = 0;
  std::uint64_t special_equal = 0;  ///< NaN or Inf, bit-equal
  std::uint64_t n_unequal = 0;      ///< finite pairs whose values differ
  std::uint64_t ulp_max = 0;
  UInt128 ulp_sum = 0;
  std::uint64_t max_exact = 0;  ///< |c-b| of integers
  UInt128 sum_exact = 0;
  std::optional<std::uint64_t> first_zero_base;
};

inline void note_first(std::optional<std::uint64_t>& first, std::uint64_t index) noexcept {
  if (!first || index < *first) first = index;
}

/// Classes of one value.
struct ValueClass {
  bool nan = false;
  bool inf = false;
};

/// Which of the metrics have a meaning for the dtype.
struct Meaning {
  bool ulp = true;
  bool exact_mean = false;  ///< mean_abs is set already
  unsigned parts = 1;       ///< numbers in an element
};

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Least number from 0 on that `passes`; a greater one passes whenever a lesser one does.
/// @param guess  most often that number
template <typename Passes>
double least_passing(double guess, const Passes& passes) noexcept {
  if (guess > 0 && passes(guess) && !passes(std::nextafter(guess, 0.0))) return guess;
  if (passes(0.0)) return 0;
  // Positive doubles are ordered as their bits are.
  auto fails = std::uint64_t{0};
  auto holds = std::bit_cast<std::uint64_t>(kInfinity);
  while (holds - fails > 1) {
    const std::uint64_t middle = fails + (holds - fails) / 2;
    (passes(std::bit_cast<double>(middle)) ? holds : fails) = middle;
  }
  return std::bit_cast<double>(holds);
}

/// What was found of some leaves of a pair: counts and maxima in their places in TensorMetrics.
struct PairFindings {
  TensorMetrics metrics;
  PairTotals totals;

  /// Takes in what was found of other leaves; `sums` apart, in any order.
  void merge(const PairFindings& other) noexcept;

  void note_difference(std::uint64_t index) noexcept {
    ++metrics.n_diff;
    note_first(metrics.first_diff, index);
  }
  void note_beyond(std::uint64_t index) noexcept {
    ++metrics.n_beyond;
    note_first(metrics.first_beyond, index);
  }

  /// Counts a pair of which at least one is NaN or Inf.
  /// @param bits_equal  for infinities also: equal as values
  void count_special(ValueClass baseline,
                     ValueClass candidate,
                     bool bits_equal,
                     std::uint64_t index,
                     const ElementPolicy& policy) noexcept {
    bool beyond = true;
    if (baseline.nan && candidate.nan) {
      ++(bits_equal ? metrics.nan_both_same : metrics.nan_both_payload);
      beyond = policy.equal_nan == configs::EqualNan::kNever ||
               (policy.equal_nan == configs::EqualNan::kBits && !bits_equal);
    } else if (baseline.nan) {
      ++metrics.nan_baseline;
    } else if (candidate.nan) {
      ++metrics.nan_candidate;
    } else if (baseline.inf && candidate.inf) {
      beyond = !bits_equal;
      if (!bits_equal) ++metrics.inf_sign;
    } else {
      ++(baseline.inf ? metrics.inf_baseline : metrics.inf_candidate);
    }
    if (bits_equal) {
      ++totals.special_equal;
    } else {
      note_difference(index);
    }
    if (beyond) note_beyond(index);
  }

  /// Takes one finite pair into the maxima and their indices, and into the tolerances that `policy`
  /// would have to have, of which it gives one: scalars that the vector loop leaves out. To be
  /// called in index order.
  /// @param abs, base  |c-b| and |b|
  void refine(double abs, double base, std::uint64_t index, const ElementPolicy& policy) noexcept {
    if (abs == 0) return;
    if (abs > totals.max_abs) {
      totals.max_abs = abs;
      metrics.max_abs_index = index;
    }
    if (base == 0) {
      note_first(totals.first_zero_base, index);
    } else {
      const double rel = abs / base;
      if (rel > totals.max_rel) {
        totals.max_rel = rel;
        metrics.max_rel_finite_index = index;
      }
      totals.needed_rtol = std::max(totals.needed_rtol, rel);
      while (totals.needed_rtol * base < abs) {
        totals.needed_rtol = std::nextafter(totals.needed_rtol, kInfinity);
      }
    }
    const auto passes = [abs, base](double rtol, double atol) { return abs <= atol + rtol * base; };
    if (policy.atol > 0 && abs > policy.atol + totals.given_rtol * base) {
      const double guess = (abs - policy.atol) / base;
      totals.given_rtol =
          base == 0 ? kInfinity
                    : least_passing(guess, [&](double rtol) { return passes(rtol, policy.atol); });
    }
    if (policy.rtol > 0 && abs > totals.given_atol + policy.rtol * base) {
      totals.given_atol = least_passing(abs - policy.rtol * base,
                                        [&](double atol) { return passes(policy.rtol, atol); });
    }
  }

  /// All of a finite pair whose values differ, one by one; its differing, `abs` and d2 apart.
  void count_unequal(double abs,
                     double base,
                     bool beyond,
                     std::uint64_t index,
                     const ElementPolicy& policy,
                     double& rel_sum) noexcept {
    const double rel = base > 0 ? abs / base : 0.0;
    rel_sum += rel;
    ++totals.n_unequal;
    if (base == 0) ++metrics.zero_baseline;
    if (base == 0 || rel >= 1e-3) ++totals.outside_1e3;
    if (base == 0 || rel >= 5e-3) ++totals.outside_5e3;
    if (beyond) note_beyond(index);
    totals.codes.add_rel(abs, base);
    refine(abs, base, index, policy);
  }

  /// Fills what follows from the sums. Null where no pair is finite, never 0 or NaN.
  void finish(const ElementPolicy& policy, Meaning meaning) noexcept;
};

/// Its lanes added, in a fixed order.
LeafTotals totals_of(const LeafSums& leaf) noexcept;
void add_sums(const LeafTotals& leaf, LeafTotals& to) noexcept;

/// A sum of squares left the range of double: infinite, or 0 although something is not. Without a
/// look at the values a zero sum of candidates is doubtful whenever anything else was not zero.
bool out_of_range(const PairTotals& totals) noexcept;

}  // namespace repro_check::comparators
