// SPDX-License-Identifier: Apache-2.0
// Where differences began, what they reached, and how the error grew on the way.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/comparators/cause/cause_traces.h"
#include "tests/comparators/said.h"

namespace repro_check::comparators::spread_test {
namespace {

using Ops = std::vector<std::uint64_t>;

CompareOptions loose() { return tolerance(1e-2, 1e-5); }

/// A chain whose n-th result is 1 in the baseline and 1 + errors[n] in the candidate.
Report chain_with(const std::vector<double>& errors, const CompareOptions& options) {
  const std::vector<std::string> names(errors.size(), "aten::mul");
  Trace baseline = chain("baseline", names);
  Trace candidate = chain("candidate", names);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const std::string name = numbered("t", i);
    baseline.json()["tensors"][name] = tensor_of("float64", {1.0, 1.0});
    candidate.json()["tensors"][name] = tensor_of("float64", {1.0 + errors[i], 1.0 + errors[i]});
  }
  return compare_traces(baseline, candidate, options);
}

TEST_CASE("row 51: an error that grows within the policy warns, and fails beyond max_growth") {
  const std::vector<double> errors{0, 0, 0, 1e-7, 1e-6, 1e-6, 4e-5, 5e-4};
  const Report report = chain_with(errors, loose());
  CHECK(exit_of(report) == 0);
  REQUIRE(report.growth.ratio);
  CHECK(*report.growth.ratio == doctest::Approx(5000).epsilon(1e-3));
  CHECK(report.growth.first->op == 3);
  CHECK(report.growth.last->op == 7);
  CHECK(report.growth.amplified == 3);
  CHECK(report.growth.carried == 1);
  REQUIRE(report.growth.steepest);
  CHECK(report.growth.steepest->op == 6);
  REQUIRE(report.warnings.size() >= 2);
  CHECK(mentions(said(report.warnings[report.warnings.size() - 2]), "but the error grows"));
  CHECK(mentions(said(report.warnings.back()), "more than 10 times as great; most op 6"));

  CompareOptions limited = loose();
  limited.spec.max_growth = 100;
  const Report failed = chain_with(errors, limited);
  CHECK(exit_of(failed) == 1);
  CHECK(failed.kind == DivergenceKind::kGrowth);
  REQUIRE_FALSE(failed.reasons.empty());
  CHECK(mentions(said(failed.reasons.back()), "5000 times, and max_growth is 100"));
  limited.spec.max_growth = 6000;
  CHECK(exit_of(chain_with(errors, limited)) == 0);
}

TEST_CASE("an error that is damped warns of nothing") {
  const Report report = chain_with({1e-4, 1e-5, 1e-5, 0}, loose());
  CHECK(exit_of(report) == 0);
  CHECK(report.growth.damped == 1);
  CHECK(report.growth.absorbed == 1);
  CHECK(report.growth.steep == 0);
  for (const std::string& warning : said(report.warnings)) CHECK_FALSE(mentions(warning, "grows"));
}

/// Two branches, a <- x and b <- w, joined by op 3; op 4 is read by nobody and hangs on b alone.
Trace fork(const std::string& run) {
  Trace trace(run);
  trace.tensor("x", {1, 2}).tensor("w", {3, 4});
  for (const char* name : {"a", "b", "c", "d", "e"}) trace.tensor(name, {5, 6});
  trace.op("aten::a", {"x"}, {"a"}).op("aten::b", {"w"}, {"b"});
  trace.op("aten::c", {"a"}, {"c"}).op("aten::d", {"c", "b"}, {"d"}).op("aten::e", {"b"}, {"e"});
  return trace;
}

TEST_CASE("every origin is listed with what it reaches") {
  Trace baseline = fork("baseline");
  Trace candidate = fork("candidate");
  for (const char* name : {"a", "b", "c", "d", "e"}) candidate.tensor(name, {5, 7});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.final_values == 2);
  CHECK(report.origins_total == 2);
  REQUIRE(report.origins.size() == 2);
  const Origin& a = report.origins[0];
  const Origin& b = report.origins[1];
  CHECK(a.baseline_index == 0);
  CHECK(a.beyond_policy);
  CHECK(a.cause == CauseKind::kUnexplained);
  CHECK(a.tainted == 2);
  CHECK(a.outputs == Ops{3});
  CHECK(b.baseline_index == 1);
  CHECK(b.tainted == 2);
  CHECK(b.outputs == Ops{3, 4});
  CHECK(b.outputs_total == 2);
  REQUIRE_FALSE(b.path.empty());
  CHECK(b.path.front().op == 1);
  CHECK(report.coverage.origins == 2);
}

