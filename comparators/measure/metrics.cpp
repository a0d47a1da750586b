// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>

#include "comparators/measure/float_block.h"
#include "core/error.h"
#include "core/system/instruction_set.h"
#include "core/system/pinned.h"
#include "core/tensor/element_number.h"

namespace repro_check::comparators {
namespace {

using core::Dtype;

std::uint64_t bits_of(std::span<const std::byte> element) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element.data(), std::min(element.size(), sizeof bits));
  return bits;
}

std::string complex_text(Dtype dtype, std::span<const std::byte> element) {
  const std::size_t half = element.size() / 2;
  const std::string re = core::number_text(core::part_dtype(dtype), element.first(half));
  const std::string im = core::number_text(core::part_dtype(dtype), element.last(half));
  return fmt::format("({}{}{}j)", re, im.starts_with('-') ? "" : "+", im);
}

std::optional<std::uint64_t> sample_ulp(Dtype dtype,
                                        std::span<const std::byte> baseline,
                                        std::span<const std::byte> candidate) {
  if (core::is_complex(dtype)) {
    const std::size_t half = baseline.size() / 2;
    const Dtype part = core::part_dtype(dtype);
    const auto re =
        core::ulp_distance(part, bits_of(baseline.first(half)), bits_of(candidate.first(half)));
    const auto im =
        core::ulp_distance(part, bits_of(baseline.last(half)), bits_of(candidate.last(half)));
    if (!re || !im) return std::nullopt;
    return std::max(*re, *im);
  }
  if (!core::is_floating(dtype) || dtype == Dtype::kFloat4E2M1FNX2) return std::nullopt;
  return core::ulp_distance(dtype, bits_of(baseline), bits_of(candidate));
}

}  // namespace

std::string element_text(Dtype dtype, std::span<const std::byte> element) {
  const std::uint64_t bits = bits_of(element);
  if (dtype == Dtype::kBool && bits <= 1) return bits == 1 ? "True" : "False";
  if (dtype == Dtype::kFloat4E2M1FNX2) return "0x" + core::hex_text(element);
  return core::is_complex(dtype) ? complex_text(dtype, element) : core::number_text(dtype, element);
}

namespace {

/// Whether a differing element is wanted.
using WantedElement = std::function<bool(const std::byte* baseline, const std::byte* candidate)>;

/// As add_differences(), of those that are wanted; nothing = all.
void add_wanted(core::TensorView baseline,
                core::TensorView candidate,
                std::uint64_t first,
                std::size_t limit,
                std::vector<Sample>& samples,
                const WantedElement& wanted) {
  const std::size_t size = core::element_size(baseline.dtype);
  if (size == 0 || baseline.bytes.size() != candidate.bytes.size()) return;
  std::size_t at = 0;
  while (samples.size() < limit && at < baseline.bytes.size()) {
    const auto [here, there] =
        std::mismatch(baseline.bytes.begin() + static_cast<std::ptrdiff_t>(at),
                      baseline.bytes.end(),
                      candidate.bytes.begin() + static_cast<std::ptrdiff_t>(at));
    if (here == baseline.bytes.end()) break;
    const auto element = static_cast<std::size_t>(here - baseline.bytes.begin()) / size;
    const auto from = baseline.bytes.subspan(element * size, size);
    const auto to = candidate.bytes.subspan(element * size, size);
    at = (element + 1) * size;
    if (wanted && !wanted(from.data(), to.data())) continue;
    samples.push_back({first + element,
                       core::unravel(first + element, baseline.shape),
                       element_text(baseline.dtype, from),
                       element_text(baseline.dtype, to),
                       core::hex_text(from),
                       core::hex_text(to),
                       sample_ulp(baseline.dtype, from, to)});
  }
}

}  // namespace

void add_differences(core::TensorView baseline,
                     core::TensorView candidate,
                     std::uint64_t first,
                     std::size_t limit,
                     std::vector<Sample>& samples) {
  add_wanted(baseline, candidate, first, limit, samples, {});
}

std::vector<Sample> first_differences(core::TensorView baseline,
                                      core::TensorView candidate,
                                      std::size_t limit) {
  std::vector<Sample> samples;
  add_differences(baseline, candidate, 0, limit, samples);
  return samples;
}

namespace {

/// Adds what differs in one row of elements to the blocks of that row.
void add_row(std::span<const std::byte> baseline,
             std::span<const std::byte> candidate,
             std::size_t element_size,
             std::uint64_t columns,
             std::span<std::uint64_t> blocks) {
  if (std::memcmp(baseline.data(), candidate.data(), baseline.size()) == 0) return;
  for (std::uint64_t column = 0; column < columns; ++column) {
    const std::size_t at = column * element_size;
    if (std::memcmp(&baseline[at], &candidate[at], element_size) == 0) continue;
    ++blocks[column * blocks.size() / columns];
  }
}

}  // namespace

