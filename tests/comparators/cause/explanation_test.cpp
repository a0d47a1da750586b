// SPDX-License-Identifier: Apache-2.0
// What a replay adds to a report.
#include "comparators/cause/explanation.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators {
namespace {

core::Digest digest(std::uint8_t value) {
  const std::string hex(31, '0');
  return core::parse_digest(hex + static_cast<char>('0' + value)).value();
}

/// The second of two operators differs, its input does not.
Report origin_report(const std::string& name, const CompareOptions& options = {}) {
  Trace baseline("run");
  Trace candidate("run");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->tensor("x", {1, 2}).tensor("h", {3, 4});
    trace->tensor("y", {trace == &baseline ? 5 : 6, 7});
    trace->op("aten::relu", {"x"}, {"h"}).op(name, {"h"}, {"y"});
  }
  return compare_traces(baseline, candidate, options);
}

ReplayEvidence evidence_of(std::vector<ReplayEvidence::Setting> settings) {
  ReplayEvidence evidence;
  evidence.baseline_op = 1;
  evidence.candidate_op = 1;
  evidence.settings = std::move(settings);
  return evidence;
}

ReplayEvidence::Setting setting(bool of_baseline,
                                std::uint64_t threads,
                                std::vector<core::Digest> results) {
  return {of_baseline, "", "avx2", threads, 20, std::move(results), true};
}

TEST_CASE("an origin of both runs can be explained, and nothing else") {
  const Report report = origin_report("aten::mm");
  const auto call = call_to_explain(report);
  REQUIRE(call);
  CHECK(call->baseline_op == 1);
  CHECK(call->candidate_op == 1);
  Trace trace = chain("run", {"aten::a", "aten::b"});
  CHECK_FALSE(call_to_explain(compare_traces(trace, trace)));
  Trace shorter = chain("run", {"aten::a"});
  CHECK_FALSE(call_to_explain(compare_traces(trace, shorter)));
}

TEST_CASE("an operator that does not repeat by itself is confirmed nondeterministic") {
  Report report = origin_report("aten::mm");
  REQUIRE(report.first_divergence);
  CHECK(said(report.first_divergence->cause).name() == "unexplained");
  explain(evidence_of({setting(true, 2, {digest(1), digest(2), digest(3)}),
                       setting(true, 1, {digest(1)}),
                       setting(false, 2, {digest(2)})}),
          report);
  const SaidCause cause = said(report.first_divergence->cause);
  CHECK(cause.name() == "nondeterministic kernel");
  CHECK(cause.evidence.find("3 results in 20 calls on 2 threads (confirmed)") != std::string::npos);
  CHECK(cause.advice.starts_with("set \"threads\": 1"));
  CHECK(cause.also.empty());
  REQUIRE(report.replay);
  REQUIRE(report.replay->sentences.size() == 2);
  CHECK(said(report.replay->sentences[0]) ==
        "executed again by itself, op 1 of the baseline gives 3 results in 20 calls on 2 threads, "
        "1 result in 20 calls on 1 thread");
  CHECK(said(report.replay->sentences[1])
            .find("gives one result in 20 calls (on 2 threads), the "
                  "recorded one") != std::string::npos);
}

TEST_CASE("what was likely is confirmed in place, or stays likely") {
  Report varies = origin_report("aten::index_put_");
  REQUIRE(said(varies.first_divergence->cause).name() == "nondeterministic kernel");
  REQUIRE(said(varies.first_divergence->cause).evidence.find("(likely)") != std::string::npos);
  Report repeats = varies;
  explain(evidence_of({setting(true, 1, {digest(1), digest(2)})}), varies);
  CHECK(said(varies.first_divergence->cause).evidence.find("(confirmed)") != std::string::npos);
  CHECK(said(varies.first_divergence->cause).evidence.find("likely") == std::string::npos);
  CHECK(said(varies.first_divergence->cause).advice.find("\"threads\": 1") == std::string::npos);

  explain(evidence_of({setting(true, 2, {digest(1)}), setting(false, 2, {digest(1)})}), repeats);
  CHECK(said(repeats.first_divergence->cause).name() == "nondeterministic kernel");
  CHECK(said(repeats.first_divergence->cause)
            .evidence.find("(likely; 40 calls by itself did not show it)") != std::string::npos);
}

