// SPDX-License-Identifier: Apache-2.0
// The policy fp64: both sides against a run in float64.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "comparators/measure/policy.h"
#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators::fp64_test {
namespace {

using configs::PolicyKind;
using test_support::source_from_json;

CompareOptions by_fp64(const ordered_json& exact, double factor = 2) {
  CompareOptions options;
  options.spec.policy.kind = PolicyKind::kFp64;
  options.spec.policy.factor = factor;
  options.spec.fp64 = "fp64";
  options.fp64 = source_from_json(exact.dump());
  return options;
}

Report judge(const ordered_json& from,
             const ordered_json& to,
             const ordered_json& exact,
             double factor = 2) {
  return compare_json(
      one_op("baseline", from), one_op("candidate", to), by_fp64(one_op("fp64", exact), factor));
}

ordered_json floats(const ordered_json& values) { return tensor_of("float32", values); }
ordered_json doubles(const ordered_json& values) { return tensor_of("float64", values); }

TEST_CASE("the candidate may be so many times as far from float64 as the baseline") {
  // Errors: 0.25 and 0.5 in each of two elements.
  const ordered_json baseline = floats({1.25, 2.25});
  const ordered_json candidate = floats({0.5, 2.5});
  const ordered_json exact = doubles({1, 2});
  CHECK(judge(baseline, candidate, exact, 2).status == Status::kReproducible);
  const Report beyond = judge(baseline, candidate, exact, 1.75);
  REQUIRE(beyond.status == Status::kDiverged);
  const TensorComparison& output = beyond.first_divergence->outputs.at(0);
  REQUIRE(output.fp64);
  CHECK(output.fp64->baseline_rmse == 0.25);
  CHECK(output.fp64->candidate_rmse == 0.5);
  CHECK(output.fp64->allowed == 0.4375);
  // The other way round the candidate is the better one.
  CHECK(judge(candidate, baseline, exact, 1).status == Status::kReproducible);
}

TEST_CASE("a baseline without an error asks for a candidate without one, or slack") {
  const ordered_json dump = one_op("fp64", doubles({1, 2}));
  CompareOptions options = by_fp64(dump);
  const auto judged = [&] {
    return compare_json(
               one_op("baseline", floats({1, 2})), one_op("candidate", floats({1, 2.5})), options)
        .status;
  };
  CHECK(judged() == Status::kDiverged);
  options.spec.policy.slack = 0.25;  // the error is sqrt(0.125)
  CHECK(judged() == Status::kDiverged);
  options.spec.policy.slack = 0.375;
  CHECK(judged() == Status::kReproducible);
}

TEST_CASE("by default narrow numbers and few of them may be three times as far") {
  configs::PolicySpec policy;
  policy.kind = PolicyKind::kFp64;
  CHECK(fp64_factor(policy, core::Dtype::kFloat32, 1000) == 2);
  CHECK(fp64_factor(policy, core::Dtype::kFloat32, 999) == 3);
  CHECK(fp64_factor(policy, core::Dtype::kBFloat16, 1000) == 3);
  CHECK(fp64_factor(policy, core::Dtype::kComplex32, 1000) == 3);
  CHECK(fp64_factor(policy, core::Dtype::kComplex64, 1000) == 2);
  policy.factor = 5;
  CHECK(fp64_factor(policy, core::Dtype::kBFloat16, 1) == 5);
}

TEST_CASE("NaN and infinities fail whatever float64 says") {
  CHECK(judge(floats({1, 2}), floats({1, "nan"}), doubles({1, 2})).status == Status::kDiverged);
  CHECK(judge(floats({"inf", 2}), floats({"-inf", 2}), doubles({1, 2})).status ==
        Status::kDiverged);
  // Both overflow where float64 does not: alike, and the rest is judged.
  CHECK(judge(floats({"inf", 2.5}), floats({"inf", 1.5}), doubles({1e300, 2}), 1).status ==
        Status::kReproducible);
}

TEST_CASE("what float64 does not tell is not judged") {
  const auto problem = [](const ordered_json& exact) {
    const Report report = judge(floats({1, 2}), floats({1, 3}), exact);
    CHECK(report.status == Status::kNotComparable);
    CHECK(said_fix(report).find("float64") != std::string::npos);
    return said(report.reasons.at(0));
  };
  CHECK(problem(doubles({1, "nan"})).find("the result in float64 is not finite") !=
        std::string::npos);
  CHECK(problem(doubles({1, 2, 3})).find("in the float64 run it is float64 [3], not float64 [2]") !=
        std::string::npos);
  CHECK(problem(floats({1, 2})).find("in the float64 run it is float32 [2]") != std::string::npos);
  ordered_json digests = one_op("fp64", doubles({1, 2}));
  digests["manifest"]["level"] = "digest";
  const Report report = compare_json(
      one_op("baseline", floats({1, 2})), one_op("candidate", floats({1, 3})), by_fp64(digests));
  CHECK(report.status == Status::kNotComparable);
}

TEST_CASE("an operator that the float64 run lacks is one that `unmatched` speaks of") {
  Trace baseline("baseline");
  baseline.tensor("a", {1}).tensor("b", {2}).op("aten::x", {}, {"a"}).op("aten::y", {}, {"b"});
  Trace candidate("candidate");
  candidate.tensor("a", {1}).tensor("b", {3}).op("aten::x", {}, {"a"}).op("aten::y", {}, {"b"});
  Trace exact("fp64");
  exact.tensor("a", {1}).op("aten::x", {}, {"a"});
  CompareOptions options = by_fp64(exact.json());
  CHECK(compare_json(baseline.json(), candidate.json(), options).status == Status::kNotComparable);
  options.spec.unmatched = configs::Unmatched::kIgnore;
  CHECK(compare_json(baseline.json(), candidate.json(), options).status == Status::kReproducible);
}

TEST_CASE("another model, seed or set of operators is not the baseline in float64") {
  const auto reason = [](const ordered_json& exact) {
    const Report report = compare_json(
        one_op("baseline", floats({1, 2})), one_op("candidate", floats({1, 3})), by_fp64(exact));
    CHECK(report.status == Status::kNotComparable);
    return said(report.reasons.at(0));
  };
  Trace other("fp64");
  other.tensor("a", {1}).op("aten::other", {}, {"a"});
  CHECK(reason(other.json()).ends_with("it has no operator of the baseline"));
  ordered_json seeded = one_op("fp64", doubles({1, 2}));
  seeded["manifest"]["seed"] = 7;
  CHECK(reason(seeded).find("its seed is 7") != std::string::npos);
}

TEST_CASE("integers have to be equal, and need nothing in float64") {
  CHECK(judge(tensor_of("int64", {1}), tensor_of("int64", {2}), tensor_of("int64", {1})).status ==
        Status::kDiverged);
}

}  // namespace
}  // namespace repro_check::comparators::fp64_test
