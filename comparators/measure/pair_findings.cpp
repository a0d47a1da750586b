// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/pair_findings.h"

namespace repro_check::comparators {
namespace {

double cosine_of(const PairTotals& totals) noexcept {
  const bool no_baseline = totals.sums.b2 == 0;
  const bool no_candidate = totals.sums.c2 == 0;
  if (no_baseline || no_candidate) return no_baseline && no_candidate ? 1.0 : 0.0;
  const double cosine = totals.sums.bc / (std::sqrt(totals.sums.b2) * std::sqrt(totals.sums.c2));
  return std::clamp(cosine, -1.0, 1.0);
}

/// sqrt(over / under) with their exponents; 0/0 as `none`, x/0 as infinity.
double root_of_ratio(
    double over, int over_exponent, double under, int under_exponent, double none) {
  if (under == 0 && over == 0) return none;
  if (under == 0) return kInfinity;
  return std::ldexp(std::sqrt(over) / std::sqrt(under), over_exponent - under_exponent);
}

double nmse_of(const PairTotals& totals) noexcept {
  if (totals.sums.b2 == 0) return totals.sums.d2 == 0 ? 0.0 : kInfinity;
  return std::ldexp(totals.sums.d2 / totals.sums.b2, 2 * (totals.d_exponent - totals.b_exponent));
}

void finish_shares(const PairTotals& totals, TensorMetrics& metrics) noexcept {
  if (metrics.elements == 0) return;
  const auto all = static_cast<double>(metrics.elements);
  const std::uint64_t equal_or_finite = metrics.n_finite + totals.special_equal;
  metrics.within_1e3 = static_cast<double>(equal_or_finite - totals.outside_1e3) / all;
  metrics.within_5e3 = static_cast<double>(equal_or_finite - totals.outside_5e3) / all;
}

void finish_needed(const PairTotals& totals,
                   const ElementPolicy& policy,
                   TensorMetrics& metrics) noexcept {
  if (metrics.apart() != 0) {
    metrics.rtol_needed = kInfinity;
    metrics.atol_needed = kInfinity;
    metrics.rtol_given_atol = kInfinity;
    metrics.atol_given_rtol = kInfinity;
    return;
  }
  if (metrics.n_finite == 0) return;
  metrics.rtol_needed = metrics.zero_baseline != 0 ? kInfinity : totals.needed_rtol;
  metrics.atol_needed = totals.max_abs;
  // Where ULP decide there is no tolerance to stand beside.
  if (std::isinf(policy.atol)) return;
  metrics.rtol_given_atol = policy.atol > 0 ? totals.given_rtol : metrics.rtol_needed;
  metrics.atol_given_rtol = policy.rtol > 0 ? totals.given_atol : metrics.atol_needed;
}

/// Bucket of 1 + ceil(log2 of a distance): `3-4` is that of 3, `1025-65536` of 12 to 17.
constexpr std::size_t ulp_bucket(std::size_t code) noexcept {
  constexpr std::array<std::size_t, 18> kBuckets{
      0, 1, 2, 3, 4, 5, 6, 6, 7, 7, 8, 8, 9, 9, 9, 9, 9, 9};
  return code < kBuckets.size() ? kBuckets[code] : 10;
}

/// @param elements  of each side, or parts of complex ones
/// @param finite    pairs of them that are both finite
UlpHistogram ulp_histogram(const ErrorCodes& codes, std::uint64_t elements, std::uint64_t finite) {
  UlpHistogram histogram{};
  std::uint64_t apart = 0;
  for (std::size_t code = 1; code < codes.ulp.size(); ++code) {
    histogram[ulp_bucket(code)] += codes.ulp[code];
    apart += codes.ulp[code];
  }
  histogram.front() = finite - apart;
  histogram.back() = elements - finite;
  return histogram;
}

RelHistogram rel_histogram(const ErrorCodes& codes, std::uint64_t finite) {
  static_assert(RelHistogram::kLeast == kLeastRelExponent &&
                RelHistogram::kGreatest == kGreatestRelExponent);
  RelHistogram histogram;
  std::uint64_t apart = 0;
  for (std::size_t i = 0; i < histogram.exponents.size(); ++i) {
    histogram.exponents[i] = codes.rel[i + 1];
    apart += codes.rel[i + 1];
  }
  histogram.infinite = codes.rel[static_cast<std::size_t>(kRelOfZeroBase)];
  histogram.zero = finite - apart - histogram.infinite;
  return histogram;
}

/// The greater maximum, of equal ones the one at the lesser index.
void take_greater(double other,
                  const std::optional<std::uint64_t>& other_index,
                  double& most,
                  std::optional<std::uint64_t>& index) noexcept {
  if (!other_index || (index && other < most)) return;
  if (!index || other > most || *other_index < *index) index = other_index;
  most = other;
}

void take_first(const std::optional<std::uint64_t>& other,
                std::optional<std::uint64_t>& first) noexcept {
  if (other) note_first(first, *other);
}

void add_counts(const TensorMetrics& from, TensorMetrics& to) noexcept {
  for (const auto count : {&TensorMetrics::n_diff,
                           &TensorMetrics::n_beyond,
                           &TensorMetrics::n_finite,
                           &TensorMetrics::zero_sign_only,
                           &TensorMetrics::nan_both_same,
                           &TensorMetrics::nan_both_payload,
                           &TensorMetrics::nan_baseline,
                           &TensorMetrics::nan_candidate,
                           &TensorMetrics::inf_sign,
                           &TensorMetrics::inf_baseline,
                           &TensorMetrics::inf_candidate,
                           &TensorMetrics::noncanonical_bool,
                           &TensorMetrics::false_to_true,
                           &TensorMetrics::true_to_false,
                           &TensorMetrics::flips,
                           &TensorMetrics::flushed,
                           &TensorMetrics::saturated,
                           &TensorMetrics::zero_baseline}) {
    to.*count += from.*count;
  }
  take_first(from.first_diff, to.first_diff);
  take_first(from.first_beyond, to.first_beyond);
}

void add_totals(const PairTotals& from, PairTotals& to) noexcept {
  for (const auto count : {&PairTotals::n_rel,
                           &PairTotals::outside_1e3,
                           &PairTotals::outside_5e3,
                           &PairTotals::special_equal,
                           &PairTotals::n_unequal}) {
    to.*count += from.*count;
  }
  // Each is the least number that passes every pair it has seen, so the greater passes all.
  to.needed_rtol = std::max(to.needed_rtol, from.needed_rtol);
  to.given_rtol = std::max(to.given_rtol, from.given_rtol);
  to.given_atol = std::max(to.given_atol, from.given_atol);
  to.codes.merge(from.codes);
  to.ulp_max = std::max(to.ulp_max, from.ulp_max);
  to.ulp_sum += from.ulp_sum;
  to.sum_exact += from.sum_exact;
  take_first(from.first_zero_base, to.first_zero_base);
}

/// The fixed tree that ends a leaf.
double sum_of_lanes(const SumLanes& lanes) noexcept {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

}  // namespace

LeafTotals totals_of(const LeafSums& leaf) noexcept {
  LeafTotals totals;
  for_each_sum(totals, leaf, [](double& to, const SumLanes& lanes) { to = sum_of_lanes(lanes); });
  return totals;
}

void add_sums(const LeafTotals& leaf, LeafTotals& to) noexcept {
  for_each_sum(to, leaf, [](double& sum, double of_leaf) { sum += of_leaf; });
}

void PairFindings::merge(const PairFindings& other) noexcept {
  add_counts(other.metrics, metrics);
  add_totals(other.totals, totals);
  if (other.totals.max_exact > totals.max_exact) {
    // Of integers the exact difference decides, not the double of it.
    totals.max_exact = other.totals.max_exact;
    totals.max_abs = other.totals.max_abs;
    metrics.max_abs_index = other.metrics.max_abs_index;
  } else if (other.totals.max_exact == totals.max_exact) {
    take_greater(
        other.totals.max_abs, other.metrics.max_abs_index, totals.max_abs, metrics.max_abs_index);
  }
  take_greater(other.totals.max_rel,
               other.metrics.max_rel_finite_index,
               totals.max_rel,
               metrics.max_rel_finite_index);
}

void PairFindings::finish(const ElementPolicy& policy, Meaning meaning) noexcept {
  metrics.zeros_both = metrics.n_finite - totals.n_rel - metrics.zero_baseline;
  finish_shares(totals, metrics);
  finish_needed(totals, policy, metrics);
  if (metrics.elements != 0) {
    metrics.rel_hist = rel_histogram(totals.codes, metrics.n_finite);
    if (meaning.ulp) {
      metrics.ulp_hist = ulp_histogram(
          totals.codes, metrics.elements * meaning.parts, metrics.n_finite * meaning.parts);
    }
  }
  if (metrics.n_finite == 0) return;
  const auto count = static_cast<double>(metrics.n_finite);
  metrics.max_abs = totals.max_abs;
  if (!meaning.exact_mean) metrics.mean_abs = totals.sums.abs / count;
  if (totals.n_rel != 0) {
    metrics.max_rel_finite = totals.max_rel;
    metrics.mean_rel = totals.sums.rel / static_cast<double>(totals.n_rel);
  }
  metrics.max_rel = metrics.zero_baseline != 0 ? kInfinity : totals.max_rel;
  metrics.max_rel_index =
      metrics.zero_baseline != 0 ? totals.first_zero_base : metrics.max_rel_finite_index;
  metrics.rmse = std::ldexp(std::sqrt(totals.sums.d2 / count), totals.d_exponent);
  metrics.nmse = nmse_of(totals);
  metrics.l2_rel =
      root_of_ratio(totals.sums.d2, totals.d_exponent, totals.sums.b2, totals.b_exponent, 0.0);
  metrics.norm_ratio =
      root_of_ratio(totals.sums.c2, totals.c_exponent, totals.sums.b2, totals.b_exponent, 1.0);
  metrics.cosine = cosine_of(totals);
  if (!meaning.ulp) return;
  metrics.ulp_max = totals.ulp_max;
  if (totals.n_unequal != 0) {
    metrics.ulp_mean = static_cast<double>(totals.ulp_sum) / static_cast<double>(totals.n_unequal);
  }
}

bool out_of_range(const PairTotals& totals) noexcept {
  const bool lost_d = totals.sums.d2 == 0 && totals.max_abs > 0;
  const bool lost_b = totals.sums.b2 == 0 && totals.n_rel != 0;
  const bool lost_c = totals.sums.c2 == 0 && (totals.sums.b2 != 0 || totals.max_abs > 0);
  return lost_d || lost_b || lost_c || std::isinf(totals.sums.d2) || std::isinf(totals.sums.b2) ||
         std::isinf(totals.sums.c2);
}

}  // namespace repro_check::comparators
