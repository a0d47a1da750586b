// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace repro_check::comparators {

/// Pairs by ULP distance: names of the buckets, the last one for NaN and Inf on either side.
inline constexpr std::array<std::string_view, 12> kUlpBuckets{"0",
                                                              "1",
                                                              "2",
                                                              "3-4",
                                                              "5-8",
                                                              "9-16",
                                                              "17-64",
                                                              "65-256",
                                                              "257-1024",
                                                              "1025-65536",
                                                              "above",
                                                              "incomparable"};
using UlpHistogram = std::array<std::uint64_t, kUlpBuckets.size()>;

/// Finite pairs by floor(log2(|c-b|/|b|)), so that any percentile is known within a factor of 2.
struct RelHistogram {
  static constexpr int kLeast = -64;                              ///< and whatever is less
  static constexpr int kGreatest = 8;                             ///< and whatever is more
  std::uint64_t zero = 0;                                         ///< no difference
  std::uint64_t infinite = 0;                                     ///< baseline 0, candidate not
  std::array<std::uint64_t, kGreatest - kLeast + 1> exponents{};  ///< from kLeast on

  bool operator==(const RelHistogram&) const = default;
};

/// The relative error that `share` of the finite pairs do not exceed lies in [at_least, at_most].
struct RelBounds {
  double at_least = 0;
  double at_most = 0;  ///< infinite where a baseline of 0 has another candidate
};

/// @param share  0 to 1
/// @return empty when there is no finite pair
std::optional<RelBounds> rel_percentile(const RelHistogram& histogram, double share) noexcept;

}  // namespace repro_check::comparators
