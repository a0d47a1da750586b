// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "comparators/detail/metric_passes.h"
#include "comparators/detail/pair_totals.h"
#include "comparators/detail/range_rescue.h"
#include "comparators/metrics.h"
#include "core/float_format.h"

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
class ComplexPass {
 public:
  ComplexPass(core::Dtype dtype, const ElementPolicy& policy, TensorMetrics& metrics)
      : policy_(policy), metrics_(metrics) {
    part_dtype_ = dtype == core::Dtype::kComplex32   ? core::Dtype::kFloat16
                  : dtype == core::Dtype::kComplex64 ? core::Dtype::kFloat32
                                                     : core::Dtype::kFloat64;
    part_size_ = core::element_size(part_dtype_);
  }

  void run(const PairInput& input) {
    for (std::uint64_t leaf = 0; leaf < input.count; leaf += kMetricLeaf) {
      const std::uint64_t end = std::min<std::uint64_t>(input.count, leaf + kMetricLeaf);
      LeafSums sums;
      for (std::uint64_t i = leaf; i < end; ++i) {
        add(load(input.baseline, i), load(input.candidate, i), i, (i - leaf) % kLanes, sums);
      }
      totals_.add(sums);
    }
    if (part_dtype_ == core::Dtype::kFloat64 && out_of_range(totals_)) rescue(input);
    finish_metrics(totals_, {}, metrics_);
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
    ++metrics_.n_finite;
    sums.b2[lane] += b.re * b.re + b.im * b.im;
    sums.c2[lane] += c.re * c.re + c.im * c.im;
    sums.bc[lane] += b.re * c.re + b.im * c.im;
    if (b.re != 0 || b.im != 0) ++totals_.n_rel;
    if (b.same_bits(c)) return;
    const double base = std::hypot(b.re, b.im);
    ++metrics_.n_diff;
    note_first(metrics_.first_diff, index);
    const double d_re = c.re - b.re;
    const double d_im = c.im - b.im;
    sums.d2[lane] += d_re * d_re + d_im * d_im;
    const std::uint64_t ulps =
        std::max(add_ulps(b.re_bits, c.re_bits), add_ulps(b.im_bits, c.im_bits));
    add_unequal(std::hypot(d_re, d_im), base, ulps, index, lane, sums);
  }

  void add_special(const Complex& b, const Complex& c, std::uint64_t index) {
    const ValueClass of_baseline = b.value_class();
    const bool same_value = of_baseline.inf && b.re == c.re && b.im == c.im;
    count_special(of_baseline,
                  c.value_class(),
                  b.same_bits(c) || same_value,
                  index,
                  policy_,
                  totals_,
                  metrics_);
    if (!same_value || b.same_bits(c)) return;
    // An infinity beside zeros of other signs.
    ++metrics_.n_diff;
    ++metrics_.zero_sign_only;
    note_first(metrics_.first_diff, index);
    if (!policy_.signed_zero_distinct) return;
    ++metrics_.n_beyond;
    note_first(metrics_.first_beyond, index);
  }

  void add_unequal(double abs,
                   double base,
                   std::uint64_t ulps,
                   std::uint64_t index,
                   std::size_t lane,
                   LeafSums& sums) {
    const bool only_zero_sign = abs == 0;
    const bool beyond = only_zero_sign
                            ? policy_.signed_zero_distinct
                            : abs > policy_.atol + policy_.rtol * base || ulps > policy_.max_ulp;
    if (beyond) {
      ++metrics_.n_beyond;
      note_first(metrics_.first_beyond, index);
    }
    if (only_zero_sign) {
      ++metrics_.zero_sign_only;
      return;
    }
    const double rel = base > 0 ? abs / base : 0.0;
    sums.abs[lane] += abs;
    sums.rel[lane] += rel;
    ++totals_.n_unequal;
    if (base == 0) ++metrics_.zero_baseline;
    if (base == 0 || rel >= kWithinOneThousandth) ++totals_.outside_1e3;
    if (base == 0 || rel >= kWithinFiveThousandths) ++totals_.outside_5e3;
    refine_maxima(abs, base, index, totals_, metrics_);
  }

  std::uint64_t add_ulps(std::uint64_t from, std::uint64_t to) {
    const std::uint64_t distance = core::ulp_distance(part_dtype_, from, to).value_or(0);
    totals_.ulp_max = std::max(totals_.ulp_max, distance);
    totals_.ulp_sum += distance;
    return distance;
  }

  void rescue(const PairInput& input) {
    rescue_range(
        2 * input.count,
        [&](std::uint64_t part) {
          const Complex b = load(input.baseline, part / 2);
          const Complex c = load(input.candidate, part / 2);
          const bool real = part % 2 == 0;
          return std::tuple(b.finite() && c.finite(), real ? b.re : b.im, real ? c.re : c.im);
        },
        totals_);
  }

  core::Dtype part_dtype_ = core::Dtype::kFloat32;
  std::size_t part_size_ = 0;
  ElementPolicy policy_;
  TensorMetrics& metrics_;
  PairTotals totals_;
};

}  // namespace

void measure_complex(const PairInput& input, const ElementPolicy& policy, TensorMetrics& metrics) {
  ComplexPass(input.dtype, policy, metrics).run(input);
}

}  // namespace repro_check::comparators::detail
