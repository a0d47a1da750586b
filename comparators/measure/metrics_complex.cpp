// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "comparators/measure/float_formats.h"
#include "comparators/measure/leaf_pass.h"
#include "comparators/measure/pair_totals.h"
#include "comparators/measure/range_rescue.h"
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
  // Above what uses its type.
  [[nodiscard]] auto parts_of(const PairLeaf& leaf) const {
    return [this, leaf](std::size_t part) {
      const Complex b = load(leaf.baseline, part / 2);
      const Complex c = load(leaf.candidate, part / 2);
      const bool real = part % 2 == 0;
      return std::tuple(b.finite() && c.finite(), real ? b.re : b.im, real ? c.re : c.im);
    };
  }

 public:
  ComplexPass(core::Dtype dtype, const ElementPolicy& policy) : LeafPass(policy) {
    part_dtype_ = core::part_dtype(dtype);
    part_size_ = core::element_size(part_dtype_);
    const auto take_limits = [this](const auto& format) {
      min_normal_ = format.min_normal();
      max_finite_ = format.max_finite();
    };
    if (part_dtype_ == core::Dtype::kFloat16) {
      take_limits(Float16Format{});
    } else if (part_dtype_ == core::Dtype::kFloat32) {
      take_limits(Float32Format{});
    } else {
      take_limits(Float64Format{});
    }
  }

  LeafSums measure(const PairLeaf& leaf) override {
    LeafSums sums;
    for (std::size_t i = 0; i < leaf.count; ++i) {
      add(load(leaf.baseline, i), load(leaf.candidate, i), leaf.first + i, i % kLanes, sums);
    }
    return sums;
  }

  void finish() override { finish_metrics(totals(), policy(), {.parts = 2}, metrics()); }

  [[nodiscard]] bool needs_rescue() const override {
    return part_dtype_ == core::Dtype::kFloat64 && out_of_range(totals());
  }
  void widen(const PairLeaf& leaf, Range& range) const override {
    widen_range(2 * leaf.count, parts_of(leaf), range);
  }
  [[nodiscard]] SquareSums scaled(const PairLeaf& leaf, const Scale& scale) const override {
    return scaled_sums(2 * leaf.count, parts_of(leaf), scale);
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
    ++metrics().n_diff;
    note_first(metrics().first_diff, index);
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
    count_special(of_baseline,
                  c.value_class(),
                  b.same_bits(c) || same_value,
                  index,
                  policy(),
                  totals(),
                  metrics());
    if (!same_value || b.same_bits(c)) return;
    // An infinity beside zeros of other signs.
    ++metrics().n_diff;
    ++metrics().zero_sign_only;
    note_first(metrics().first_diff, index);
    if (!policy().signed_zero_distinct) return;
    ++metrics().n_beyond;
    note_first(metrics().first_beyond, index);
  }

  void add_unequal(double abs,
                   double base,
                   std::uint64_t ulps,
                   std::uint64_t index,
                   std::size_t lane,
                   LeafSums& sums) {
    const bool only_zero_sign = abs == 0;
    const bool beyond = only_zero_sign
                            ? policy().signed_zero_distinct
                            : abs > policy().atol + policy().rtol * base || ulps > policy().max_ulp;
    if (beyond) {
      ++metrics().n_beyond;
      note_first(metrics().first_beyond, index);
    }
    if (only_zero_sign) {
      ++metrics().zero_sign_only;
      return;
    }
    const double rel = base > 0 ? abs / base : 0.0;
    sums.abs[lane] += abs;
    sums.rel[lane] += rel;
    ++totals().n_unequal;
    if (base == 0) ++metrics().zero_baseline;
    if (base == 0 || rel >= kWithinOneThousandth) ++totals().outside_1e3;
    if (base == 0 || rel >= kWithinFiveThousandths) ++totals().outside_5e3;
    totals().codes.add_rel(abs, base);
    refine_maxima(abs, base, index, totals(), metrics());
    refine_given(abs, base, policy(), totals());
  }

  std::uint64_t add_ulps(std::uint64_t from, std::uint64_t to) {
    const std::uint64_t distance = core::ulp_distance(part_dtype_, from, to).value_or(0);
    totals().ulp_max = std::max(totals().ulp_max, distance);
    totals().ulp_sum += distance;
    totals().codes.add_ulp(distance);
    return distance;
  }

  core::Dtype part_dtype_ = core::Dtype::kFloat32;
  std::size_t part_size_ = 0;
  double min_normal_ = 0;
  double max_finite_ = 0;
};

}  // namespace

std::unique_ptr<LeafPass> make_complex_pass(core::Dtype dtype, const ElementPolicy& policy) {
  return std::make_unique<ComplexPass>(dtype, policy);
}

}  // namespace repro_check::comparators::detail
