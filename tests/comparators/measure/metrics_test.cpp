// SPDX-License-Identifier: Apache-2.0
// The vectors A to P of the comparison reference. Irrational values are compared to 1e-12 relative.
#include "comparators/measure/metrics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "comparators/measure/policy.h"
#include "core/error.h"
#include "tests/comparators/measure/tensor_pair.h"

namespace repro_check::comparators {
namespace {

using core::Dtype;

const double kInf = std::numeric_limits<double>::infinity();

doctest::Approx near(double value) { return doctest::Approx(value).epsilon(1e-12).scale(0); }

TensorMetrics exact(const TensorPair& pair) {
  return measure(pair.baseline(), pair.candidate(), {});
}

TensorMetrics with_defaults(const TensorPair& pair, Dtype dtype) {
  configs::PolicySpec policy;
  policy.kind = configs::PolicyKind::kTolerance;
  return measure(pair.baseline(), pair.candidate(), element_policy(policy, dtype));
}

TEST_CASE("vector A: float32, every metric") {
  const auto m = exact(values_pair(Dtype::kFloat32, "[1,2,4,8]", "[1,2.5,4,7]"));
  CHECK(m.elements == 4);
  CHECK(m.n_diff == 2);
  CHECK(m.n_beyond == 2);
  CHECK(m.first_diff == 1);
  CHECK(m.max_abs == 1.0);
  CHECK(m.max_abs_index == 3);
  CHECK(m.mean_abs == 0.375);
  CHECK(m.max_rel == 0.25);
  CHECK(m.max_rel_index == 1);
  CHECK(m.mean_rel == 0.09375);
  CHECK(*m.rmse == near(0.5590169943749475));
  CHECK(*m.l2_rel * *m.l2_rel == near(0.014705882352941176));
  CHECK(*m.l2_rel == near(0.12126781251816648));
  CHECK(*m.cosine == near(0.9953279829326577));
  CHECK(*m.norm_ratio == near(0.9219544457292888));
  CHECK(m.ulp_max == 2097152);
  CHECK(m.within_1e3 == 0.5);
  CHECK(m.within_5e3 == 0.5);
  CHECK(*m.nmse == near(0.014705882352941176));
  CHECK(m.flips == 0);
  CHECK(m.rtol_needed == 0.25);
  CHECK(m.atol_needed == 1.0);
}

TEST_CASE("vector B: a zero baseline") {
  const auto m = exact(values_pair(Dtype::kFloat32, "[0,0,1,-1]", "[0,1e-3,1,1]"));
  CHECK(m.max_abs == 2.0);
  CHECK(m.max_abs_index == 3);
  CHECK(*m.mean_abs == near(0.5002500000118744));
  CHECK(m.max_rel == kInf);
  CHECK(m.max_rel_index == 1);
  CHECK(m.zero_baseline == 1);
  CHECK(m.max_rel_finite == 2.0);
  CHECK(m.max_rel_finite_index == 3);
  CHECK(m.mean_rel == 1.0);
  CHECK(*m.rmse == near(1.0000001250000041));
  CHECK(*m.l2_rel * *m.l2_rel == near(2.0000005000000476));
  CHECK(m.cosine == 0.0);
  CHECK(m.ulp_max == 2130706432);
  CHECK(m.within_1e3 == 0.5);
  CHECK(m.rtol_needed == kInf);
}

TEST_CASE("vector C: NaN and Inf are classes, not numbers") {
  const auto m = exact(values_pair(Dtype::kFloat32,
                                   R"(["nan","nan","inf","inf",1,"inf"])",
                                   R"(["nan",1,"inf","-inf","nan",3])"));
  CHECK(m.n_diff == 4);
  CHECK(m.first_diff == 1);
  CHECK(m.nan_baseline == 1);
  CHECK(m.nan_candidate == 1);
  CHECK(m.nan_both_same == 1);
  CHECK(m.inf_baseline == 1);
  CHECK(m.inf_candidate == 0);
  CHECK(m.inf_sign == 1);
  CHECK(m.n_finite == 0);
  CHECK_FALSE(m.max_abs);
  CHECK_FALSE(m.max_rel);
  CHECK_FALSE(m.mean_abs);
  CHECK_FALSE(m.rmse);
  CHECK_FALSE(m.cosine);
  CHECK_FALSE(m.ulp_max);
  CHECK(m.rtol_needed == kInf);
  CHECK(m.atol_needed == kInf);
}

TEST_CASE("vector D: ULP across zero and powers of two") {
  const auto m = exact(bits_pair(Dtype::kFloat32,
                                 R"(["3f800000","3f800000","bf800000","00000001","00000000"])",
                                 R"(["3f800001","3f7fffff","bf800001","80000001","00000001"])"));
  CHECK(m.ulp_max == 2);
  CHECK(m.ulp_mean == near(6.0 / 5.0));
}

TEST_CASE("vector E: ULP of narrow dtypes") {
  const auto ulp = [](Dtype dtype, const char* from, const char* to) {
    const auto m = exact(bits_pair(dtype, from, to));
    return std::pair(*m.ulp_max, *m.ulp_mean);
  };
  using Pair = std::pair<std::uint64_t, double>;
  CHECK(ulp(Dtype::kFloat8E4M3FN, R"(["38","7e","81","58"])", R"(["39","7d","01","59"])") ==
        Pair(2, 1.25));
  CHECK(ulp(Dtype::kFloat8E5M2, R"(["3c","7b","01"])", R"(["3d","7a","00"])") == Pair(1, 1.0));
  CHECK(ulp(Dtype::kBFloat16, R"(["3f80","4380","4040"])", R"(["3f81","4381","403f"])") ==
        Pair(1, 1.0));
  CHECK(ulp(Dtype::kFloat16,
            R"(["3c00","7bff","6800","0001"])",
            R"(["3c01","7bfe","6801","0002"])") == Pair(1, 1.0));
}

TEST_CASE("vector F: integers are exact") {
  const auto m = exact(values_pair(Dtype::kInt64,
                                   "[1152921504606846976, -9223372036854775808]",
                                   "[1152921504606846977, 9223372036854775807]"));
  CHECK(m.n_diff == 2);
  CHECK(m.max_abs_exact == 18446744073709551615ULL);
  CHECK(m.max_abs_index == 1);
  CHECK(m.mean_abs == 9223372036854775808.0);
  CHECK(m.max_rel == 2.0);
  CHECK(m.max_rel_index == 1);
  CHECK_FALSE(m.ulp_max);
}

TEST_CASE("vector G: sums of squares out of range") {
  SUBCASE("overflow") {
    const auto m = exact(values_pair(Dtype::kFloat64, "[0,0]", "[1e200,1e200]"));
    CHECK(*m.rmse == near(1e200));
    CHECK(m.l2_rel == kInf);
    CHECK(m.cosine == 0.0);
  }
  SUBCASE("underflow") {
    const auto m = exact(values_pair(Dtype::kFloat64, "[0]", "[1e-200]"));
    CHECK(*m.rmse == near(1e-200));
  }
  SUBCASE("both large") {
    const auto m = exact(values_pair(Dtype::kFloat64, "[1e200,1e200]", "[2e200,2e200]"));
    CHECK(*m.l2_rel == near(1));
    CHECK(*m.cosine == near(1));
    CHECK(*m.norm_ratio == near(2));
  }
  SUBCASE("a difference that overflows") {
    const auto m = exact(values_pair(Dtype::kFloat64, "[-1.7e308]", "[1.7e308]"));
    CHECK(m.max_abs == kInf);
    CHECK(*m.l2_rel == near(2));
    CHECK(m.cosine == -1.0);
  }
  SUBCASE("operands of very different size") {
    const auto m = exact(values_pair(Dtype::kFloat64, "[1e-200,2e-200]", "[1e200,2e200]"));
    CHECK(*m.cosine == near(1));
    CHECK(*m.rmse == near(std::sqrt(2.5) * 1e200));
  }
  SUBCASE("complex") {
    const auto m = exact(values_pair(Dtype::kComplex128, "[[0,1e200]]", "[[0,2e200]]"));
    CHECK(*m.l2_rel == near(1));
    CHECK(*m.rmse == near(1e200));
  }
}

TEST_CASE("vector H: the rtol that is needed passes, the one before it does not") {
  const auto pair = values_pair(Dtype::kFloat64, "[49]", "[50]");
  const auto m = exact(pair);
  CHECK(m.rtol_needed == 0.020408163265306124);
  ElementPolicy policy;
  policy.rtol = *m.rtol_needed;
  CHECK(measure(pair.baseline(), pair.candidate(), policy).n_beyond == 0);
  policy.rtol = std::nextafter(policy.rtol, 0.0);
  CHECK(measure(pair.baseline(), pair.candidate(), policy).n_beyond == 1);
}

std::uint64_t beyond_ulps(const TensorPair& pair, std::uint64_t allowed) {
  ElementPolicy policy;
  policy.atol = kInf;
  policy.max_ulp = allowed;
  policy.signed_zero_distinct = false;
  return measure(pair.baseline(), pair.candidate(), policy).n_beyond;
}

TEST_CASE("a limit in ULP counts what is farther apart, and finds the first") {
  const auto narrow = bits_pair(Dtype::kFloat32,
                                R"(["3f800000","3f800000","00000001","00000000","ff7fffff"])",
                                R"(["3f800001","3f800004","80000001","80000000","7f7fffff"])");
  CHECK(beyond_ulps(narrow, 0) == 4);
  CHECK(beyond_ulps(narrow, 1) == 3);
  CHECK(beyond_ulps(narrow, 2) == 2);
  CHECK(beyond_ulps(narrow, 4) == 1);
  CHECK(beyond_ulps(narrow, 4278190077) == 1);
  CHECK(beyond_ulps(narrow, 4278190078) == 0);
  ElementPolicy policy;
  policy.atol = kInf;
  policy.max_ulp = 2;
  CHECK(measure(narrow.baseline(), narrow.candidate(), policy).first_beyond == 1);

  const auto wide = bits_pair(Dtype::kFloat64,
                              R"(["3ff0000000000000","ffefffffffffffff"])",
                              R"(["3ff0000000000003","7fefffffffffffff"])");
  CHECK(beyond_ulps(wide, 2) == 2);
  CHECK(beyond_ulps(wide, 3) == 1);
  CHECK(beyond_ulps(wide, 0xFFDF'FFFF'FFFF'FFFDU) == 1);
  CHECK(beyond_ulps(wide, 0xFFDF'FFFF'FFFF'FFFEU) == 0);

  // The worse of the two parts of a complex number, and no distance at all to a NaN.
  const auto complex =
      values_pair(Dtype::kComplex64, "[[1,0],[1,1]]", "[[1.0000002384185791,0],[1,1]]");
  CHECK(beyond_ulps(complex, 1) == 1);
  CHECK(beyond_ulps(complex, 2) == 0);
  const auto special = values_pair(Dtype::kFloat32, R"([1,"inf"])", R"(["nan",3e38])");
  CHECK(beyond_ulps(special, std::numeric_limits<std::uint64_t>::max()) == 2);
}

TEST_CASE("vector I: leaves and lanes fix the sum") {
  constexpr std::int64_t kCount = 131074;
  TensorPair pair(Dtype::kFloat64, {kCount});
  pair.baseline_bytes.resize(kCount * sizeof(double));
  pair.candidate_bytes.resize(kCount * sizeof(double));
  std::vector<double> values(kCount, 1.0);
  values[0] = 9007199254740992.0;
  std::memcpy(pair.candidate_bytes.data(), values.data(), pair.candidate_bytes.size());
  const auto m = exact(pair);
  CHECK(m.mean_abs == 9007199254863874.0 / kCount);
  CHECK(*m.mean_abs == near(68718428176.937256));
}

TEST_CASE("vector J: norms hide single elements") {
  const auto m = exact(values_pair(Dtype::kFloat32, "[1e6,1,1,1]", "[1e6,2,2,2]"));
  CHECK(*m.l2_rel * *m.l2_rel == near(2.999999999991e-12));
  CHECK(*m.cosine == near(0.9999999999985));
  CHECK(*m.l2_rel == doctest::Approx(1.7320508e-6).epsilon(1e-7).scale(0));
  CHECK(m.max_rel == 1.0);
  CHECK(m.within_1e3 == 0.25);
  CHECK(m.within_5e3 == 0.25);
}

TEST_CASE("vectors K and L: bool and complex") {
  const auto k = exact(values_pair(Dtype::kBool, "[1,0,1]", "[1,1,0]"));
  CHECK(k.n_diff == 2);
  CHECK(k.first_diff == 1);
  CHECK(k.max_abs == 1.0);
  CHECK_FALSE(k.ulp_max);
  CHECK_FALSE(k.cosine);
  const auto l = exact(values_pair(Dtype::kComplex64, "[[3,4],[0,0]]", "[[3,4],[0,0.001]]"));
  CHECK(l.max_abs == 0.0010000000474974513);
  CHECK(*l.l2_rel * *l.l2_rel == near(4.0000003799796195e-08));
}

TEST_CASE("vectors M and N: zeros and nothing") {
  const auto m = exact(values_pair(Dtype::kFloat32, "[0,0]", "[0,0]"));
  CHECK(m.l2_rel == 0.0);
  CHECK(m.cosine == 1.0);
  CHECK(m.norm_ratio == 1.0);
  CHECK(m.ulp_max == 0);
  TensorPair empty(Dtype::kFloat32, {0, 3});
  const auto n = exact(empty);
  CHECK(n.elements == 0);
  CHECK(n.n_diff == 0);
  CHECK_FALSE(n.max_abs);
  CHECK_FALSE(n.cosine);
  CHECK_FALSE(n.l2_rel);
  CHECK_FALSE(n.within_1e3);
  CHECK_FALSE(n.rtol_needed);
}

TEST_CASE("vector O: the shares are strict") {
  const auto m = exact(values_pair(Dtype::kFloat32, "[1,100]", "[1.0009765625,100.5]"));
  CHECK(m.within_1e3 == 0.5);
  CHECK(m.within_5e3 == 0.5);
}

TEST_CASE("vector P: the tolerance is evaluated in double") {
  CHECK(with_defaults(bits_pair(Dtype::kFloat16, R"(["2294"])", R"(["2297"])"), Dtype::kFloat16)
            .n_beyond == 1);
  CHECK(with_defaults(bits_pair(Dtype::kBFloat16, R"(["3b12"])", R"(["3b15"])"), Dtype::kBFloat16)
            .n_beyond == 1);
}

TEST_CASE("classes of 8-bit floats") {
  // The codes of NaN: 0x7f and 0xff in e4m3fn, 0x80 alone in fnuz, 0xff in e8m0.
  const auto nan = [](Dtype dtype, const char* code) {
    return exact(bits_pair(dtype, code, code)).nan_both_same;
  };
  CHECK(nan(Dtype::kFloat8E4M3FN, R"(["7f","ff","7e","fe"])") == 2);
  CHECK(nan(Dtype::kFloat8E5M2, R"(["7d","7f","fd","ff","7c"])") == 4);
  CHECK(nan(Dtype::kFloat8E4M3FNUZ, R"(["80","7f","ff"])") == 1);
  CHECK(nan(Dtype::kFloat8E5M2FNUZ, R"(["80","7f","ff"])") == 1);
  CHECK(nan(Dtype::kFloat8E8M0FNU, R"(["ff","fe","00"])") == 1);
  const auto m = exact(bits_pair(Dtype::kFloat8E5M2, R"(["7c"])", R"(["7b"])"));
  CHECK(m.inf_baseline == 1);
}

TEST_CASE("e8m0 has no zero: padding must not weigh") {
  const auto m = exact(bits_pair(Dtype::kFloat8E8M0FNU, R"(["00","01"])", R"(["00","02"])"));
  CHECK(m.n_diff == 1);
  CHECK(m.ulp_max == 1);
  CHECK(m.max_rel == 1.0);
  CHECK(m.n_finite == 2);
}

TEST_CASE("unknown dtypes and unequal shapes are refused") {
  const TensorPair unknown(Dtype::kUnknown, {0});
  CHECK_THROWS_AS(exact(unknown), core::Error);
  const TensorPair left(Dtype::kFloat32, {0, 3});
  const TensorPair right(Dtype::kFloat32, {3, 0});
  CHECK_THROWS_AS(measure(left.baseline(), right.candidate(), {}), core::Error);
}

TEST_CASE("the least tolerance beside the policy's other one passes, and the one below does not") {
  const auto pair = values_pair(Dtype::kFloat32, "[1,100,0,-3,1e-6]", "[1.25,100.5,0.001,-3,2e-6]");
  ElementPolicy policy;
  policy.rtol = 1e-3;
  policy.atol = 1e-2;
  const auto m = measure(pair.baseline(), pair.candidate(), policy);
  CHECK(m.n_beyond == 2);
  REQUIRE(m.rtol_given_atol);
  REQUIRE(m.atol_given_rtol);
  const auto beyond = [&](double rtol, double atol) {
    ElementPolicy other;
    other.rtol = rtol;
    other.atol = atol;
    return measure(pair.baseline(), pair.candidate(), other).n_beyond;
  };
  CHECK(beyond(*m.rtol_given_atol, policy.atol) == 0);
  CHECK(beyond(std::nextafter(*m.rtol_given_atol, 0.0), policy.atol) == 1);
  CHECK(beyond(policy.rtol, *m.atol_given_rtol) == 0);
  CHECK(beyond(policy.rtol, std::nextafter(*m.atol_given_rtol, 0.0)) == 1);
}

TEST_CASE("no rtol helps where the baseline is 0 and the difference beyond atol") {
  const auto pair = values_pair(Dtype::kFloat32, "[0,1]", "[0.5,1]");
  ElementPolicy policy;
  policy.rtol = 1e-3;
  policy.atol = 1e-2;
  const auto m = measure(pair.baseline(), pair.candidate(), policy);
  CHECK(m.rtol_given_atol == kInf);
  CHECK(m.atol_given_rtol == 0.5);
}

TEST_CASE("percentiles of the relative error lie between their bounds") {
  const auto m = exact(values_pair(Dtype::kFloat32, "[1,1,1,1,0]", "[1,1.0625,1.0625,3,1]"));
  REQUIRE(m.rel_hist);
  CHECK(m.rel_hist->zero == 1);
  CHECK(m.rel_hist->infinite == 1);
  CHECK(rel_percentile(*m.rel_hist, 0.2)->at_most == 0.0);
  CHECK(rel_percentile(*m.rel_hist, 0.5)->at_least == 0.0625);
  CHECK(rel_percentile(*m.rel_hist, 0.5)->at_most == 0.125);
  CHECK(rel_percentile(*m.rel_hist, 0.8)->at_least == 2.0);
  CHECK(rel_percentile(*m.rel_hist, 1.0)->at_most == kInf);
  CHECK_FALSE(rel_percentile(RelHistogram{}, 0.5));
}

}  // namespace
}  // namespace repro_check::comparators
