// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/log_probabilities.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace repro_check::comparators {
namespace {

double log_sum(std::span<const double> logits) {
  const double most = *std::ranges::max_element(logits);
  if (!std::isfinite(most)) return most;
  double sum = 0;
  for (const double each : logits) sum += std::exp(each - most);
  return most + std::log(sum);
}

std::size_t best_of(std::span<const double> logits) {
  return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

/// Fits b = factor * a + constant to one row.
struct Fit {
  double factor = 1;
  double rest = 0;  ///< of what b varies, that this does not explain; root of squares
};

Fit fit(std::span<const double> a, std::span<const double> b) {
  const auto count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double both = 0;
  double of_a = 0;
  double of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double one = a[i] - mean_a;
    const double other = b[i] - mean_b;
    both += one * other;
    of_a += one * one;
    of_b += other * other;
  }
  if (!(of_a > 0) || !(of_b > 0)) return {1, 1};
  const double factor = both / of_a;
  const double rest = std::max(0.0, of_b - (factor * both));
  return {factor, std::sqrt(rest / of_b)};
}

/// A factor that is no rounding, and the same in every row.
std::optional<double> common_factor(const std::vector<Fit>& fits) {
  constexpr double kApart = 1e-2;  // from 1
  constexpr double kSame = 0.02;   // of what it is apart from 1: rest, and spread over the rows
  double mean = 0;
  for (const Fit& each : fits) mean += each.factor / static_cast<double>(fits.size());
  const double apart = std::abs(mean - 1);
  if (apart < kApart) return std::nullopt;
  const bool same = std::ranges::all_of(fits, [&](const Fit& each) {
    return each.rest < kSame * apart && std::abs(each.factor - mean) < kSame * apart;
  });
  return same ? std::optional(mean) : std::nullopt;
}

}  // namespace

std::optional<LogProbabilities> compare_log_probabilities(std::span<const double> a,
                                                          std::uint64_t width_a,
                                                          std::span<const double> b,
                                                          std::uint64_t width_b,
                                                          const RowMap& rows,
                                                          std::span<const std::int64_t> tokens) {
  const std::uint64_t width = std::min(width_a, width_b);
  if (width == 0) return std::nullopt;
  LogProbabilities found;
  std::vector<Fit> fits;
  for (std::uint64_t row = 0; row < rows.of_b.size(); ++row) {
    const auto& there = rows.of_b[row];
    if (!there) continue;
    const auto one = a.subspan(*there * width_a, width);
    const auto other = b.subspan(row * width_b, width);
    const double sum_a = log_sum(one);
    const double sum_b = log_sum(other);
    ++found.rows;
    if (best_of(one) == best_of(other)) ++found.same_best;
    double divergence = 0;
    for (std::uint64_t k = 0; k < width; ++k) {
      const double log_a = one[k] - sum_a;
      if (std::isfinite(log_a)) divergence += std::exp(log_a) * (log_a - (other[k] - sum_b));
    }
    divergence = std::max(divergence, 0.0);
    found.divergence += divergence;
    found.max_divergence = std::max(found.max_divergence, divergence);
    fits.push_back(fit(one, other));
    const auto& next = rows.next[row];
    if (!next || *next >= tokens.size() || tokens[*next] < 0 ||
        static_cast<std::uint64_t>(tokens[*next]) >= width) {
      continue;
    }
    const auto token = static_cast<std::size_t>(tokens[*next]);
    const TokenProbability each{row, tokens[*next], one[token] - sum_a, other[token] - sum_b};
    const double apart = std::abs(each.b - each.a);
    ++found.tokens;
    found.mean += apart;
    found.max = std::max(found.max, apart);
    found.worst.push_back(each);
  }
  if (found.rows == 0) return std::nullopt;
  found.divergence /= static_cast<double>(found.rows);
  if (found.tokens > 0) found.mean /= static_cast<double>(found.tokens);
  std::ranges::stable_sort(found.worst, std::ranges::greater{}, [](const TokenProbability& each) {
    return std::abs(each.b - each.a);
  });
  if (found.worst.size() > kWorstTokens) found.worst.resize(kWorstTokens);
  found.factor = common_factor(fits);
  return found;
}

}  // namespace repro_check::comparators
