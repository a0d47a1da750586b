// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/leaf_pass.h"

#include <cstring>
#include <type_traits>

#include "core/tensor/element_number.h"

namespace repro_check::comparators {
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
    findings.metrics.n_finite += leaf.count;
    LeafSums sums;
    for (std::size_t i = 0; i < leaf.count; ++i) {
      add(baseline[i], candidate[i], leaf.first + i, i % kLanes, sums);
    }
    return sums;
  }

  void finish() override {
    if (findings.metrics.n_finite == 0) return;
    findings.metrics.max_abs_exact = findings.totals.max_exact;
    findings.metrics.mean_abs = exact_mean(findings.totals.sum_exact, findings.metrics.n_finite);
    findings.finish(policy, {.ulp = false, .exact_mean = true});
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
    if (from != 0) ++findings.totals.n_rel;
    if (from == to) return;
    if constexpr (std::is_signed_v<T>) {
      if ((from < 0 && to > 0) || (from > 0 && to < 0)) ++findings.metrics.flips;
    }
    if (is_limit(to) && !is_limit(from)) ++findings.metrics.saturated;
    add_unequal(distance(from, to), std::abs(b), index, lane, sums);
  }

  void add_unequal(
      std::uint64_t exact, double base, std::uint64_t index, std::size_t lane, LeafSums& sums) {
    const auto abs = static_cast<double>(exact);
    sums.d2[lane] += abs * abs;
    findings.totals.sum_exact += exact;
    findings.note_difference(index);
    const bool beyond = abs > policy.atol + policy.rtol * base;
    findings.count_unequal(abs, base, beyond, index, policy, sums.rel[lane]);
    if (exact <= findings.totals.max_exact) return;
    findings.totals.max_exact = exact;
    findings.metrics.max_abs_index = index;
  }
};

class BoolPass final : public LeafPass {
 public:
  using LeafPass::LeafPass;

  LeafSums measure(const PairLeaf& leaf) override {
    findings.metrics.n_finite += leaf.count;
    for (std::size_t i = 0; i < leaf.count; ++i) {
      if (leaf.baseline[i] != std::byte{0}) ++findings.totals.n_rel;
      if (leaf.baseline[i] != leaf.candidate[i]) {
        add_unequal(leaf.baseline[i], leaf.candidate[i], leaf.first + i);
      }
    }
    return {};
  }

  /// Equal share is the only share of a bool; a relative error or an angle says nothing.
  void finish() override {
    TensorMetrics& m = findings.metrics;
    if (m.elements == 0) return;
    const std::uint64_t unequal = findings.totals.n_unequal;
    const auto count = static_cast<double>(m.elements);
    m.zeros_both = m.elements - findings.totals.n_rel - m.false_to_true;
    m.max_abs = unequal != 0 ? 1.0 : 0.0;
    m.mean_abs = static_cast<double>(unequal) / count;
    m.within_1e3 = static_cast<double>(m.elements - unequal) / count;
    m.within_5e3 = m.within_1e3;
  }

 private:
  void add_unequal(std::byte from, std::byte to, std::uint64_t index) {
    findings.note_difference(index);
    const bool same_truth = (from != std::byte{0}) == (to != std::byte{0});
    ++(same_truth ? findings.metrics.noncanonical_bool : findings.totals.n_unequal);
    if (!same_truth)
      ++(from == std::byte{0} ? findings.metrics.false_to_true : findings.metrics.true_to_false);
    if (same_truth && !policy.canonical_bool) return;
    if (!same_truth) note_first(findings.metrics.max_abs_index, index);
    // A tolerance of 1 or more, in as many words, passes true against false.
    const double base = from != std::byte{0} ? 1.0 : 0.0;
    if (!same_truth && policy.atol + policy.rtol * base >= 1.0) return;
    findings.note_beyond(index);
  }
};

class OpaquePass final : public LeafPass {
 public:
  using LeafPass::LeafPass;

  LeafSums measure(const PairLeaf& leaf) override {
    for (std::size_t i = 0; i < leaf.count; ++i) {
      if (leaf.baseline[i] != leaf.candidate[i]) findings.note_difference(leaf.first + i);
    }
    return {};
  }
  void finish() override {
    findings.metrics.n_beyond = findings.metrics.n_diff;
    findings.metrics.first_beyond = findings.metrics.first_diff;
  }
};

struct Complex {
  double re = 0;
  double im = 0;
  std::uint64_t re_bits = 0;
  std::uint64_t im_bits = 0;

  [[nodiscard]] bool finite() const noexcept { return std::isfinite(re) && std::isfinite(im); }
  [[nodiscard]] ValueClass value_class() const noexcept {
    const bool nan = std::isnan(re) || std::isnan(im);
    return {nan, !nan && !finite()};
  }
  [[nodiscard]] bool same_bits(const Complex& other) const noexcept {
    return re_bits == other.re_bits && im_bits == other.im_bits;
  }
};

/// By modulus, as torch.isclose does it; ULP part by part.
class ComplexPass final : public LeafPass {
 public:
  ComplexPass(core::Dtype dtype, const ElementPolicy& of_elements)
      : LeafPass(of_elements),
        part_dtype_(core::part_dtype(dtype)),
        part_size_(core::element_size(part_dtype_)),
        min_normal_(core::row_of(part_dtype_).layout.min_normal()),
        max_finite_(core::row_of(part_dtype_).layout.max_finite()) {}