DifferenceMap map_differences(std::span<const std::int64_t> shape,
                              std::size_t element_size,
                              std::span<const std::byte> baseline,
                              std::span<const std::byte> candidate) {
  DifferenceMap map;
  map.columns = shape.empty() ? 1 : static_cast<std::uint64_t>(shape.back());
  map.rows = shape.size() < 2 ? 1 : static_cast<std::uint64_t>(shape[shape.size() - 2]);
  map.row_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(map.rows, kMapBlocks));
  map.column_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(map.columns, kMapBlocks));
  map.differing.assign(std::size_t{map.row_blocks} * map.column_blocks, 0);
  const std::size_t stride = map.columns * element_size;
  map.leading = baseline.size() / stride / map.rows;
  const std::span<std::uint64_t> all(map.differing);
  for (std::uint64_t line = 0; line < map.leading * map.rows; ++line) {
    const std::uint64_t block = line % map.rows * map.row_blocks / map.rows;
    add_row(baseline.subspan(line * stride, stride),
            candidate.subspan(line * stride, stride),
            element_size,
            map.columns,
            all.subspan(block * map.column_blocks, map.column_blocks));
  }
  return map;
}

namespace {

__extension__ using UInt128 = unsigned __int128;

/// Lanes added.
using LeafTotals = ErrorSums<double>;

/// How many pairs have which code of float_block.h; pairs without a difference may be left out.
struct ErrorCodes {
  std::array<std::uint64_t, kUlpCodes> ulp{};
  std::array<std::uint64_t, kRelCodes> rel{};

  void merge(const ErrorCodes& other) noexcept {
    for (std::size_t i = 0; i < ulp.size(); ++i) ulp[i] += other.ulp[i];
    for (std::size_t i = 0; i < rel.size(); ++i) rel[i] += other.rel[i];
  }

