// SPDX-License-Identifier: Apache-2.0
// The fault corpus of the comparison reference: rows about the values of one matched operator.
#include <doctest/doctest.h>

#include <string>

#include "tests/comparators/corpus.h"
#include "tests/comparators/said.h"

namespace repro_check::comparators::corpus_values_test {
namespace {

using configs::EqualNan;

Report judge(const std::string& dtype,
             const ordered_json& from,
             const ordered_json& to,
             const CompareOptions& options,
             const char* key = "values") {
  return compare_json(one_op("baseline", tensor_of(dtype, from, key)),
                      one_op("candidate", tensor_of(dtype, to, key)),
                      options);
}

int exit_of(const std::string& dtype,
            const ordered_json& from,
            const ordered_json& to,
            const CompareOptions& options,
            const char* key = "values") {
  return exit_of(judge(dtype, from, to, options, key));
}

const TensorComparison& only_output(const Report& report) {
  REQUIRE(report.first_divergence);
  REQUIRE(report.first_divergence->outputs.size() == 1);
  return report.first_divergence->outputs.front();
}

TEST_CASE("row 1: the same twice is reproducible") {
  const Report report = judge("float32", {1, 2, 3}, {1, 2, 3}, bitwise());
  CHECK(exit_of(report) == 0);
  CHECK(report.status == Status::kReproducible);
  CHECK(report.kind == DivergenceKind::kNone);
  CHECK(report.coverage.equal == 1);
  CHECK(report.coverage.elements == 3);
  CHECK(report.coverage.bytes == 12);
  CHECK_FALSE(report.first_divergence);
}

TEST_CASE("row 2: one ULP") {
  const ordered_json from = {"3f800000"};
  const ordered_json to = {"3f800001"};
  const Report report = judge("float32", from, to, bitwise(), "bits");
  CHECK(exit_of(report) == 1);
  CHECK(report.kind == DivergenceKind::kOrigin);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  CHECK(only_output(report).metrics->ulp_max == 1);
  CHECK(exit_of("float32", from, to, tolerance(), "bits") == 0);
}

TEST_CASE("row 3: the sign of zero") {
  const Report report = judge("float32", {0}, {"-0"}, bitwise());
  CHECK(exit_of(report) == 1);
  CHECK(said_as_one(only_output(report).note) == "only zero signs differ");
  CompareOptions same;
  same.spec.policy.signed_zero_distinct = false;
  const Report passed = judge("float32", {0}, {"-0"}, same);
  CHECK(exit_of(passed) == 0);
  CHECK(passed.coverage.within_policy == 1);
  CHECK(passed.first_bit_difference == 0);
  CHECK(exit_of("float32", {0}, {"-0"}, tolerance()) == 0);
}

TEST_CASE("row 4: a permutation is not hidden by sums") {
  CHECK(only_output(judge("float32", {1, 2}, {2, 1}, bitwise())).metrics->n_diff == 2);
}

TEST_CASE("rows 5, 6, 7 and 8: NaN") {
  const ordered_json quiet = {"7fc00000"};
  const ordered_json negative = {"ffc00000"};
  const Report payload = judge("float32", quiet, negative, bitwise(), "bits");
  CHECK(exit_of(payload) == 1);
  CHECK(said_as_one(only_output(payload).note) == "only NaN payload differs");
  for (const CompareOptions& options : {with_nan(EqualNan::kAny), tolerance()}) {
    const Report passed = judge("float32", quiet, negative, options, "bits");
    CHECK(exit_of(passed) == 0);
    REQUIRE_FALSE(passed.warnings.empty());
    CHECK(said(passed.warnings.front()).starts_with("NaN in 1 output (1 element)"));
  }
  const Report one_side = judge("float32", {"nan"}, {1}, tolerance(1, 1e9));
  CHECK(exit_of(one_side) == 1);
  CHECK(said_as_one(only_output(one_side).note) == "NaN in baseline only");

  const Report equal = judge("float32", {"nan", 1}, {"nan", 1}, bitwise());
  CHECK(exit_of(equal) == 0);
  REQUIRE_FALSE(equal.warnings.empty());
  CHECK(said(equal.warnings.front()).starts_with("NaN in 1 output (1 element)"));
  CHECK(exit_of("float32", {"nan", 1}, {"nan", 1}, with_nan(EqualNan::kNever)) == 1);
  CHECK(exit_of("float32", {1, 2}, {1, 2}, with_nan(EqualNan::kNever)) == 0);

  CHECK(exit_of("float8_e4m3fn", {"7f"}, {"ff"}, bitwise(), "bits") == 1);
  CHECK(exit_of("float8_e4m3fn", {"7f"}, {"ff"}, with_nan(EqualNan::kAny), "bits") == 0);
}

TEST_CASE("row 7: equal_nan never without counts or bytes is not comparable") {
  ordered_json dump = one_op("baseline", tensor_of("float32", {"nan", 1}));
  dump["manifest"]["level"] = "digest";
  CHECK(exit_of(compare_json(dump, dump, with_nan(EqualNan::kNever))) == 1);
  dump["counts"] = false;
  const Report report = compare_json(dump, dump, with_nan(EqualNan::kNever));
  CHECK(exit_of(report) == 4);
  CHECK(report.status == Status::kNotComparable);
}

TEST_CASE("rows 9, 11 and 18: narrow floats") {
  CHECK(exit_of("float8_e4m3fn", {1}, {1.125}, tolerance()) == 1);
  CHECK(exit_of("float8_e4m3fn", {1}, {1.125}, tolerance(0.2, 0)) == 0);
  CHECK(exit_of("bfloat16", {1}, {1.0078125}, bitwise()) == 1);
  CHECK(exit_of("bfloat16", {1}, {1.0078125}, tolerance()) == 0);
  CHECK(exit_of("float16", {"2294"}, {"2297"}, tolerance(), "bits") == 1);
}

TEST_CASE("rows 12, 13 and 14: infinities") {
  const Report signs = judge("float32", {"inf"}, {"-inf"}, tolerance(1, 1e39));
  CHECK(exit_of(signs) == 1);
  CHECK(said_as_one(only_output(signs).note) == "Inf signs differ");
  const Report one_side = judge("float8_e5m2", {"7c"}, {"7b"}, tolerance(1, 1e9), "bits");
  CHECK(exit_of(one_side) == 1);
  CHECK(said_as_one(only_output(one_side).note) == "Inf in baseline only");
  const Report overflow = judge("float16", {65504}, {"inf"}, tolerance());
  CHECK(exit_of(overflow) == 1);
  CHECK(said(overflow.first_divergence->cause).name() == "overflow");
}

TEST_CASE("row 15: integers never go through a double") {
  const ordered_json big = {1152921504606846976};
  const ordered_json bigger = {1152921504606846977};
  for (const CompareOptions& options : {bitwise(), tolerance()}) {
    const Report report = judge("int64", big, bigger, options);
    CHECK(exit_of(report) == 1);
    CHECK(only_output(report).metrics->max_abs_exact == 1);
    CHECK(only_output(judge("uint64", {0}, {18446744073709551615ULL}, options))
              .metrics->max_abs_exact == 18446744073709551615ULL);
    CHECK(only_output(judge("int8", {-128}, {127}, options)).metrics->max_abs_exact == 255);
  }
}

TEST_CASE("rows 16 and 17: bool and complex") {
  const Report report = judge("bool", {"01"}, {"02"}, bitwise(), "bits");
  CHECK(exit_of(report) == 1);
  CHECK(said_as_one(only_output(report).note) == "only non-canonical bool differs");
  CHECK(exit_of("bool", {"01"}, {"02"}, tolerance(), "bits") == 0);
  CHECK(exit_of("bool", {1}, {0}, tolerance()) == 1);
  const ordered_json from = {{1000, 0}};
  const ordered_json to = {{1000, 1e-4}};
  CHECK(exit_of("complex64", from, to, bitwise()) == 1);
  CHECK(exit_of("complex64", from, to, tolerance()) == 0);
}

TEST_CASE("rows 19, 22, 23 and 24: tolerance") {
  const Report report = judge("float32", {1e6, 1, 1, 1}, {1e6, 2, 2, 2}, tolerance());
  CHECK(exit_of(report) == 1);
  CHECK(only_output(report).metrics->n_beyond == 3);
  CHECK(exit_of("float32", {0}, {1e-6}, tolerance()) == 0);
  CHECK(exit_of("float32", {0}, {1e-6}, tolerance(1e9, 0)) == 1);
  CHECK(exit_of("float64", {49}, {50}, tolerance(0.02040816326530612, 0)) == 1);
  CHECK(exit_of("float64", {49}, {50}, tolerance(0.020408163265306124, 0)) == 0);
  CHECK(exit_of("float32", {101}, {100}, tolerance(0.00995, 0)) == 0);
  CHECK(exit_of("float32", {100}, {101}, tolerance(0.00995, 0)) == 1);
}

TEST_CASE("float4 is judged by its bytes alone") {
  CHECK(exit_of("float4_e2m1fn_x2", {"12"}, {"12"}, tolerance(), "bits") == 0);
  CHECK(exit_of("float4_e2m1fn_x2", {"12"}, {"13"}, tolerance(1, 1e9), "bits") == 1);
}

TEST_CASE("bit-equal passes under every policy but equal_nan never") {
  for (const char* dtype : {"float64", "float16", "bfloat16", "float8_e5m2", "int32", "bool"}) {
    for (const CompareOptions& options :
         {bitwise(), tolerance(), tolerance(0, 0), with_nan(EqualNan::kAny)}) {
      CHECK(exit_of(dtype, {0, 1}, {0, 1}, options) == 0);
    }
  }
}

}  // namespace
}  // namespace repro_check::comparators::corpus_values_test
