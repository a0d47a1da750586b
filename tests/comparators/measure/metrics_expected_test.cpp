// SPDX-License-Identifier: Apache-2.0
// Metrics against numbers that another program computed exactly: data/make_metrics_expected.py and
// data/make_metrics_special.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comparators/measure/metrics.h"
#include "tests/comparators/measure/tensor_pair.h"

namespace repro_check::comparators {
namespace {

using nlohmann::json;

json load_cases(const std::string& name = "metrics_expected.json") {
  std::ifstream file(std::string(REPRO_CHECK_TEST_DATA "/") + name);
  return json::parse(file);
}

ElementPolicy policy_of(const json& entry) {
  ElementPolicy policy;
  if (entry.contains("ulp")) {
    policy.atol = std::numeric_limits<double>::infinity();
    policy.max_ulp = entry.at("ulp").get<std::uint64_t>();
  } else {
    policy.rtol = entry.at("rtol").get<double>();
    policy.atol = entry.at("atol").get<double>();
  }
  const std::string nan = entry.at("equal_nan");
  policy.equal_nan = nan == "any"     ? configs::EqualNan::kAny
                     : nan == "never" ? configs::EqualNan::kNever
                                      : configs::EqualNan::kBits;
  policy.signed_zero_distinct = entry.at("signed_zero_distinct").get<bool>();
  return policy;
}

void check_real(const json& expected, const char* name, const std::optional<double>& actual) {
  if (!expected.contains(name)) return;
  CAPTURE(name);
  const json& value = expected.at(name);
  if (value.is_null()) {
    CHECK_FALSE(actual);
  } else if (value.is_string()) {
    CHECK(actual == std::numeric_limits<double>::infinity());
  } else {
    REQUIRE(actual);
    const double exact = value.get<double>();
    CHECK(std::abs(*actual - exact) <= 1e-12 * std::abs(exact));
  }
}

void check_count(const json& expected, const char* name, std::uint64_t actual) {
  if (!expected.contains(name)) return;
  CAPTURE(name);
  CHECK(actual == expected.at(name).get<std::uint64_t>());
}

void check_maybe(const json& expected,
                 const char* name,
                 const std::optional<std::uint64_t>& actual) {
  if (!expected.contains(name)) return;
  CAPTURE(name);
  if (expected.at(name).is_null()) {
    CHECK_FALSE(actual);
  } else {
    CHECK(actual == expected.at(name).get<std::uint64_t>());
  }
}

void check_histograms(const json& expected, const TensorMetrics& m) {
  if (expected.contains("ulp_hist")) {
    REQUIRE(m.ulp_hist);
    CHECK(*m.ulp_hist == expected.at("ulp_hist").get<UlpHistogram>());
  }
  if (!expected.contains("rel_hist")) return;
  const json& rel = expected.at("rel_hist");
  REQUIRE(m.rel_hist);
  CHECK(m.rel_hist->zero == rel.at(0).get<std::uint64_t>());
  CHECK(m.rel_hist->infinite == rel.at(1).get<std::uint64_t>());
  for (int exponent = RelHistogram::kLeast; exponent <= RelHistogram::kGreatest; ++exponent) {
    CAPTURE(exponent);
    const auto place = static_cast<std::size_t>(exponent - RelHistogram::kLeast);
    CHECK(m.rel_hist->exponents.at(place) ==
          rel.at(2).value(std::to_string(exponent), std::uint64_t{0}));
  }
}

void check_case(const TensorMetrics& m, const json& expected) {
  check_count(expected, "n_diff", m.n_diff);
  check_count(expected, "n_finite", m.n_finite);
  check_count(expected, "nan_both_same", m.nan_both_same);
  check_count(expected, "nan_both_payload", m.nan_both_payload);
  check_count(expected, "nan_baseline", m.nan_baseline);
  check_count(expected, "nan_candidate", m.nan_candidate);
  check_count(expected, "inf_sign", m.inf_sign);
  check_count(expected, "inf_baseline", m.inf_baseline);
  check_count(expected, "inf_candidate", m.inf_candidate);
  check_count(expected, "zero_sign_only", m.zero_sign_only);
  check_count(expected, "zero_baseline", m.zero_baseline);
  check_count(expected, "flips", m.flips);
  check_count(expected, "flushed", m.flushed);
  check_count(expected, "saturated", m.saturated);
  check_count(expected, "zeros_both", m.zeros_both);
  check_count(expected, "false_to_true", m.false_to_true);
  check_count(expected, "true_to_false", m.true_to_false);
  check_histograms(expected, m);
  // Of integers the mean is rounded once: equal to the last bit.
  if (expected.contains("mean_exact")) CHECK(m.mean_abs == expected.at("mean_exact").get<double>());
  check_maybe(expected, "max_abs_index", m.max_abs_index);
  check_maybe(expected, "max_abs_exact", m.max_abs_exact);
  check_maybe(expected, "ulp_max", m.ulp_max);
  check_real(expected, "max_abs", m.max_abs);
  check_real(expected, "mean_abs", m.mean_abs);
  check_real(expected, "max_rel", m.max_rel);
  check_real(expected, "max_rel_finite", m.max_rel_finite);
  check_real(expected, "mean_rel", m.mean_rel);
  check_real(expected, "ulp_mean", m.ulp_mean);
  check_real(expected, "rmse", m.rmse);
  check_real(expected, "nmse", m.nmse);
  check_real(expected, "l2_rel", m.l2_rel);
  check_real(expected, "cosine", m.cosine);
  check_real(expected, "norm_ratio", m.norm_ratio);
  check_real(expected, "within_1e3", m.within_1e3);
  check_real(expected, "within_5e3", m.within_5e3);
}

/// The needed tolerances pass, and the numbers just below them do not.
void check_needed(const TensorPair& pair, const TensorMetrics& m, bool infinite) {
  if (infinite) {
    CHECK(m.rtol_needed == std::numeric_limits<double>::infinity());
    return;
  }
  if (!m.rtol_needed || *m.rtol_needed == 0 || m.nan_both_payload + m.nan_both_same != 0) return;
  ElementPolicy policy;
  policy.equal_nan = configs::EqualNan::kAny;
  policy.signed_zero_distinct = false;
  policy.rtol = *m.rtol_needed;
  CHECK(measure(pair.baseline(), pair.candidate(), policy).n_beyond == 0);
  policy.rtol = *m.max_rel * (1 - 1e-12);
  CHECK(measure(pair.baseline(), pair.candidate(), policy).n_beyond != 0);
  policy.rtol = 0;
  policy.atol = *m.atol_needed;
  CHECK(measure(pair.baseline(), pair.candidate(), policy).n_beyond == 0);
  policy.atol = std::nextafter(policy.atol, 0.0);
  CHECK(measure(pair.baseline(), pair.candidate(), policy).n_beyond != 0);
}

TEST_CASE("metrics of random tensors are those computed exactly") {
  const json cases = load_cases();
  REQUIRE(cases.size() > 40);
  for (const json& entry : cases) {
    const std::string dtype = entry.at("dtype");
    CAPTURE(dtype);
    const TensorPair pair = bits_pair(
        *core::parse_dtype(dtype), entry.at("baseline").dump(), entry.at("candidate").dump());
    CAPTURE(pair.shape.front());
    const json& expected = entry.at("expected");
    const TensorMetrics m = measure(pair.baseline(), pair.candidate(), {});
    check_case(m, expected);
    if (expected.contains("needs_infinite")) {
      check_needed(pair, m, expected.at("needs_infinite").get<bool>());
    }
  }
}

TEST_CASE("special values: metrics and verdicts are those computed exactly") {
  const json cases = load_cases("metrics_special.json");
  REQUIRE(cases.size() > 120);
  for (const json& entry : cases) {
    const std::string dtype = entry.at("dtype");
    CAPTURE(dtype);
    CAPTURE(entry.at("baseline").dump().substr(0, 60));
    CAPTURE(entry.at("candidate").dump().substr(0, 60));
    const TensorPair pair = bits_pair(
        *core::parse_dtype(dtype), entry.at("baseline").dump(), entry.at("candidate").dump());
    check_case(measure(pair.baseline(), pair.candidate(), {}), entry.at("expected"));
    for (const json& verdict : entry.value("judged", json::array())) {
      CAPTURE(verdict.dump());
      const TensorMetrics m = measure(pair.baseline(), pair.candidate(), policy_of(verdict));
      CHECK(m.n_beyond == verdict.at("n_beyond").get<std::uint64_t>());
      check_maybe(verdict, "first_beyond", m.first_beyond);
    }
  }
}

TEST_CASE("a tensor of several leaves is the sum of its parts") {
  // The small tensor's counts and maxima must not change when it stands many times in a row, at
  // offsets that fall on every lane, into the last elements of a leaf, and next to NaN.
  const json cases = load_cases();
  for (const json& entry : cases) {
    const std::string dtype = entry.at("dtype");
    if (dtype != "float32" && dtype != "float16" && dtype != "float8_e4m3fn") continue;
    CAPTURE(dtype);
    TensorPair once = bits_pair(
        *core::parse_dtype(dtype), entry.at("baseline").dump(), entry.at("candidate").dump());
    const TensorMetrics small = measure(once.baseline(), once.candidate(), {});
    const auto times = static_cast<std::int64_t>(140'000 / once.shape[0]);
    TensorPair many(once.dtype, {once.shape[0] * times});
    for (std::int64_t i = 0; i < times; ++i) {
      many.baseline_bytes.insert(
          many.baseline_bytes.end(), once.baseline_bytes.begin(), once.baseline_bytes.end());
      many.candidate_bytes.insert(
          many.candidate_bytes.end(), once.candidate_bytes.begin(), once.candidate_bytes.end());
    }
    const TensorMetrics large = measure(many.baseline(), many.candidate(), {});
    const auto count = static_cast<std::uint64_t>(times);
    CHECK(large.n_diff == small.n_diff * count);
    CHECK(large.n_beyond == small.n_beyond * count);
    CHECK(large.n_finite == small.n_finite * count);
    CHECK(large.nan_candidate == small.nan_candidate * count);
    CHECK(large.inf_sign == small.inf_sign * count);
    CHECK(large.zero_sign_only == small.zero_sign_only * count);
    CHECK(large.first_diff == small.first_diff);
    CHECK(large.first_beyond == small.first_beyond);
    CHECK(large.max_abs == small.max_abs);
    CHECK(large.max_abs_index == small.max_abs_index);
    CHECK(large.max_rel_index == small.max_rel_index);
    CHECK(large.rtol_needed == small.rtol_needed);
    CHECK(large.ulp_max == small.ulp_max);
    CHECK(large.within_1e3 == small.within_1e3);
    if (small.rmse) CHECK(*large.rmse == doctest::Approx(*small.rmse).epsilon(1e-12).scale(0));
    if (small.cosine) CHECK(*large.cosine == doctest::Approx(*small.cosine).epsilon(1e-9));
    if (small.ulp_mean) CHECK(*large.ulp_mean == doctest::Approx(*small.ulp_mean).epsilon(1e-12));
  }
}

}  // namespace
}  // namespace repro_check::comparators