  // What the loops over blocks of floats do, for one pair.
  void add_ulp(std::uint64_t distance) noexcept {
    ++ulp[distance == 0 ? 0 : 1 + static_cast<std::size_t>(std::bit_width(distance - 1))];
  }
  /// @param abs, base  |c-b|, not 0, and |b|
  void add_rel(double abs, double base) noexcept {
    const double clipped = std::clamp(abs / base, 0x1p-64, 0x1p8);
    const int code = base == 0 ? kRelOfZeroBase : std::ilogb(clipped) - kLeastRelExponent + 1;
    ++rel[static_cast<std::size_t>(code)];
  }
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

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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

/// Least number from 0 on that `passes`; a greater one passes whenever a lesser one does.
/// @param guess  most often that number
template <typename Passes>
double least_passing(double guess, const Passes& passes) noexcept {
  if (guess > 0 && passes(guess) && !passes(std::nextafter(guess, 0.0))) return guess;
  if (passes(0.0)) return 0;
  // Positive doubles are ordered as their bits are.
  auto fails = std::uint64_t{0};
  auto holds = std::bit_cast<std::uint64_t>(kInfinity);
  while (holds - fails > 1) {
    const std::uint64_t middle = fails + (holds - fails) / 2;
    (passes(std::bit_cast<double>(middle)) ? holds : fails) = middle;
  }
  return std::bit_cast<double>(holds);
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

LeafTotals totals_of(const LeafSums& leaf) noexcept {
  LeafTotals totals;
  for_each_sum(totals, leaf, [](double& to, const SumLanes& lanes) { to = sum_of_lanes(lanes); });
  return totals;
}

void add_sums(const LeafTotals& leaf, LeafTotals& to) noexcept {
  for_each_sum(to, leaf, [](double& sum, double of_leaf) { sum += of_leaf; });
}

/// What was found of some leaves of a pair: counts and maxima in their places in TensorMetrics.
struct PairFindings {
  TensorMetrics metrics;
  PairTotals totals;

  /// Takes in what was found of other leaves; `sums` apart, in any order.
  void merge(const PairFindings& other) noexcept {
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
                     const ElementPolicy& policy) noexcept {
    bool beyond = true;
    if (baseline.nan && candidate.nan) {
      ++(bits_equal ? metrics.nan_both_same : metrics.nan_both_payload);
      beyond = policy.equal_nan == configs::EqualNan::kNever ||
               (policy.equal_nan == configs::EqualNan::kBits && !bits_equal);
    } else if (baseline.nan) {
      ++metrics.nan_baseline;
    } else if (candidate.nan) {
      ++metrics.nan_candidate;
    } else if (baseline.inf && candidate.inf) {
      beyond = !bits_equal;
      if (!bits_equal) ++metrics.inf_sign;
    } else {
      ++(baseline.inf ? metrics.inf_baseline : metrics.inf_candidate);
    }
    if (bits_equal) {
      ++totals.special_equal;
    } else {
      note_difference(index);
    }
    if (beyond) note_beyond(index);
  }

  /// Takes one finite pair into the maxima and their indices, and into the tolerances that `policy`
  /// would have to have, of which it gives one: scalars that the vector loop leaves out. To be
  /// called in index order.
  /// @param abs, base  |c-b| and |b|
  void refine(double abs, double base, std::uint64_t index, const ElementPolicy& policy) noexcept {
    if (abs == 0) return;
    if (abs > totals.max_abs) {
      totals.max_abs = abs;
      metrics.max_abs_index = index;
    }
    if (base == 0) {
      note_first(totals.first_zero_base, index);
    } else {
      const double rel = abs / base;
      if (rel > totals.max_rel) {
        totals.max_rel = rel;
        metrics.max_rel_finite_index = index;
      }
      totals.needed_rtol = std::max(totals.needed_rtol, rel);
      while (totals.needed_rtol * base < abs) {
        totals.needed_rtol = std::nextafter(totals.needed_rtol, kInfinity);
      }
    }
    const auto passes = [abs, base](double rtol, double atol) { return abs <= atol + rtol * base; };
    if (policy.atol > 0 && abs > policy.atol + totals.given_rtol * base) {
      const double guess = (abs - policy.atol) / base;
      totals.given_rtol =
          base == 0 ? kInfinity
                    : least_passing(guess, [&](double rtol) { return passes(rtol, policy.atol); });
    }
    if (policy.rtol > 0 && abs > totals.given_atol + policy.rtol * base) {
      totals.given_atol = least_passing(abs - policy.rtol * base,
                                        [&](double atol) { return passes(policy.rtol, atol); });
    }
  }

  /// All of a finite pair whose values differ, one by one; its differing, `abs` and d2 apart.
  void count_unequal(double abs,
                     double base,
                     bool beyond,
                     std::uint64_t index,
                     const ElementPolicy& policy,
                     double& rel_sum) noexcept {
    const double rel = base > 0 ? abs / base : 0.0;
    rel_sum += rel;
    ++totals.n_unequal;
    if (base == 0) ++metrics.zero_baseline;
    if (base == 0 || rel >= 1e-3) ++totals.outside_1e3;
    if (base == 0 || rel >= 5e-3) ++totals.outside_5e3;
    if (beyond) note_beyond(index);
    totals.codes.add_rel(abs, base);
    refine(abs, base, index, policy);
  }

  /// Fills what follows from the sums. Null where no pair is finite, never 0 or NaN.
  void finish(const ElementPolicy& policy, Meaning meaning) noexcept {
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
      metrics.ulp_mean =
          static_cast<double>(totals.ulp_sum) / static_cast<double>(totals.n_unequal);
    }
  }
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
class LeafPass : core::Pinned {
 public:
  explicit LeafPass(const ElementPolicy& of_elements) : policy(of_elements) {}
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

/// A sum of squares left the range of double: infinite, or 0 although something is not. Without a
/// look at the values a zero sum of candidates is doubtful whenever anything else was not zero.
bool out_of_range(const PairTotals& totals) noexcept {
  const bool lost_d = totals.sums.d2 == 0 && totals.max_abs > 0;
  const bool lost_b = totals.sums.b2 == 0 && totals.n_rel != 0;
  const bool lost_c = totals.sums.c2 == 0 && (totals.sums.b2 != 0 || totals.max_abs > 0);
  return lost_d || lost_b || lost_c || std::isinf(totals.sums.d2) || std::isinf(totals.sums.b2) ||
         std::isinf(totals.sums.c2);
}

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

// How each dtype becomes what the inner loop takes: a float (exact for 32 bits and fewer) or a
// double, and its place on the number line.

template <core::Dtype kDtype, typename Bits>
struct WideFormat {
  using Raw = Bits;
  using Value = std::conditional_t<sizeof(Bits) == sizeof(double), double, float>;
  using Order = std::conditional_t<sizeof(Bits) == sizeof(double), std::int64_t, std::int32_t>;
  static constexpr auto kMagnitude = static_cast<Raw>(core::row_of(kDtype).layout.sign() - 1);
  static constexpr auto kInfinity = static_cast<Raw>(core::row_of(kDtype).layout.special());

  explicit WideFormat(core::Dtype /*dtype*/) noexcept {}

  [[nodiscard]] static Raw pad() noexcept { return 0; }
  [[nodiscard]] static bool finite(Raw raw) noexcept { return (raw & kMagnitude) < kInfinity; }
  [[nodiscard]] static bool nan(Raw raw) noexcept { return (raw & kMagnitude) > kInfinity; }
  [[nodiscard]] static Value value(Raw raw) noexcept {
    if constexpr (kDtype == core::Dtype::kFloat16) {
      return core::finite_half_to_float(raw);
    } else if constexpr (kDtype == core::Dtype::kBFloat16) {
      return core::bfloat_to_float(raw);
    } else {
      return std::bit_cast<Value>(raw);
    }
  }
  /// Sign-magnitude to a number line on which neighbours differ by 1.
  [[nodiscard]] static Order order(Raw raw) noexcept {
    const auto magnitude = static_cast<Order>(raw & kMagnitude);
    return raw > kMagnitude ? -magnitude : magnitude;
  }
};

struct ByteFormat {
  using Raw = std::uint8_t;
  using Value = float;
  using Order = std::int32_t;
  const core::ByteFloat* table;

  explicit ByteFormat(core::Dtype dtype) noexcept : table(&core::byte_float(dtype)) {}

  [[nodiscard]] Raw pad() const noexcept { return table->pad; }
  [[nodiscard]] bool finite(Raw raw) const noexcept { return table->finite[raw]; }
  [[nodiscard]] bool nan(Raw raw) const noexcept { return table->nan[raw]; }
  [[nodiscard]] Value value(Raw raw) const noexcept { return table->value[raw]; }
  [[nodiscard]] Order order(Raw raw) const noexcept { return table->order[raw]; }
};

static_assert(kMetricLeaf % kBlock == 0 && kBlock % kLanes == 0);

/// Measures pairs of a real floating dtype: takes out what is not finite,
/// hands blocks to the inner loop, and looks again at the blocks that hold something new.
template <typename Format>
class FloatPass final : public LeafPass {
  using Raw = typename Format::Raw;
  using Value = typename Format::Value;
  using Order = typename Format::Order;
  using Pairs = std::conditional_t<sizeof(Value) == sizeof(double), WidePairs, NarrowPairs>;
  static constexpr std::size_t kJointCodes = kUlpCodes << kRelBits;

 public:
  FloatPass(core::Dtype dtype, const ElementPolicy& of_elements)
      : LeafPass(of_elements),
        format_(dtype),
        min_normal_(core::row_of(dtype).layout.min_normal()),
        max_finite_(core::row_of(dtype).layout.max_finite()) {}

  LeafSums measure(const PairLeaf& leaf) override {
    const auto* baseline = reinterpret_cast<const Raw*>(leaf.baseline);
    const auto* candidate = reinterpret_cast<const Raw*>(leaf.candidate);
    BlockSums sums{};
    for (std::size_t at = 0; at < leaf.count; at += kBlock) {
      const std::size_t size = std::min(kBlock, leaf.count - at);
      add_block(baseline + at, candidate + at, size, leaf.first + at, sums);
    }
    take_codes();
    return sums;
  }

  void finish() override { findings.finish(policy, {}); }

  /// No narrower dtype can leave the range of double's squares.
  [[nodiscard]] bool needs_rescue() const override {
    return sizeof(Raw) == sizeof(double) && out_of_range(findings.totals);
  }
  void for_each_finite(const PairLeaf& leaf, const TakePart& take) const override {
    const auto* baseline = reinterpret_cast<const Raw*>(leaf.baseline);
    const auto* candidate = reinterpret_cast<const Raw*>(leaf.candidate);
    for (std::size_t i = 0; i < leaf.count; ++i) {
      if (!format_.finite(baseline[i]) || !format_.finite(candidate[i])) continue;
      take(i,
           static_cast<double>(format_.value(baseline[i])),
           static_cast<double>(format_.value(candidate[i])));
    }
  }

 private:
  /// One table of both errors of a pair: one increment a pair, whose neighbours go to the other
  /// copy and need not wait for it.
  void count_codes(std::size_t size) {
    if (joint_.empty()) joint_.resize(2 * kJointCodes);
    std::uint32_t* even = joint_.data();
    std::uint32_t* odd = even + kJointCodes;
    for (std::size_t i = 0; i < size; i += 2) {
      ++even[static_cast<std::size_t>(block_codes_[i])];
      ++odd[static_cast<std::size_t>(block_codes_[i + 1])];
    }
    codes_used_ = true;
  }

  void take_codes() noexcept {
    if (!codes_used_) return;
    for (std::size_t code = 0; code < kJointCodes; ++code) {
      const std::uint64_t count = std::uint64_t{joint_[code]} + joint_[kJointCodes + code];
      if (count == 0) continue;
      findings.totals.codes.ulp.at(code >> kRelBits) += count;
      findings.totals.codes.rel.at(code & ((std::size_t{1} << kRelBits) - 1)) += count;
    }
    std::ranges::fill(joint_, 0U);
    codes_used_ = false;
  }

  void add_block(const Raw* baseline,
                 const Raw* candidate,
                 std::size_t size,
                 std::uint64_t first,
                 BlockSums& sums) {
    const bool equal = std::memcmp(baseline, candidate, size * sizeof(Raw)) == 0;
    findings.metrics.n_finite += size;
    // The loops see for themselves what is not finite in the numbers as they are.
    const bool loops_look = sizeof(Raw) == sizeof(Value) && !equal;
    const bool special =
        !loops_look && (any_special(baseline, size) || (!equal && any_special(candidate, size)));
    const bool as_they_are = !special && size % kLanes == 0;
    if (as_they_are && add_finite(baseline, candidate, size, equal, first, sums)) return;
    clean(baseline, candidate, size, first);
    const std::size_t padded = (size + kLanes - 1) / kLanes * kLanes;
    add_finite(clean_baseline_.data(), clean_candidate_.data(), padded, equal, first, sums);
  }

  /// False where the pairs are not all finite: then nothing was added.
  bool add_finite(const Raw* baseline,
                  const Raw* candidate,
                  std::size_t size,
                  bool equal,
                  std::uint64_t first,
                  BlockSums& sums) {
    const Value* values = values_of(baseline, size, 0);
    if (equal) {
      findings.totals.n_rel += squares(values, size, sums);
      return true;
    }
    const Pairs pairs = pairs_of_block(baseline, candidate, values, size);
    const BlockFindings found = loop(pairs, sums);
    if (found.special != 0) return false;
    count_codes(size);
    take(found, pairs, first);
    return true;
  }

  /// Float32 and float64 are what the loops take.
  [[nodiscard]] const Value* values_of(const Raw* raw,
                                       std::size_t size,
                                       std::size_t side) noexcept {
    if constexpr (sizeof(Raw) == sizeof(Value)) {
      return reinterpret_cast<const Value*>(raw);
    } else {
      for (std::size_t i = 0; i < size; ++i) values_[side][i] = format_.value(raw[i]);
      return values_[side].data();
    }
  }

  [[nodiscard]] Pairs pairs_of_block(const Raw* baseline,
                                     const Raw* candidate,
                                     const Value* baseline_values,
                                     std::size_t size) noexcept {
    const Value* candidate_values = values_of(candidate, size, 1);
    if constexpr (sizeof(Value) == sizeof(double)) {
      return {baseline_values, candidate_values, size};
    } else if constexpr (sizeof(Raw) == sizeof(Value)) {
      return {baseline_values, candidate_values, nullptr, nullptr, size};
    } else {
      for (std::size_t i = 0; i < size; ++i) orders_[0][i] = format_.order(baseline[i]);
      for (std::size_t i = 0; i < size; ++i) orders_[1][i] = format_.order(candidate[i]);
      return {baseline_values, candidate_values, orders_[0].data(), orders_[1].data(), size};
    }
  }

  [[nodiscard]] bool any_special(const Raw* raw, std::size_t size) const noexcept {
    unsigned special = 0;
    for (std::size_t i = 0; i < size; ++i) special |= format_.finite(raw[i]) ? 0U : 1U;
    return special != 0U;
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
      --findings.metrics.n_finite;
      const ValueClass left = class_of(from);
      const ValueClass right = class_of(to);
      findings.count_special(left, right, from == to, first + i, policy);
      const bool below =
          format_.finite(from) && std::abs(static_cast<double>(format_.value(from))) < max_finite_;
      if (right.inf && below) ++findings.metrics.saturated;
    }
  }

  [[nodiscard]] ValueClass class_of(Raw raw) const noexcept {
    return {format_.nan(raw), !format_.finite(raw) && !format_.nan(raw)};
  }

  [[nodiscard]] BlockPolicy block_policy() const noexcept {
    constexpr double kUnwanted = std::numeric_limits<double>::infinity();
    return {policy.rtol,
            policy.atol,
            findings.totals.needed_rtol,
            policy.atol > 0 ? findings.totals.given_rtol : kUnwanted,
            policy.rtol > 0 ? findings.totals.given_atol : kUnwanted,
            min_normal_,
            max_finite_,
            policy.max_ulp,
            policy.signed_zero_distinct};
  }
  BlockFindings loop(const NarrowPairs& pairs, BlockSums& sums) {
    return block_loops().narrow(pairs, block_policy(), sums, block_codes_.data());
  }
  BlockFindings loop(const WidePairs& pairs, BlockSums& sums) {
    return block_loops().wide(pairs, block_policy(), sums, block_codes_.data());
  }
  static std::uint64_t squares(const float* values, std::size_t size, BlockSums& sums) {
    return block_loops().narrow_squares(values, size, sums);
  }
  static std::uint64_t squares(const double* values, std::size_t size, BlockSums& sums) {
    return block_loops().wide_squares(values, size, sums);
  }

  void take(const BlockFindings& found, const Pairs& pairs, std::uint64_t first) noexcept {
    findings.totals.n_rel += found.n_rel;
    findings.totals.outside_1e3 += found.outside_1e3;
    findings.totals.outside_5e3 += found.outside_5e3;
    findings.totals.n_unequal += found.unequal;
    findings.totals.ulp_max = std::max(findings.totals.ulp_max, found.ulp_max);
    findings.totals.ulp_sum += (UInt128{found.ulp_high} << 32U) + found.ulp_low;
    findings.metrics.zero_baseline += found.zero_base;
    findings.metrics.n_diff += found.differ;
    findings.metrics.n_beyond += found.beyond;
    findings.metrics.zero_sign_only += found.differ - found.unequal;
    findings.metrics.flips += found.flips;
    findings.metrics.flushed += found.flushed;
    findings.metrics.saturated += found.saturated;
    if (found.differ != 0 &&
        (!findings.metrics.first_diff || *findings.metrics.first_diff > first)) {
      note_first(findings.metrics.first_diff, first + first_hit(pairs, false));
    }
    if (found.beyond != 0 &&
        (!findings.metrics.first_beyond || *findings.metrics.first_beyond > first)) {
      note_first(findings.metrics.first_beyond, first + first_hit(pairs, true));
    }
    const bool news = found.max_abs > findings.totals.max_abs ||
                      found.max_rel > findings.totals.max_rel || found.short_of_rtol != 0 ||
                      found.short_of_given != 0 ||
                      (found.zero_base != 0 && !findings.totals.first_zero_base);
    if (!news) return;
    for (std::size_t i = 0; i < pairs.count; ++i) {
      const auto base = static_cast<double>(pairs.baseline[i]);
      const double abs = std::abs(static_cast<double>(pairs.candidate[i]) - base);
      findings.refine(abs, std::abs(base), first + i, policy);
    }
  }

  /// In ULP.
  [[nodiscard]] std::uint64_t order_distance(const Pairs& pairs, std::size_t i) const noexcept {
    std::int64_t from = 0;
    std::int64_t to = 0;
    if constexpr (sizeof(Raw) == sizeof(Value)) {
      from = format_.order(std::bit_cast<Raw>(pairs.baseline[i]));
      to = format_.order(std::bit_cast<Raw>(pairs.candidate[i]));
    } else {
      from = pairs.baseline_order[i];
      to = pairs.candidate_order[i];
    }
    return static_cast<std::uint64_t>(std::max(from, to)) -
           static_cast<std::uint64_t>(std::min(from, to));
  }

  [[nodiscard]] std::size_t first_hit(const Pairs& pairs, bool beyond) const noexcept {
    for (std::size_t i = 0; i < pairs.count; ++i) {
      const auto base = static_cast<double>(pairs.baseline[i]);
      const auto other = static_cast<double>(pairs.candidate[i]);
      const double abs = std::abs(other - base);
      const bool zero_sign = abs == 0 && std::signbit(base) != std::signbit(other);
      const bool differs = abs > 0 || zero_sign;
      const bool fails = abs > policy.atol + policy.rtol * std::abs(base) ||
                         order_distance(pairs, i) > policy.max_ulp ||
                         (zero_sign && policy.signed_zero_distinct);
      if (beyond ? fails : differs) return i;
    }
    return pairs.count;
  }

  Format format_;
  double min_normal_;
  double max_finite_;
  std::array<Raw, kBlock> clean_baseline_{};
  std::array<Raw, kBlock> clean_candidate_{};
  std::array<std::array<Value, kBlock>, 2> values_{};
  std::array<std::array<Order, kBlock>, 2> orders_{};
  std::array<std::int32_t, kBlock> block_codes_{};
  std::vector<std::uint32_t> joint_;  ///< of a leaf; made when something differs
  bool codes_used_ = false;
};

/// The one for `dtype`, which is not kUnknown.
std::unique_ptr<LeafPass> make_pass(core::Dtype dtype, const ElementPolicy& policy) {
  using core::Dtype;
  switch (dtype) {
    case Dtype::kBool:
      return std::make_unique<BoolPass>(policy);
    case Dtype::kFloat4E2M1FNX2:
      return std::make_unique<OpaquePass>(policy);
    case Dtype::kFloat32:
      return std::make_unique<FloatPass<WideFormat<Dtype::kFloat32, std::uint32_t>>>(dtype, policy);
    case Dtype::kBFloat16:
      return std::make_unique<FloatPass<WideFormat<Dtype::kBFloat16, std::uint16_t>>>(dtype,
                                                                                      policy);
    case Dtype::kFloat16:
      return std::make_unique<FloatPass<WideFormat<Dtype::kFloat16, std::uint16_t>>>(dtype, policy);
    case Dtype::kFloat64:
      return std::make_unique<FloatPass<WideFormat<Dtype::kFloat64, std::uint64_t>>>(dtype, policy);
    default:
      break;
  }
  if (core::is_floating(dtype)) return std::make_unique<FloatPass<ByteFormat>>(dtype, policy);
  if (core::is_complex(dtype)) return std::make_unique<ComplexPass>(dtype, policy);
  std::unique_ptr<LeafPass> pass;
  core::visit_integer(
      dtype, [&](auto zero) { pass = std::make_unique<IntegerPass<decltype(zero)>>(policy); });
  return pass;
}

constexpr std::size_t kPart = core::kDigestChunk;
/// Parts a thread must have to do before it is worth waking.
constexpr std::uint64_t kPartsToShare = 2;

constexpr std::size_t kBaseline = 0;
constexpr std::size_t kCandidate = 1;

/// One part of both sides.
struct PairPart {
  std::uint64_t first = 0;  ///< index of its first element
  std::span<const std::byte> baseline;
  std::span<const std::byte> candidate;
};

// Sums of squares that leave the range of double are made again, each operand scaled by the
// exponent of its own maximum. Source: E. Anderson, TOMS algorithm 978.

/// Greatest magnitudes over finite pairs; d may be infinite.
struct Range {
  double b = 0;
  double c = 0;
  double d = 0;

  void merge(const Range& other) noexcept {
    b = std::max(b, other.b);
    c = std::max(c, other.c);
    d = std::max(d, other.d);
  }
};

/// What operands are multiplied by, as exponents of 2.
struct Scale {
  explicit Scale(const Range& range) noexcept
      : b(of(range.b)),
        c(of(range.c)),
        d(of(std::isinf(range.d) ? std::max(range.b, range.c) : range.d)),
        half(std::isinf(range.d) ? 0.5 : 1.0) {}

  int b;
  int c;
  int d;
  double half;  ///< 0.5 where a difference overflows and is made of halves

 private:
  /// Exponent that brings `most` to the neighbourhood of 1.
  static int of(double most) noexcept {
    return most == 0 || !std::isfinite(most) ? 0 : std::ilogb(most);
  }
};

/// What a worker keeps to itself.
struct WorkerState {
  std::unique_ptr<LeafPass> pass;
  std::vector<Sample> samples;           ///< that differ
  std::vector<Sample> beyond;            ///< that fail the policy, where others pass it
  std::unique_ptr<LeafPass> of_element;  ///< judges one
  Range range;
};

/// Of one leaf.
Range range_of(const LeafPass& pass, const PairLeaf& leaf) {
  Range range;
  pass.for_each_finite(leaf, [&](std::size_t /*part*/, double b, double c) {
    range.merge({std::abs(b), std::abs(c), std::abs(c - b)});
  });
  return range;
}

/// Its sums of squares and products, scaled; no other.
LeafTotals scaled_squares(const LeafPass& pass, const PairLeaf& leaf, const Scale& scale) {
  LeafSums sums;
  pass.for_each_finite(leaf, [&](std::size_t part, double b, double c) {
    const std::size_t lane = part % kLanes;
    const double scaled_b = std::ldexp(b, -scale.b);
    const double scaled_c = std::ldexp(c, -scale.c);
    const double scaled_d = std::ldexp(scale.half * c - scale.half * b, -scale.d);
    sums.d2[lane] += scaled_d * scaled_d;
    sums.b2[lane] += scaled_b * scaled_b;
    sums.c2[lane] += scaled_c * scaled_c;
    sums.bc[lane] += scaled_b * scaled_c;
  });
  return totals_of(sums);
}

void check(core::TensorView baseline, core::TensorView candidate, std::uint64_t count) {
  if (baseline.dtype == core::Dtype::kUnknown) {
    throw core::Error(core::ErrorKind::kUnsupportedDtype,
                      "a tensor of an unknown dtype has no values to compare");
  }
  const std::uint64_t bytes = count * core::element_size(baseline.dtype);
  if (baseline.dtype != candidate.dtype || !std::ranges::equal(baseline.shape, candidate.shape) ||
      baseline.bytes.size() != bytes || candidate.bytes.size() != bytes) {
    throw core::internal_error(
        "metrics were asked for two tensors that do not have one dtype, one shape "
        "and the bytes they need");
  }
}

}  // namespace

/// One walk, or several, over all parts of one pair.
class PairMeasurer::Scan {
 public:
  /// @param buffers  one for each thread
  Scan(std::span<Buffers> buffers, const MeasureRequest& request)
      : buffers_(buffers), request_(request) {
    states_.resize(std::clamp<std::uint64_t>(parts_ / kPartsToShare, 1, buffers.size()));
    for (WorkerState& state : states_) state.pass = make_pass(request_.dtype, request.policy);
    leaves_.resize((bytes_ / element_ + kMetricLeaf - 1) / kMetricLeaf);
    for (std::size_t side : {kBaseline, kCandidate}) {
      if (!parts_of(side).verified()) result_.chunks.at(side).resize(parts_);
    }
  }