TEST_CASE("an origin that is absorbed reaches nothing") {
  Trace baseline = fork("baseline");
  Trace candidate = fork("candidate");
  candidate.tensor("a", {5, 7});
  const Report report = compare_traces(baseline, candidate);
  REQUIRE(report.origins.size() == 1);
  CHECK(report.origins[0].tainted == 0);
  CHECK(report.origins[0].outputs.empty());
  CHECK(report.growth.absorbed == 1);
}

TEST_CASE("what the policy lets pass is an origin too, and is followed") {
  Trace baseline = fork("baseline");
  Trace candidate = fork("candidate");
  candidate.tensor("a", {5, 6.0001}).tensor("c", {5, 60});
  const Report report = compare_traces(baseline, candidate, tolerance(1e-3, 0));
  REQUIRE(report.origins.size() == 1);
  CHECK_FALSE(report.origins[0].beyond_policy);
  CHECK(report.origins[0].cause == CauseKind::kNone);
  CHECK(report.origins[0].tainted == 1);
  REQUIRE(report.first_divergence);
  CHECK(said(report.first_divergence->cause).name() == "amplified");
}

TEST_CASE("a view is no end of its storage, and an in-place operator is one") {
  Trace trace("baseline");
  trace.tensor("x", {1, 2}).tensor("a", {3, 4}).tensor("after", {5, 6});
  trace.json()["tensors"]["after"]["storage"] = "a";
  trace.op("aten::a", {"x"}, {"a"})
      .op("aten::view", {"a"}, {"a"})
      .op("aten::add_", {"a"}, {"after"});
  CHECK(compare_traces(trace, trace).final_values == 1);
}

TEST_CASE("more origins than can be told apart are counted") {
  Trace baseline("baseline");
  Trace candidate("candidate");
  for (int i = 0; i < 70; ++i) {
    const std::string name = numbered("t", static_cast<std::size_t>(i));
    baseline.tensor("x", {1}).tensor(name, {1}).op("aten::a", {"x"}, {name});
    candidate.tensor("x", {1}).tensor(name, {2}).op("aten::a", {"x"}, {name});
  }
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.origins_total == 70);
  CHECK(report.origins.size() == 63);
  CHECK(report.coverage.origins == 70);
}

TEST_CASE("an operator of one side alone taints what reads it") {
  Trace baseline = chain("baseline", {"aten::a", "aten::b"});
  Trace candidate = chain("candidate", {"aten::a"});
  candidate.tensor("noise", {1, 1, 1}).op("aten::rand_like", {"t0"}, {"noise"});
  candidate.tensor("t1", {7, 8, 10}).op("aten::b", {"noise"}, {"t1"});
  const Report report = compare_traces(baseline, candidate);
  REQUIRE(report.origins.size() == 1);
  CHECK(report.origins[0].relation == Relation::kMissing);
  CHECK(report.origins[0].candidate_index == 1);
  CHECK(report.origins[0].tainted == 1);
  CHECK(report.origins[0].outputs == Ops{1});
  // What reads it inherits the difference, and nothing wrote behind anybody's back.
  REQUIRE(report.divergences.size() == 1);
  CHECK(report.divergences[0].relation == Relation::kPropagated);
  CHECK(mentions(said(report.divergences[0].cause).evidence, "an operator of the candidate only"));
}

}  // namespace
}  // namespace repro_check::comparators::spread_test