  LeafSums measure(const PairLeaf& leaf) override {
    LeafSums sums;
    for (std::size_t i = 0; i < leaf.count; ++i) {
      add(load(leaf.baseline, i), load(leaf.candidate, i), leaf.first + i, i % kLanes, sums);
    }
    return sums;
  }

  void finish() override { findings.finish(policy, {.parts = 2}); }

  [[nodiscard]] bool needs_rescue() const override {
    return part_dtype_ == core::Dtype::kFloat64 && out_of_range(findings.totals);
  }
  void for_each_finite(const PairLeaf& leaf, const TakePart& take) const override {
    for (std::size_t i = 0; i < leaf.count; ++i) {
      const Complex b = load(leaf.baseline, i);
      const Complex c = load(leaf.candidate, i);
      if (!b.finite() || !c.finite()) continue;
      take(2 * i, b.re, c.re);
      take(2 * i + 1, b.im, c.im);
    }
  }

 private:
  [[nodiscard]] Complex load(const std::byte* bytes, std::uint64_t index) const noexcept {
    const std::byte* at = bytes + index * 2 * part_size_;
    Complex value;
    std::memcpy(&value.re_bits, at, part_size_);
    std::memcpy(&value.im_bits, at + part_size_, part_size_);
    value.re = core::decode_float(part_dtype_, value.re_bits);
    value.im = core::decode_float(part_dtype_, value.im_bits);
    return value;
  }

  void add(
      const Complex& b, const Complex& c, std::uint64_t index, std::size_t lane, LeafSums& sums) {
    if (!b.finite() || !c.finite()) return add_special(b, c, index);
    ++findings.metrics.n_finite;
    sums.b2[lane] += b.re * b.re + b.im * b.im;
    sums.c2[lane] += c.re * c.re + c.im * c.im;
    sums.bc[lane] += b.re * c.re + b.im * c.im;
    if (b.re != 0 || b.im != 0) ++findings.totals.n_rel;
    if (b.same_bits(c)) return;
    count_edges(b, c);
    const double base = std::hypot(b.re, b.im);
    findings.note_difference(index);
    const double d_re = c.re - b.re;
    const double d_im = c.im - b.im;
    sums.d2[lane] += d_re * d_re + d_im * d_im;
    const std::uint64_t ulps =
        std::max(add_ulps(b.re_bits, c.re_bits), add_ulps(b.im_bits, c.im_bits));
    add_unequal(std::hypot(d_re, d_im), base, ulps, index, lane, sums);
  }

  /// An element once, whichever of its parts it is.
  void count_edges(const Complex& b, const Complex& c) {
    const auto saturates = [this](double from, double to) {
      return std::abs(from) < max_finite_ && std::abs(to) >= max_finite_;
    };
    const auto flushes = [this](double from, double to) {
      return from != to && (from == 0 || to == 0) && std::abs(from) + std::abs(to) < min_normal_;
    };
    if (saturates(b.re, c.re) || saturates(b.im, c.im)) ++findings.metrics.saturated;
    if (flushes(b.re, c.re) || flushes(b.im, c.im)) ++findings.metrics.flushed;
  }

  void add_special(const Complex& b, const Complex& c, std::uint64_t index) {
    count_edges(b, c);
    const ValueClass of_baseline = b.value_class();
    const bool same_value = of_baseline.inf && b.re == c.re && b.im == c.im;
    findings.count_special(
        of_baseline, c.value_class(), b.same_bits(c) || same_value, index, policy);
    if (!same_value || b.same_bits(c)) return;
    // An infinity beside zeros of other signs.
    findings.note_difference(index);
    ++findings.metrics.zero_sign_only;
    if (policy.signed_zero_distinct) findings.note_beyond(index);
  }

  void add_unequal(double abs,
                   double base,
                   std::uint64_t ulps,
                   std::uint64_t index,
                   std::size_t lane,
                   LeafSums& sums) {
    if (abs == 0) {
      ++findings.metrics.zero_sign_only;
      if (policy.signed_zero_distinct) findings.note_beyond(index);
      return;
    }
    sums.abs[lane] += abs;
    const bool beyond = abs > policy.atol + policy.rtol * base || ulps > policy.max_ulp;
    findings.count_unequal(abs, base, beyond, index, policy, sums.rel[lane]);
  }

  std::uint64_t add_ulps(std::uint64_t from, std::uint64_t to) {
    const std::uint64_t distance = core::ulp_distance(part_dtype_, from, to).value_or(0);
    findings.totals.ulp_max = std::max(findings.totals.ulp_max, distance);
    findings.totals.ulp_sum += distance;
    findings.totals.codes.add_ulp(distance);
    return distance;
  }

  core::Dtype part_dtype_;
  std::size_t part_size_;
  double min_normal_;
  double max_finite_;
};

}  // namespace

std::unique_ptr<LeafPass> make_pass(core::Dtype dtype, const ElementPolicy& policy) {
  if (dtype == core::Dtype::kBool) return std::make_unique<BoolPass>(policy);
  if (dtype == core::Dtype::kFloat4E2M1FNX2) return std::make_unique<OpaquePass>(policy);
  if (core::is_floating(dtype)) return make_float_pass(dtype, policy);
  if (core::is_complex(dtype)) return std::make_unique<ComplexPass>(dtype, policy);
  std::unique_ptr<LeafPass> pass;
  core::visit_integer(
      dtype, [&](auto zero) { pass = std::make_unique<IntegerPass<decltype(zero)>>(policy); });
  return pass;
}

}  // namespace repro_check::comparators