  PairMeasurement run() {
    walk([this](unsigned worker, const PairPart& part) { measure(states_[worker], part); }, true);
    LeafPass& all = *states_.front().pass;
    for (std::size_t i = 1; i < states_.size(); ++i) {
      all.findings.merge(states_[i].pass->findings);
    }
    for (const LeafTotals& leaf : leaves_) add_sums(leaf, all.findings.totals.sums);
    if (!failed() && all.needs_rescue()) rescue(all);
    all.findings.metrics.elements = bytes_ / element_;
    all.finish();
    result_.metrics = all.findings.metrics;
    take_samples();
    return std::move(result_);
  }

 private:
  [[nodiscard]] const core::ContentParts& parts_of(std::size_t side) const {
    return side == kBaseline ? *request_.baseline : *request_.candidate;
  }

  [[nodiscard]] bool failed() const {
    return result_.failures[kBaseline] != nullptr || result_.failures[kCandidate] != nullptr;
  }

  /// Gives every part to some worker, each worker's in ascending order.
  void walk(const std::function<void(unsigned, const PairPart&)>& take, bool digest) {
    std::atomic<std::uint64_t> next{0};
    const auto work = [&](unsigned worker) {
      for (;;) {
        const std::uint64_t part = next.fetch_add(1, std::memory_order_relaxed);
        if (part >= parts_ || stop_.load(std::memory_order_relaxed)) return;
        const auto left = read(worker, kBaseline, part, digest);
        const auto right = read(worker, kCandidate, part, digest);
        if (stop_.load(std::memory_order_relaxed)) return;
        take(worker, {part * (kPart / element_), left, right});
      }
    };
    core::run_workers(static_cast<unsigned>(states_.size()), work);
  }

