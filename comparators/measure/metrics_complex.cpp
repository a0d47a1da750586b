// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "comparators/measure/leaf_pass.h"
#include "comparators/measure/pair_totals.h"
#include "comparators/measure/range_rescue.h"
#include "core/tensor/dtype_table.h"
#include "core/tensor/float_format.h"

namespace repro_check::comparators::detail {
namespace {

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
  ComplexPass(core::Dtype dtype, const ElementPolicy& policy)
      : LeafPass(policy),
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

  void finish() override { findings().finish(policy(), {.parts = 2}); }

  [[nodiscard]] bool needs_rescue() const override {
    return part_dtype_ == core::Dtype::kFloat64 && out_of_range(totals());
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
    ++metrics().n_finite;
    sums.b2[lane] += b.re * b.re + b.im * b.im;
    sums.c2[lane] += c.re * c.re + c.im * c.im;
    sums.bc[lane] += b.re * c.re + b.im * c.im;
    if (b.re != 0 || b.im != 0) ++totals().n_rel;
    if (b.same_bits(c)) return;
    count_edges(b, c);
    const double base = std::hypot(b.re, b.im);
    findings().note_difference(index);
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
    if (saturates(b.re, c.re) || saturates(b.im, c.im)) ++metrics().saturated;
    if (flushes(b.re, c.re) || flushes(b.im, c.im)) ++metrics().flushed;
  }

  void add_special(const Complex& b, const Complex& c, std::uint64_t index) {
    count_edges(b, c);
    const ValueClass of_baseline = b.value_class();
    const bool same_value = of_baseline.inf && b.re == c.re && b.im == c.im;
    findings().count_special(
        of_baseline, c.value_class(), b.same_bits(c) || same_value, index, policy());
    if (!same_value || b.same_bits(c)) return;
    // An infinity beside zeros of other signs.
    findings().note_difference(index);
    ++metrics().zero_sign_only;
    if (policy().signed_zero_distinct) findings().note_beyond(index);
  }

  void add_unequal(double abs,
                   double base,
                   std::uint64_t ulps,
                   std::uint64_t index,
                   std::size_t lane,
                   LeafSums& sums) {
    if (abs == 0) {
      ++metrics().zero_sign_only;
      if (policy().signed_zero_distinct) findings().note_beyond(index);
      return;
    }
    sums.abs[lane] += abs;
    const bool beyond = abs > policy().atol + policy().rtol * base || ulps > policy().max_ulp;
    findings().count_unequal(abs, base, beyond, index, policy(), sums.rel[lane]);
  }

  std::uint64_t add_ulps(std::uint64_t from, std::uint64_t to) {
    const std::uint64_t distance = core::ulp_distance(part_dtype_, from, to).value_or(0);
    totals().ulp_max = std::max(totals().ulp_max, distance);
    totals().ulp_sum += distance;
    totals().codes.add_ulp(distance);
    return distance;
  }

  core::Dtype part_dtype_;
  std::size_t part_size_;
  double min_normal_;
  double max_finite_;
};

}  // namespace

std::unique_ptr<LeafPass> make_complex_pass(core::Dtype dtype, const ElementPolicy& policy) {
  return std::make_unique<ComplexPass>(dtype, policy);
}

}  // namespace repro_check::comparators::detail
