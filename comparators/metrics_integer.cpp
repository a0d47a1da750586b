// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "comparators/detail/metric_passes.h"
#include "comparators/detail/pair_totals.h"
#include "comparators/metrics.h"

namespace repro_check::comparators::detail {
namespace {

/// Exact where it matters: |c-b| of two int64 needs all of uint64, and 2^60 against 2^60+1 is lost
/// in a double.
template <typename T>
class IntegerPass {
 public:
  IntegerPass(const ElementPolicy& policy, TensorMetrics& metrics)
      : policy_(policy), metrics_(metrics) {}

  void run(const T* baseline, const T* candidate, std::uint64_t count) {
    metrics_.n_finite = count;
    for (std::uint64_t leaf = 0; leaf < count; leaf += kMetricLeaf) {
      const std::uint64_t end = std::min<std::uint64_t>(count, leaf + kMetricLeaf);
      LeafSums sums;
      for (std::uint64_t i = leaf; i < end; ++i) {
        add(baseline[i], candidate[i], i, (i - leaf) % kLanes, sums);
      }
      totals_.add(sums);
    }
    if (count == 0) return;
    metrics_.max_abs_exact = max_abs_;
    metrics_.mean_abs = static_cast<double>(sum_abs_) / static_cast<double>(count);
    finish_metrics(totals_, {.ulp = false, .exact_mean = true}, metrics_);
  }

 private:
  static std::uint64_t distance(T from, T to) noexcept {
    // NOLINTBEGIN(bugprone-signed-char-misuse): modulo 2^64 the sign's extension is what is wanted.
    const auto low = static_cast<std::uint64_t>(std::min(from, to));
    const auto high = static_cast<std::uint64_t>(std::max(from, to));
    // NOLINTEND(bugprone-signed-char-misuse)
    return high - low;
  }

  void add(T from, T to, std::uint64_t index, std::size_t lane, LeafSums& sums) {
    const auto b = static_cast<double>(from);
    const auto c = static_cast<double>(to);
    sums.b2[lane] += b * b;
    sums.c2[lane] += c * c;
    sums.bc[lane] += b * c;
    if (from != 0) ++totals_.n_rel;
    if (from != to) add_unequal(distance(from, to), std::abs(b), index, lane, sums);
  }

  void add_unequal(
      std::uint64_t exact, double base, std::uint64_t index, std::size_t lane, LeafSums& sums) {
    const auto abs = static_cast<double>(exact);
    const double rel = base > 0 ? abs / base : 0.0;
    sums.d2[lane] += abs * abs;
    sums.rel[lane] += rel;
    sum_abs_ += exact;
    ++metrics_.n_diff;
    ++totals_.n_unequal;
    note_first(metrics_.first_diff, index);
    if (base == 0) ++metrics_.zero_baseline;
    if (base == 0 || rel >= kWithinOneThousandth) ++totals_.outside_1e3;
    if (base == 0 || rel >= kWithinFiveThousandths) ++totals_.outside_5e3;
    if (abs > policy_.atol + policy_.rtol * base) {
      ++metrics_.n_beyond;
      note_first(metrics_.first_beyond, index);
    }
    refine_maxima(abs, base, index, totals_, metrics_);
    if (exact <= max_abs_) return;
    max_abs_ = exact;
    metrics_.max_abs_index = index;
  }

  ElementPolicy policy_;
  TensorMetrics& metrics_;
  PairTotals totals_;
  std::uint64_t max_abs_ = 0;
  UInt128 sum_abs_ = 0;
};

template <typename T>
void measure_as(const PairInput& input, const ElementPolicy& policy, TensorMetrics& metrics) {
  IntegerPass<T> pass(policy, metrics);
  pass.run(reinterpret_cast<const T*>(input.baseline),
           reinterpret_cast<const T*>(input.candidate),
           input.count);
}

/// Equal share is the only share of a bool; a relative error or an angle says nothing.
void finish_bools(std::uint64_t unequal, TensorMetrics& metrics) noexcept {
  if (metrics.elements == 0) return;
  const auto count = static_cast<double>(metrics.elements);
  metrics.n_finite = metrics.elements;
  metrics.max_abs = unequal != 0 ? 1.0 : 0.0;
  metrics.mean_abs = static_cast<double>(unequal) / count;
  metrics.within_1e3 = static_cast<double>(metrics.elements - unequal) / count;
  metrics.within_5e3 = metrics.within_1e3;
}

}  // namespace

void measure_integers(const PairInput& input, const ElementPolicy& policy, TensorMetrics& metrics) {
  using core::Dtype;
  switch (input.dtype) {
    case Dtype::kUInt8:
    case Dtype::kQUInt8:
      return measure_as<std::uint8_t>(input, policy, metrics);
    case Dtype::kUInt16:
      return measure_as<std::uint16_t>(input, policy, metrics);
    case Dtype::kUInt32:
      return measure_as<std::uint32_t>(input, policy, metrics);
    case Dtype::kUInt64:
      return measure_as<std::uint64_t>(input, policy, metrics);
    case Dtype::kInt8:
    case Dtype::kQInt8:
      return measure_as<std::int8_t>(input, policy, metrics);
    case Dtype::kInt16:
      return measure_as<std::int16_t>(input, policy, metrics);
    case Dtype::kInt32:
    case Dtype::kQInt32:
      return measure_as<std::int32_t>(input, policy, metrics);
    default:
      return measure_as<std::int64_t>(input, policy, metrics);
  }
}

void measure_bools(const PairInput& input, const ElementPolicy& policy, TensorMetrics& metrics) {
  std::uint64_t unequal = 0;
  for (std::uint64_t i = 0; i < input.count; ++i) {
    const std::byte from = input.baseline[i];
    const std::byte to = input.candidate[i];
    if (from == to) continue;
    ++metrics.n_diff;
    note_first(metrics.first_diff, i);
    const bool same_truth = (from != std::byte{0}) == (to != std::byte{0});
    ++(same_truth ? metrics.noncanonical_bool : unequal);
    if (same_truth && !policy.canonical_bool) continue;
    if (!same_truth) note_first(metrics.max_abs_index, i);
    // A tolerance of 1 or more, in as many words, passes true against false.
    const double base = from != std::byte{0} ? 1.0 : 0.0;
    if (!same_truth && policy.atol + policy.rtol * base >= 1.0) continue;
    ++metrics.n_beyond;
    note_first(metrics.first_beyond, i);
  }
  finish_bools(unequal, metrics);
}

void measure_opaque(const PairInput& input, TensorMetrics& metrics) {
  for (std::uint64_t i = 0; i < input.count; ++i) {
    if (input.baseline[i] == input.candidate[i]) continue;
    ++metrics.n_diff;
    note_first(metrics.first_diff, i);
  }
  metrics.n_beyond = metrics.n_diff;
  metrics.first_beyond = metrics.first_diff;
}

}  // namespace repro_check::comparators::detail