  std::span<const std::byte> read(unsigned worker,
                                  std::size_t side,
                                  std::uint64_t part,
                                  bool digest) {
    const std::uint64_t begin = part * kPart;
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kPart, bytes_ - begin));
    const std::span<std::byte> room = buffers_[worker].at(side).room(size);
    try {
      std::span<const std::byte> bytes = parts_of(side).read(begin, room);
      if (digest && !parts_of(side).verified()) {
        result_.chunks.at(side)[part] = core::digest_leaf(bytes);
      }
      // Content lent at an odd address is copied: the passes read whole elements.
      constexpr std::uintptr_t kAlignment = 8;
      if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlignment != 0 && !bytes.empty()) {
        std::memcpy(room.data(), bytes.data(), size);
        bytes = room;
      }
      return bytes;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      result_.failures.at(side) = std::current_exception();
      stop_.store(true, std::memory_order_relaxed);
      return {};
    }
  }

  template <typename Take>
  void for_each_leaf(const PairPart& part, const Take& take) const {
    const std::size_t count = part.baseline.size() / element_;
    for (std::size_t at = 0; at < count; at += kMetricLeaf) {
      take(PairLeaf{part.baseline.data() + at * element_,
                    part.candidate.data() + at * element_,
                    std::min(kMetricLeaf, count - at),
                    part.first + at});
    }
  }

  void measure(WorkerState& state, const PairPart& part) {
    for_each_leaf(part, [&](const PairLeaf& leaf) {
      const TensorMetrics& metrics = state.pass->findings.metrics;
      const std::uint64_t before = metrics.n_diff;
      const std::uint64_t failed = metrics.n_beyond;
      leaves_[leaf.first / kMetricLeaf] = totals_of(state.pass->measure(leaf));
      if (state.samples.size() < request_.max_samples && metrics.n_diff != before) {
        sample(leaf, state.samples, {});
      }
      if (state.beyond.size() < request_.max_samples && metrics.n_beyond != failed) {
        sample(leaf, state.beyond, [&](const std::byte* from, const std::byte* to) {
          return is_beyond(state, from, to);
        });
      }
    });
  }

  bool is_beyond(WorkerState& state, const std::byte* from, const std::byte* to) const {
    if (state.of_element == nullptr) state.of_element = make_pass(request_.dtype, request_.policy);
    const std::uint64_t before = state.of_element->findings.metrics.n_beyond;
    state.of_element->measure({from, to, 1, 0});
    return state.of_element->findings.metrics.n_beyond != before;
  }

  void sample(const PairLeaf& leaf, std::vector<Sample>& into, const WantedElement& wanted) const {
    const std::size_t bytes = leaf.count * element_;
    add_wanted({request_.dtype, request_.shape, {leaf.baseline, bytes}},
               {request_.dtype, request_.shape, {leaf.candidate, bytes}},
               leaf.first,
               request_.max_samples,
               into,
               wanted);
  }

  /// Each worker has the first ones of what it saw, so the first ones of all are among them.
  void take_samples() {
    const bool any_beyond = result_.metrics.n_beyond != 0;
    std::vector<Sample>& samples = result_.samples;
    for (WorkerState& state : states_) {
      std::ranges::move(any_beyond ? state.beyond : state.samples, std::back_inserter(samples));
    }
    std::ranges::sort(samples, {}, &Sample::flat_index);
    if (samples.size() > request_.max_samples) samples.resize(request_.max_samples);
  }

  void rescue(LeafPass& all) {
    walk(
        [&](unsigned worker, const PairPart& part) {
          for_each_leaf(part, [&](const PairLeaf& leaf) {
            states_[worker].range.merge(range_of(all, leaf));
          });
        },
        false);
    Range range;
    for (const WorkerState& state : states_) range.merge(state.range);
    const Scale scale(range);
    walk(
        [&](unsigned /*worker*/, const PairPart& part) {
          for_each_leaf(part, [&](const PairLeaf& leaf) {
            leaves_[leaf.first / kMetricLeaf] = scaled_squares(all, leaf, scale);
          });
        },
        false);
    LeafTotals squares;
    for (const LeafTotals& leaf : leaves_) add_sums(leaf, squares);
    PairTotals& totals = all.findings.totals;
    totals.sums.d2 = squares.d2;
    totals.sums.b2 = squares.b2;
    totals.sums.c2 = squares.c2;
    totals.sums.bc = squares.bc;
    totals.b_exponent = scale.b;
    totals.c_exponent = scale.c;
    totals.d_exponent = scale.half < 1.0 ? scale.d + 1 : scale.d;
  }

  std::span<Buffers> buffers_;
  const MeasureRequest& request_;
  std::size_t element_ = core::element_size(request_.dtype);
  std::uint64_t bytes_ = request_.baseline->size();
  std::uint64_t parts_ = std::max<std::uint64_t>(1, (bytes_ + kPart - 1) / kPart);
  std::vector<WorkerState> states_;
  std::vector<LeafTotals> leaves_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  PairMeasurement result_;
};

