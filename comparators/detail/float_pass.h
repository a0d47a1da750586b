// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "comparators/detail/float_block.h"
#include "comparators/detail/float_formats.h"
#include "comparators/detail/leaf_pass.h"
#include "comparators/detail/pair_totals.h"
#include "comparators/metrics.h"

namespace repro_check::comparators::detail {

static_assert(kMetricLeaf % kBlock == 0 && kBlock % kLanes == 0 && kBlockLanes == kLanes);

/// Measures pairs of a real floating dtype: takes out what is not finite,
/// hands blocks to the inner loop, and looks again at the blocks that hold something new.
template <typename Format>
class FloatPass final : public LeafPass {
  using Raw = typename Format::Raw;
  using Value = typename Format::Value;
  using Order = typename Format::Order;

  // Above what uses its type.
  [[nodiscard]] auto pairs_of(const PairLeaf& leaf) const {
    const auto* baseline = reinterpret_cast<const Raw*>(leaf.baseline);
    const auto* candidate = reinterpret_cast<const Raw*>(leaf.candidate);
    return [this, baseline, candidate](std::size_t i) {
      return std::tuple(format_.finite(baseline[i]) && format_.finite(candidate[i]),
                        static_cast<double>(format_.value(baseline[i])),
                        static_cast<double>(format_.value(candidate[i])));
    };
  }

 public:
  FloatPass(const Format& format, const ElementPolicy& policy)
      : LeafPass(policy), format_(format) {}

  LeafSums measure(const PairLeaf& leaf) override {
    const auto* baseline = reinterpret_cast<const Raw*>(leaf.baseline);
    const auto* candidate = reinterpret_cast<const Raw*>(leaf.candidate);
    BlockSums sums{};
    for (std::size_t at = 0; at < leaf.count; at += kBlock) {
      const std::size_t size = std::min(kBlock, leaf.count - at);
      add_block(baseline + at, candidate + at, size, leaf.first + at, sums);
    }
    return {std::to_array(sums.abs),
            std::to_array(sums.rel),
            std::to_array(sums.d2),
            std::to_array(sums.b2),
            std::to_array(sums.c2),
            std::to_array(sums.bc)};
  }

  void finish() override { finish_metrics(totals(), {}, metrics()); }

  /// No narrower dtype can leave the range of double's squares.
  [[nodiscard]] bool needs_rescue() const override {
    return sizeof(Raw) == sizeof(double) && out_of_range(totals());
  }
  void widen(const PairLeaf& leaf, Range& range) const override {
    widen_range(leaf.count, pairs_of(leaf), range);
  }
  [[nodiscard]] SquareSums scaled(const PairLeaf& leaf, const Scale& scale) const override {
    return scaled_sums(leaf.count, pairs_of(leaf), scale);
  }

 private:
  void add_block(const Raw* baseline,
                 const Raw* candidate,
                 std::size_t size,
                 std::uint64_t first,
                 BlockSums& sums) {
    const bool equal = std::memcmp(baseline, candidate, size * sizeof(Raw)) == 0;
    const bool special = any_special(baseline, size) || (!equal && any_special(candidate, size));
    metrics().n_finite += size;
    if (special || size % kLanes != 0) {
      clean(baseline, candidate, size, first);
      baseline = clean_baseline_.data();
      candidate = clean_candidate_.data();
      size = (size + kLanes - 1) / kLanes * kLanes;
    }
    convert(baseline, size, values_[0]);
    if (equal) {
      totals().n_rel += squares(values_[0].data(), size, sums);
      return;
    }
    convert(candidate, size, values_[1]);
    for (std::size_t i = 0; i < size; ++i) orders_[0][i] = format_.order(baseline[i]);
    for (std::size_t i = 0; i < size; ++i) orders_[1][i] = format_.order(candidate[i]);
    const BlockPairs<Value, Order> pairs{
        values_[0].data(), values_[1].data(), orders_[0].data(), orders_[1].data(), size};
    take(loop(pairs, sums), pairs, first);
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
      --metrics().n_finite;
      count_special(
          class_of(from), class_of(to), from == to, first + i, policy(), totals(), metrics());
    }
  }

  [[nodiscard]] ValueClass class_of(Raw raw) const noexcept {
    return {format_.nan(raw), !format_.finite(raw) && !format_.nan(raw)};
  }

  [[nodiscard]] BlockPolicy block_policy() const noexcept {
    return {policy().rtol, policy().atol, totals().needed_rtol, policy().signed_zero_distinct};
  }
  BlockFindings loop(const NarrowPairs& pairs, BlockSums& sums) const {
    return block_loops().narrow(pairs, block_policy(), sums);
  }
  BlockFindings loop(const WidePairs& pairs, BlockSums& sums) const {
    return block_loops().wide(pairs, block_policy(), sums);
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
    totals().n_rel += found.n_rel;
    totals().outside_1e3 += found.outside_1e3;
    totals().outside_5e3 += found.outside_5e3;
    totals().n_unequal += found.unequal;
    totals().ulp_max = std::max(totals().ulp_max, found.ulp_max);
    totals().ulp_sum += (UInt128{found.ulp_high} << 32U) + found.ulp_low;
    metrics().zero_baseline += found.zero_base;
    metrics().n_diff += found.differ;
    metrics().n_beyond += found.beyond;
    metrics().zero_sign_only += found.differ - found.unequal;
    if (found.differ != 0 && (!metrics().first_diff || *metrics().first_diff > first)) {
      note_first(metrics().first_diff, first + first_hit(pairs, false));
    }
    if (found.beyond != 0 && (!metrics().first_beyond || *metrics().first_beyond > first)) {
      note_first(metrics().first_beyond, first + first_hit(pairs, true));
    }
    const bool news = found.max_abs > totals().max_abs || found.max_rel > totals().max_rel ||
                      found.short_of_rtol != 0 ||
                      (found.zero_base != 0 && !totals().first_zero_base);
    if (!news) return;
    for (std::size_t i = 0; i < pairs.count; ++i) {
      const auto base = static_cast<double>(pairs.baseline[i]);
      const double abs = std::abs(static_cast<double>(pairs.candidate[i]) - base);
      refine_maxima(abs, std::abs(base), first + i, totals(), metrics());
    }
  }

  [[nodiscard]] std::size_t first_hit(const BlockPairs<Value, Order>& pairs,
                                      bool beyond) const noexcept {
    for (std::size_t i = 0; i < pairs.count; ++i) {
      const auto base = static_cast<double>(pairs.baseline[i]);
      const auto other = static_cast<double>(pairs.candidate[i]);
      const double abs = std::abs(other - base);
      const bool zero_sign = abs == 0 && std::signbit(base) != std::signbit(other);
      const bool differs = abs > 0 || zero_sign;
      const bool fails = abs > policy().atol + policy().rtol * std::abs(base) ||
                         (zero_sign && policy().signed_zero_distinct);
      if (beyond ? fails : differs) return i;
    }
    return pairs.count;
  }

  Format format_;
  std::array<Raw, kBlock> clean_baseline_{};
  std::array<Raw, kBlock> clean_candidate_{};
  std::array<std::array<Value, kBlock>, 2> values_{};
  std::array<std::array<Order, kBlock>, 2> orders_{};
};

}  // namespace repro_check::comparators::detail
