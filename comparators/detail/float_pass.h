// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "comparators/detail/float_block.h"
#include "comparators/detail/float_formats.h"
#include "comparators/detail/pair_totals.h"
#include "comparators/metrics.h"

namespace repro_check::comparators::detail {

static_assert(kMetricLeaf % kBlock == 0 && kBlock % kLanes == 0 && kBlockLanes == kLanes);

/// One pass over the pairs of one tensor of a real floating dtype: takes out what is not finite,
/// hands blocks to the inner loop, and looks again at the blocks that hold something new.
template <typename Format>
class FloatPass {
 public:
  using Raw = typename Format::Raw;
  using Value = typename Format::Value;
  using Order = typename Format::Order;

  FloatPass(const Format& format, const ElementPolicy& policy, TensorMetrics& metrics)
      : format_(format), policy_(policy), metrics_(metrics) {}

  void run(const Raw* baseline, const Raw* candidate, std::uint64_t count) {
    for (std::uint64_t leaf = 0; leaf < count; leaf += kMetricLeaf) {
      const std::uint64_t end = std::min<std::uint64_t>(count, leaf + kMetricLeaf);
      BlockSums sums{};
      for (std::uint64_t at = leaf; at < end; at += kBlock) {
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, end - at));
        add_block(baseline + at, candidate + at, size, at, sums);
      }
      add_leaf(sums);
    }
  }

  PairTotals& totals() noexcept { return totals_; }

 private:
  void add_leaf(const BlockSums& sums) noexcept {
    totals_.add({std::to_array(sums.abs),
                 std::to_array(sums.rel),
                 std::to_array(sums.d2),
                 std::to_array(sums.b2),
                 std::to_array(sums.c2),
                 std::to_array(sums.bc)});
  }

  void add_block(const Raw* baseline,
                 const Raw* candidate,
                 std::size_t size,
                 std::uint64_t first,
                 BlockSums& sums) {
    const bool equal = std::memcmp(baseline, candidate, size * sizeof(Raw)) == 0;
    const bool special = any_special(baseline, size) || (!equal && any_special(candidate, size));
    metrics_.n_finite += size;
    if (special || size % kLanes != 0) {
      clean(baseline, candidate, size, first);
      baseline = clean_baseline_.data();
      candidate = clean_candidate_.data();
      size = (size + kLanes - 1) / kLanes * kLanes;
    }
    convert(baseline, size, values_[0]);
    if (equal) {
      totals_.n_rel += squares(values_[0].data(), size, sums);
      return;
    }
    convert(candidate, size, values_[1]);
    for (std::size_t i = 0; i < size; ++i) orders_[0][i] = format_.order(baseline[i]);
    for (std::size_t i = 0; i < size; ++i) orders_[1][i] = format_.order(candidate[i]);
    const BlockPairs<Value, Order> pairs{
        values_[0].data(), values_[1].data(), orders_[0].data(), orders_[1].data(), size};
    const BlockPolicy policy{policy_.rtol,
                             policy_.atol,
                             totals_.needed_rtol,
                             policy_.max_ulp,
                             policy_.signed_zero_distinct};
    take(loop(pairs, policy, sums), pairs, first);
  }

  [[nodiscard]] bool any_special(const Raw* raw, std::size_t size) const noexcept {
    unsigned special = 0;
    for (std::size_t i = 0; i < size; ++i) special |= format_.finite(raw[i]) ? 0U : 1U;
    return special != 0U;
  }

  void convert(const Raw* raw, std::size_t size, std::array<Value, kBlock>& into) const noexcept {
    for (std::size_t i = 0; i < size; ++i) into[i] = format_.value(raw[i]);
  }

  /// Copies the block, with pairs of 0 for padding and in the place of every NaN and Inf, which are
  /// counted here.
  void clean(const Raw* baseline, const Raw* candidate, std::size_t size, std::uint64_t first) {
    clean_baseline_.fill(format_.pad());
    clean_candidate_.fill(format_.pad());
    for (std::size_t i = 0; i < size; ++i) {
      const Raw from = baseline[i];
      const Raw to = candidate[i];
      if (format_.finite(from) && format_.finite(to)) {
        clean_baseline_[i] = from;
        clean_candidate_[i] = to;
        continue;
      }
      --metrics_.n_finite;
      count_special(
          class_of(from), class_of(to), from == to, first + i, policy_, totals_, metrics_);
    }
  }

  [[nodiscard]] ValueClass class_of(Raw raw) const noexcept {
    return {format_.nan(raw), !format_.finite(raw) && !format_.nan(raw)};
  }

  static BlockFindings loop(const NarrowPairs& pairs, const BlockPolicy& policy, BlockSums& sums) {
    return block_loops().narrow(pairs, policy, sums);
  }
  static BlockFindings loop(const WidePairs& pairs, const BlockPolicy& policy, BlockSums& sums) {
    return block_loops().wide(pairs, policy, sums);
  }
  static std::uint64_t squares(const float* values, std::size_t size, BlockSums& sums) {
    return block_loops().narrow_squares(values, size, sums);
  }
  static std::uint64_t squares(const double* values, std::size_t size, BlockSums& sums) {
    return block_loops().wide_squares(values, size, sums);
  }

  void take(const BlockFindings& found,
            const BlockPairs<Value, Order>& pairs,
            std::uint64_t first) noexcept {
    totals_.n_rel += found.n_rel;
    totals_.outside_1e3 += found.outside_1e3;
    totals_.outside_5e3 += found.outside_5e3;
    totals_.n_unequal += found.unequal;
    totals_.ulp_max = std::max(totals_.ulp_max, found.ulp_max);
    totals_.ulp_sum += (UInt128{found.ulp_high} << 32U) + found.ulp_low;
    metrics_.zero_baseline += found.zero_base;
    metrics_.n_diff += found.differ;
    metrics_.n_beyond += found.beyond;
    metrics_.zero_sign_only += found.differ - found.unequal;
    if (found.differ != 0 && (!metrics_.first_diff || *metrics_.first_diff > first)) {
      note_first(metrics_.first_diff, first + first_hit(pairs, false));
    }
    if (found.beyond != 0 && (!metrics_.first_beyond || *metrics_.first_beyond > first)) {
      note_first(metrics_.first_beyond, first + first_hit(pairs, true));
    }
    const bool news = found.max_abs > totals_.max_abs || found.max_rel > totals_.max_rel ||
                      found.short_of_rtol != 0 ||
                      (found.zero_base != 0 && !totals_.first_zero_base);
    if (!news) return;
    for (std::size_t i = 0; i < pairs.count; ++i) {
      const auto base = static_cast<double>(pairs.baseline[i]);
      const double abs = std::abs(static_cast<double>(pairs.candidate[i]) - base);
      refine_maxima(abs, std::abs(base), first + i, totals_, metrics_);
    }
  }

  static std::uint64_t order_distance(const BlockPairs<Value, Order>& pairs,
                                      std::size_t i) noexcept {
    const std::int64_t from = pairs.baseline_order[i];
    const std::int64_t to = pairs.candidate_order[i];
    return static_cast<std::uint64_t>(std::max(from, to)) -
           static_cast<std::uint64_t>(std::min(from, to));
  }

  [[nodiscard]] std::size_t first_hit(const BlockPairs<Value, Order>& pairs,
                                      bool beyond) const noexcept {
    for (std::size_t i = 0; i < pairs.count; ++i) {
      const auto base = static_cast<double>(pairs.baseline[i]);
      const auto other = static_cast<double>(pairs.candidate[i]);
      const double abs = std::abs(other - base);
      const bool zero_sign = abs == 0 && std::signbit(base) != std::signbit(other);
      const bool differs = abs > 0 || zero_sign;
      const bool fails = abs > policy_.atol + policy_.rtol * std::abs(base) ||
                         order_distance(pairs, i) > policy_.max_ulp ||
                         (zero_sign && policy_.signed_zero_distinct);
      if (beyond ? fails : differs) return i;
    }
    return pairs.count;
  }

  Format format_;
  ElementPolicy policy_;
  TensorMetrics& metrics_;
  PairTotals totals_;
  std::array<Raw, kBlock> clean_baseline_{};
  std::array<Raw, kBlock> clean_candidate_{};
  std::array<std::array<Value, kBlock>, 2> values_{};
  std::array<std::array<Order, kBlock>, 2> orders_{};
};

}  // namespace repro_check::comparators::detail