PairMeasurement PairMeasurer::measure(const MeasureRequest& request) {
  return Scan(buffers_, request).run();
}

std::vector<PairMeasurement> PairMeasurer::measure_each(
    const std::vector<MeasureRequest>& requests) {
  // The largest first, so that all threads end at about the same time.
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, std::greater<>(), [&](std::size_t i) { return requests[i].baseline->size(); });
  std::vector<PairMeasurement> found(requests.size());
  std::atomic<std::size_t> next{0};
  const auto workers = std::clamp<std::size_t>(requests.size(), 1, buffers_.size());
  core::run_workers(static_cast<unsigned>(workers), [&](unsigned worker) {
    const std::span<Buffers> own(&buffers_[worker], 1);
    for (std::size_t at = next++; at < order.size(); at = next++) {
      const std::size_t i = order[at];
      found[i] = Scan(own, requests[i]).run();
    }
  });
  return found;
}

TensorMetrics measure(core::TensorView baseline,
                      core::TensorView candidate,
                      const ElementPolicy& policy,
                      unsigned threads) {
  check(baseline, candidate, static_cast<std::uint64_t>(core::element_count(baseline.shape)));
  const core::MemoryParts left(baseline.bytes);
  const core::MemoryParts right(candidate.bytes);
  const std::vector<std::int64_t> shape(baseline.shape.begin(), baseline.shape.end());
  return PairMeasurer(threads).measure({baseline.dtype, shape, &left, &right, policy, 0}).metrics;
}

const BlockLoops& block_loops() noexcept {
  static const std::array<BlockLoops, 3> loops{
      avx512_block_loops(), avx2_block_loops(), portable_block_loops()};
  static const BlockLoops& fastest = core::detail::runnable(loops).front();
  return fastest;
}

}  // namespace repro_check::comparators
