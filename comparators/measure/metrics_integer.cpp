// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "comparators/measure/leaf_pass.h"
#include "comparators/measure/pair_totals.h"
#include "core/tensor/dtype_table.h"

namespace repro_check::comparators::detail {
namespace {

/// sum / count, rounded once.
double exact_mean(UInt128 sum, std::uint64_t count) noexcept {
  // A quotient of 55 bits or more, and whether anything is left of it, are all that rounding to 53
  // looks at. It is no mean of 64-bit numbers that has more than 64.
  constexpr int kEnough = 55;
  int shift = 0;
  UInt128 quotient = sum / count;
  while (sum != 0 && (quotient >> kEnough) == 0) {
    sum <<= 1U;
    ++shift;
    quotient = sum / count;
  }
  const std::uint64_t sticky = quotient * count != sum ? 1 : 0;
  return std::ldexp(static_cast<double>(static_cast<std::uint64_t>(quotient) | sticky), -shift);
}

/// Exact where it matters: |c-b| of two int64 needs all of uint64, and 2^60 against 2^60+1 is lost
/// in a double.
template <typename T>
class IntegerPass final : public LeafPass {
 public:
  using LeafPass::LeafPass;

  LeafSums measure(const PairLeaf& leaf) override {
    const auto* baseline = reinterpret_cast<const T*>(leaf.baseline);
    const auto* candidate = reinterpret_cast<const T*>(leaf.candidate);
    metrics().n_finite += leaf.count;
    LeafSums sums;
    for (std::size_t i = 0; i < leaf.count; ++i) {
      add(baseline[i], candidate[i], leaf.first + i, i % kLanes, sums);
    }
    return sums;
  }

  void finish() override {
    if (metrics().n_finite == 0) return;
    metrics().max_abs_exact = totals().max_exact;
    metrics().mean_abs = exact_mean(totals().sum_exact, metrics().n_finite);
    findings().finish(policy(), {.ulp = false, .exact_mean = true});
  }

 private:
  static std::uint64_t distance(T from, T to) noexcept {
    // NOLINTBEGIN(bugprone-signed-char-misuse): modulo 2^64 the sign's extension is what is wanted.
    const auto low = static_cast<std::uint64_t>(std::min(from, to));
    const auto high = static_cast<std::uint64_t>(std::max(from, to));
    // NOLINTEND(bugprone-signed-char-misuse)
    return high - low;
  }

  /// The least unsigned number is no limit but 0.
  static bool is_limit(T value) noexcept {
    using Limits = std::numeric_limits<T>;
    return value == Limits::max() || (std::is_signed_v<T> && value == Limits::min());
  }

  void add(T from, T to, std::uint64_t index, std::size_t lane, LeafSums& sums) {
    const auto b = static_cast<double>(from);
    const auto c = static_cast<double>(to);
    sums.b2[lane] += b * b;
    sums.c2[lane] += c * c;
    sums.bc[lane] += b * c;
    if (from != 0) ++totals().n_rel;
    if (from == to) return;
    if constexpr (std::is_signed_v<T>) {
      if ((from < 0 && to > 0) || (from > 0 && to < 0)) ++metrics().flips;
    }
    if (is_limit(to) && !is_limit(from)) ++metrics().saturated;
    add_unequal(distance(from, to), std::abs(b), index, lane, sums);
  }

  void add_unequal(
      std::uint64_t exact, double base, std::uint64_t index, std::size_t lane, LeafSums& sums) {
    const auto abs = static_cast<double>(exact);
    sums.d2[lane] += abs * abs;
    totals().sum_exact += exact;
    findings().note_difference(index);
    const bool beyond = abs > policy().atol + policy().rtol * base;
    findings().count_unequal(abs, base, beyond, index, policy(), sums.rel[lane]);
    if (exact <= totals().max_exact) return;
    totals().max_exact = exact;
    metrics().max_abs_index = index;
  }
};

class BoolPass final : public LeafPass {
 public:
  using LeafPass::LeafPass;

  LeafSums measure(const PairLeaf& leaf) override {
    metrics().n_finite += leaf.count;
    for (std::size_t i = 0; i < leaf.count; ++i) {
      if (leaf.baseline[i] != std::byte{0}) ++totals().n_rel;
      if (leaf.baseline[i] != leaf.candidate[i]) {
        add_unequal(leaf.baseline[i], leaf.candidate[i], leaf.first + i);
      }
    }
    return {};
  }

  /// Equal share is the only share of a bool; a relative error or an angle says nothing.
  void finish() override {
    TensorMetrics& m = metrics();
    if (m.elements == 0) return;
    const std::uint64_t unequal = totals().n_unequal;
    const auto count = static_cast<double>(m.elements);
    m.zeros_both = m.elements - totals().n_rel - m.false_to_true;
    m.max_abs = unequal != 0 ? 1.0 : 0.0;
    m.mean_abs = static_cast<double>(unequal) / count;
    m.within_1e3 = static_cast<double>(m.elements - unequal) / count;
    m.within_5e3 = m.within_1e3;
  }

 private:
  void add_unequal(std::byte from, std::byte to, std::uint64_t index) {
    findings().note_difference(index);
    const bool same_truth = (from != std::byte{0}) == (to != std::byte{0});
    ++(same_truth ? metrics().noncanonical_bool : totals().n_unequal);
    if (!same_truth) ++(from == std::byte{0} ? metrics().false_to_true : metrics().true_to_false);
    if (same_truth && !policy().canonical_bool) return;
    if (!same_truth) note_first(metrics().max_abs_index, index);
    // A tolerance of 1 or more, in as many words, passes true against false.
    const double base = from != std::byte{0} ? 1.0 : 0.0;
    if (!same_truth && policy().atol + policy().rtol * base >= 1.0) return;
    findings().note_beyond(index);
  }
};

class OpaquePass final : public LeafPass {
 public:
  using LeafPass::LeafPass;

  LeafSums measure(const PairLeaf& leaf) override {
    for (std::size_t i = 0; i < leaf.count; ++i) {
      if (leaf.baseline[i] != leaf.candidate[i]) findings().note_difference(leaf.first + i);
    }
    return {};
  }
  void finish() override {
    metrics().n_beyond = metrics().n_diff;
    metrics().first_beyond = metrics().first_diff;
  }
};

}  // namespace

std::unique_ptr<LeafPass> make_integer_pass(core::Dtype dtype, const ElementPolicy& policy) {
  std::unique_ptr<LeafPass> pass;
  core::visit_integer(
      dtype, [&](auto zero) { pass = std::make_unique<IntegerPass<decltype(zero)>>(policy); });
  return pass;
}

std::unique_ptr<LeafPass> make_bool_pass(const ElementPolicy& policy) {
  return std::make_unique<BoolPass>(policy);
}

std::unique_ptr<LeafPass> make_opaque_pass(const ElementPolicy& policy) {
  return std::make_unique<OpaquePass>(policy);
}

}  // namespace repro_check::comparators::detail
