// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "comparators/report/report.h"

namespace repro_check::comparators::run_statistics_test {
namespace {

using Counts = std::vector<std::uint64_t>;

/// Binomial tail by the definition, for few trials.
double at_least(std::uint64_t hits, std::uint64_t trials, double p) {
  double sum = 0;
  for (std::uint64_t k = hits; k <= trials; ++k) {
    double ways = 1;
    for (std::uint64_t i = 0; i < k; ++i) {
      ways *= static_cast<double>(trials - i) / static_cast<double>(i + 1);
    }
    sum += ways * std::pow(p, static_cast<double>(k)) *
           std::pow(1 - p, static_cast<double>(trials - k));
  }
  return sum;
}

TEST_CASE("disagreement is the share of pairs of runs that differ") {
  CHECK(disagreement(Counts{7, 2, 1}) == doctest::Approx(0.5111).epsilon(1e-4));
  CHECK(disagreement(Counts{10}) == 0);
  CHECK(disagreement(Counts{1, 1}) == 1);
  CHECK(disagreement(Counts{1, 1, 1, 1}) == 1);
  CHECK(disagreement(Counts{5, 5}) == doctest::Approx(25.0 / 45));
  CHECK(disagreement(Counts{1}) == 0);
  CHECK(disagreement(Counts{}) == 0);
}

TEST_CASE("the interval is the exact one") {
  struct Row {
    std::uint64_t hits, trials;
    double low, high;
  };
  constexpr std::array<Row, 5> kRows{{{0, 9, 0, 0.3363},
                                      {1, 9, 0.0028, 0.4825},
                                      {3, 9, 0.0749, 0.7007},
                                      {9, 9, 0.6637, 1},
                                      {1, 20, 0.0013, 0.2487}}};
  for (const Row& row : kRows) {
    CAPTURE(row.hits);
    CAPTURE(row.trials);
    const Interval interval = clopper_pearson(row.hits, row.trials);
    CHECK(std::abs(interval.low - row.low) < 0.00005);
    CHECK(std::abs(interval.high - row.high) < 0.00005);
  }
  CHECK(clopper_pearson(0, 0).low == 0);
  CHECK(clopper_pearson(0, 0).high == 1);
}

TEST_CASE("each end of the interval leaves half of alpha outside") {
  for (std::uint64_t trials = 1; trials <= 30; ++trials) {
    for (std::uint64_t hits = 0; hits <= trials; ++hits) {
      for (const double alpha : {0.05, 0.001}) {
        CAPTURE(hits);
        CAPTURE(trials);
        const Interval interval = clopper_pearson(hits, trials, alpha);
        CHECK(interval.low <= interval.high);
        if (hits == 0) {
          CHECK(interval.low == 0);
        } else {
          CHECK(at_least(hits, trials, interval.low) == doctest::Approx(alpha / 2).epsilon(1e-9));
        }
        if (hits == trials) {
          CHECK(interval.high == 1);
        } else {
          const double at_most = 1 - at_least(hits + 1, trials, interval.high);
          CHECK(at_most == doctest::Approx(alpha / 2).epsilon(1e-6));
        }
      }
    }
  }
}

TEST_CASE("the interval of many trials is near its share, and mirrors") {
  const Interval many = clopper_pearson(30'000, 100'000);
  CHECK(many.low == doctest::Approx(0.29716).epsilon(1e-4));
  CHECK(many.high == doctest::Approx(0.30285).epsilon(1e-4));
  const Interval few = clopper_pearson(3, 4'000);
  const Interval mirrored = clopper_pearson(3'997, 4'000);
  CHECK(few.low == doctest::Approx(1 - mirrored.high).epsilon(1e-9));
  CHECK(few.high == doctest::Approx(1 - mirrored.low).epsilon(1e-9));
}

TEST_CASE("what never came may still come") {
  const std::array<std::array<double, 2>, 5> rows{
      {{2, 0.776}, {10, 0.259}, {29, 0.098}, {59, 0.050}, {99, 0.030}}};
  for (const auto& [trials, share] : rows) {
    CAPTURE(trials);
    const double bound = undetected_share(static_cast<std::uint64_t>(trials));
    CHECK(std::abs(bound - share) < 0.0005);
    CHECK(std::pow(1 - bound, trials) == doctest::Approx(0.05));
  }
  CHECK(undetected_share(0) == 1);
  CHECK(undetected_share(1) == doctest::Approx(0.95));
  CHECK(undetected_share(1'000'000) == doctest::Approx(2.9957e-6).epsilon(1e-4));
}

TEST_CASE("runs in all to see the odd one") {
  struct Row {
    double share;
    std::uint64_t runs;
  };
  constexpr std::array<Row, 9> kRows{{{0.5, 6},
                                      {0.3, 9},
                                      {0.2, 14},
                                      {0.1, 29},
                                      {0.05, 59},
                                      {0.02, 149},
                                      {0.01, 299},
                                      {0.005, 598},
                                      {0.001, 2995}}};
  for (const Row& row : kRows) {
    CAPTURE(row.share);
    CHECK(runs_needed(row.share) == row.runs);
    CHECK(runs_needed(1 - row.share) == row.runs);
  }
  for (const double none :
       {0.0, 1.0, -0.5, 1.5, std::numeric_limits<double>::quiet_NaN(), 1e-300}) {
    CAPTURE(none);
    CHECK_FALSE(runs_needed(none).has_value());
  }
  CHECK(runs_needed(1e-9).value() == doctest::Approx(2.9957e9).epsilon(1e-4));
}

}  // namespace
}  // namespace repro_check::comparators::run_statistics_test