TEST_CASE("a kernel that varies at unchanged settings stands before settings that differ") {
  Report report = origin_report("aten::mm");
  Cause& cause = report.first_divergence->cause;
  cause = Cause(CauseKind::kThreads, {Phrase("threads-add-otherwise")});
  cause.not_recorded = {"memory layout"};
  Report other = report;
  Report argument = report;
  explain(evidence_of({setting(true, 2, {digest(1), digest(2)})}), report);
  CHECK(cause.kind == CauseKind::kNondeterministicKernel);
  REQUIRE(cause.also.size() == 1);
  CHECK(cause.also.front().kind == CauseKind::kThreads);
  CHECK(cause.also.front().not_recorded.empty());
  CHECK(cause.not_recorded == std::vector<std::string>{"memory layout"});

  argument.first_divergence->cause.kind = CauseKind::kArgument;
  explain(evidence_of({setting(true, 2, {digest(1), digest(2)})}), argument);
  CHECK(said(argument.first_divergence->cause).name() == "argument differs");
  REQUIRE(said(argument.first_divergence->cause).also.size() == 1);
  CHECK(said(argument.first_divergence->cause).also.front().name() == "nondeterministic kernel");

  SUBCASE("thread counts are confirmed") {
    explain(evidence_of({setting(true, 2, {digest(1)}), setting(true, 1, {digest(2)})}), other);
    CHECK(said(other.first_divergence->cause).evidence ==
          "work split among other threads adds in another order; by itself it gives another result "
          "with 1 and 2 threads (confirmed)");
  }
  SUBCASE("or not") {
    explain(evidence_of({setting(true, 2, {digest(1)}), setting(true, 1, {digest(1)})}), other);
    CHECK(said(other.first_divergence->cause).evidence.ends_with("so not confirmed"));
  }
}

TEST_CASE("evidence of another operator, of other inputs, or none, decides nothing") {
  const Report report = origin_report("aten::mm");
  const auto name_after = [&](ReplayEvidence evidence) {
    Report changed = report;
    explain(std::move(evidence), changed);
    CHECK(changed.replay.has_value());
    return said(changed.first_divergence->cause).name();
  };
  ReplayEvidence evidence = evidence_of({setting(true, 2, {digest(1), digest(2)})});
  CHECK(name_after(evidence) == "nondeterministic kernel");
  ReplayEvidence elsewhere = evidence;
  elsewhere.baseline_op = 0;
  CHECK(name_after(elsewhere) == "unexplained");
  ReplayEvidence inputs = evidence;
  inputs.same_inputs = false;
  CHECK(name_after(inputs) == "unexplained");
  Report told = report;
  inputs.other_arguments = "eps";
  explain(inputs, told);
  CHECK(said(told.replay->sentences.front()) ==
        "the two calls were recorded with other arguments: eps");
  ReplayEvidence failed;
  failed.problem = "the dump does not hold its values";
  CHECK(name_after(failed) == "unexplained");
  Report changed = report;
  explain(failed, changed);
  CHECK(said(changed.replay->sentences) ==
        std::vector<std::string>{"not executed again: the dump does not hold its values"});
}

TEST_CASE("which side is nearer to float64 is said where it was measured") {
  Report report = origin_report("aten::mm");
  ReplayEvidence evidence = evidence_of({setting(true, 1, {digest(1)})});
  evidence.baseline_rmse = 3e-7;
  evidence.candidate_rmse = 1e-7;
  evidence.reference_ratio = 3;
  explain(evidence, report);
  CHECK(said(report.replay->sentences.back()) ==
        "the candidate is nearer to the float64 result: RMSE 3e-07 | 1e-07");
  evidence.reference_ratio = 1;
  explain(evidence, report);
  CHECK(said(report.replay->sentences.back()).starts_with("both sides are equally far"));
  evidence.baseline_rmse = 1.00001e-7;
  evidence.reference_ratio = 1.00001;
  explain(evidence, report);
  CHECK(said(report.replay->sentences.back()) ==
        "both sides are equally far from the float64 result: RMSE 1e-07 | 1e-07");
}

}  // namespace
}  // namespace repro_check::comparators
