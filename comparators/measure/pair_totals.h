// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "comparators/measure/error_codes.h"
#include "comparators/measure/lanes.h"
#include "comparators/measure/policy.h"
#include "comparators/report/report.h"

namespace repro_check::comparators::detail {

inline constexpr double kWithinOneThousandth = 1e-3;
inline constexpr double kWithinFiveThousandths = 5e-3;

/// Sums of one leaf, over pairs that are both finite. d = c - b.
struct LeafSums {
  Lanes abs{};
  Lanes rel{};
  Lanes d2{};
  Lanes b2{};
  Lanes c2{};
  Lanes bc{};
};

/// Those of one leaf or of several, lanes added.
struct LeafTotals {
  double abs = 0;
  double rel = 0;
  double d2 = 0;
  double b2 = 0;
  double c2 = 0;
  double bc = 0;

  LeafTotals() = default;
  explicit LeafTotals(const LeafSums& leaf) noexcept
      : abs(sum_of_lanes(leaf.abs)),
        rel(sum_of_lanes(leaf.rel)),
        d2(sum_of_lanes(leaf.d2)),
        b2(sum_of_lanes(leaf.b2)),
        c2(sum_of_lanes(leaf.c2)),
        bc(sum_of_lanes(leaf.bc)) {}

  void add(const LeafTotals& leaf) noexcept {
    abs += leaf.abs;
    rel += leaf.rel;
    d2 += leaf.d2;
    b2 += leaf.b2;
    c2 += leaf.c2;
    bc += leaf.bc;
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

/// What was found of some leaves of a pair: counts and maxima in their places in TensorMetrics.
struct PairFindings {
  TensorMetrics metrics;
  PairTotals totals;

  /// Takes in what was found of other leaves; `sums` apart, in any order.
  void merge(const PairFindings& other) noexcept;
};

inline void note_first(std::optional<std::uint64_t>& first, std::uint64_t index) noexcept {
  if (!first || index < *first) first = index;
}

/// Classes of one value.
struct ValueClass {
  bool nan = false;
  bool inf = false;
};

/// Counts a pair of which at least one is NaN or Inf.
/// @param bits_equal  for infinities also: equal as values
void count_special(ValueClass baseline,
                   ValueClass candidate,
                   bool bits_equal,
                   std::uint64_t index,
                   const ElementPolicy& policy,
                   PairTotals& totals,
                   TensorMetrics& metrics) noexcept;

/// Takes one finite pair into the maxima and their indices, scalars that the vector loop leaves
/// out. To be called in index order.
/// @param abs, base  |c-b| and |b|
void refine_maxima(double abs,
                   double base,
                   std::uint64_t index,
                   PairTotals& totals,
                   TensorMetrics& metrics) noexcept;

/// The same for the tolerances that `policy` would have to have, of which it gives one.
void refine_given(double abs,
                  double base,
                  const ElementPolicy& policy,
                  PairTotals& totals) noexcept;

/// Which of the metrics have a meaning for the dtype.
struct Meaning {
  bool ulp = true;
  bool exact_mean = false;  ///< mean_abs is set already
  unsigned parts = 1;       ///< numbers in an element
};

/// Fills what follows from the sums. Null where no pair is finite, never 0 or NaN.
void finish_metrics(const PairTotals& totals,
                    const ElementPolicy& policy,
                    Meaning meaning,
                    TensorMetrics& metrics) noexcept;

/// Whether there is a tolerance to look for beside that of the policy.
inline bool has_tolerance(const ElementPolicy& policy) noexcept {
  return policy.rtol > 0 || policy.atol > 0;
}

}  // namespace repro_check::comparators::detail
