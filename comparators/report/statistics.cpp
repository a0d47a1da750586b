// SPDX-License-Identifier: Apache-2.0
#include "comparators/report/statistics.h"

#include <algorithm>
#include <cmath>

namespace repro_check::comparators {
namespace {

/// Enough to halve [0, 1] down to neighbouring doubles.
constexpr int kHalvings = 200;

/// Chance of at most `hits` of `trials`, each with chance p in (0, 1). Terms are made from their
/// logarithms: the first one alone underflows from a few thousand trials on.
double at_most(std::uint64_t hits, std::uint64_t trials, double p) {
  const double odds = std::log(p) - std::log1p(-p);
  double term = static_cast<double>(trials) * std::log1p(-p);
  double sum = std::exp(term);
  for (std::uint64_t k = 0; k < hits; ++k) {
    const auto left = static_cast<double>(trials - k);
    term += std::log(left / static_cast<double>(k + 1)) + odds;
    sum += std::exp(term);
  }
  return std::min(sum, 1.0);
}

/// The p at which at_most() has fallen to `target`; it falls as p grows.
double solve(std::uint64_t hits, std::uint64_t trials, double target) {
  double low = 0;
  double high = 1;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (at_most(hits, trials, middle) > target ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

double chance_of_one_result(double share, std::uint64_t runs) {
  const auto n = static_cast<double>(runs);
  return std::pow(1 - share, n) + std::pow(share, n);
}

}  // namespace

double disagreement(std::span<const std::uint64_t> counts) noexcept {
  double runs = 0;
  double alike = 0;
  for (const std::uint64_t count : counts) {
    const auto n = static_cast<double>(count);
    runs += n;
    alike += n * (n - 1);
  }
  return runs < 2 ? 0 : 1 - alike / (runs * (runs - 1));
}

Interval clopper_pearson(std::uint64_t hits, std::uint64_t trials, double alpha) noexcept {
  Interval interval;
  if (trials == 0) return interval;
  const double tail = alpha / 2;
  // At least h hits of n are at most n - h misses, each with chance 1 - p.
  if (hits != 0) interval.low = 1 - solve(trials - hits, trials, tail);
  if (hits != trials) interval.high = solve(hits, trials, tail);
  return interval;
}

double undetected_share(std::uint64_t trials, double alpha) noexcept {
  return trials == 0 ? 1 : -std::expm1(std::log(alpha) / static_cast<double>(trials));
}

std::optional<std::uint64_t> runs_needed(double share, double alpha) noexcept {
  if (!(share > 0 && share < 1) || 1 - share == 1) return std::nullopt;
  std::uint64_t enough = 1;
  while (chance_of_one_result(share, enough) > alpha) enough *= 2;
  std::uint64_t few = enough / 2;
  while (enough - few > 1) {
    const std::uint64_t middle = few + (enough - few) / 2;
    (chance_of_one_result(share, middle) > alpha ? few : enough) = middle;
  }
  return enough;
}

}  // namespace repro_check::comparators
