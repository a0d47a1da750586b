// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/error_codes.h"

namespace repro_check::comparators::detail {
namespace {

/// Bucket of 1 + ceil(log2 of a distance): `3-4` is that of 3, `1025-65536` of 12 to 17.
constexpr std::size_t ulp_bucket(std::size_t code) noexcept {
  constexpr std::array<std::size_t, 18> kBuckets{
      0, 1, 2, 3, 4, 5, 6, 6, 7, 7, 8, 8, 9, 9, 9, 9, 9, 9};
  return code < kBuckets.size() ? kBuckets[code] : 10;
}

}  // namespace

UlpHistogram ulp_histogram(const ErrorCodes& codes,
                           std::uint64_t elements,
                           std::uint64_t finite) noexcept {
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

RelHistogram rel_histogram(const ErrorCodes& codes, std::uint64_t finite) noexcept {
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

}  // namespace repro_check::comparators::detail
