// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "comparators/measure/float_block.h"
#include "comparators/measure/policy.h"
#include "comparators/report/report.h"
#include "core/tensor/dtype.h"

namespace repro_check::comparators {

__extension__ using UInt128 = unsigned __int128;

/// Lanes added.
using LeafTotals = ErrorSums<double>;
LeafTotals totals_of(const LeafSums& leaf) noexcept;
void add_sums(const LeafTotals& leaf, LeafTotals& to) noexcept;

/// How many pairs have which code of float_block.h; pairs without a difference may be left out.
struct ErrorCodes {
  std::array<std::uint64_t, kUlpCodes> ulp{};
  std::array<std::uint64_t, kRelCodes> rel{};

  void merge(const ErrorCodes& other) noexcept;

  // What the loops over blocks of floats do, for one pair.
  void add_ulp(std::uint64_t distance) noexcept;
  /// @param abs, base  |c-b|, not 0, and |b|
  void add_rel(double abs, double base) noexcept;
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
                     const ElementPolicy& policy) noexcept;

  /// Takes one finite pair into the maxima and their indices, and into the tolerances that `policy`
  /// would have to have, of which it gives one: scalars that the vector loop leaves out. To be
  /// called in index order.
  /// @param abs, base  |c-b| and |b|
  void refine(double abs, double base, std::uint64_t index, const ElementPolicy& policy) noexcept;

  /// All of a finite pair whose values differ, one by one; its differing, `abs` and d2 apart.
  void count_unequal(double abs,
                     double base,
                     bool beyond,
                     std::uint64_t index,
                     const ElementPolicy& policy,
                     double& rel_sum) noexcept;

  /// Fills what follows from the sums. Null where no pair is finite, never 0 or NaN.
  void finish(const ElementPolicy& policy, Meaning meaning) noexcept;
};

/// Elements whose sums are made together; the leaves are added in order. It never straddles a chunk
/// of the digest.
inline constexpr std::size_t kMetricLeaf = 65'536;

/// One leaf of both contents, aligned for its dtype.
struct PairLeaf {
  const std::byte* baseline = nullptr;
  const std::byte* candidate = nullptr;
  std::size_t count = 0;    ///< elements, at most kMetricLeaf
  std::uint64_t first = 0;  ///< index of the first of them
};

/// What one thread measures, leaf by leaf in ascending order. Findings of several threads merge to
/// the same, whoever took which leaf; only the sums of a leaf depend on an order, and those are the
/// caller's to add.
class LeafPass {
 public:
  explicit LeafPass(const ElementPolicy& of_elements) : policy(of_elements) {}
  LeafPass(const LeafPass&) = delete;
  LeafPass& operator=(const LeafPass&) = delete;
  LeafPass(LeafPass&&) = delete;
  LeafPass& operator=(LeafPass&&) = delete;
  virtual ~LeafPass() = default;

  /// Counts the leaf into the findings. @return its sums
  virtual LeafSums measure(const PairLeaf& leaf) = 0;

  /// Fills the metrics that follow from the findings, merged from all threads, with the sums of all
  /// leaves in them.
  virtual void finish() = 0;

  /// Whether a sum of squares left the range of double: then the leaves are gone through twice
  /// more.
  [[nodiscard]] virtual bool needs_rescue() const { return false; }
  using TakePart = std::function<void(std::size_t part, double baseline, double candidate)>;
  /// Calls `take` with all finite pairs of a leaf, real number by real number: a complex element is
  /// two of them.
  virtual void for_each_finite(const PairLeaf& /*leaf*/, const TakePart& /*take*/) const {}

  const ElementPolicy policy;
  PairFindings findings;
};

/// The one for `dtype`, which is not kUnknown.
std::unique_ptr<LeafPass> make_pass(core::Dtype dtype, const ElementPolicy& policy);

}  // namespace repro_check::comparators
