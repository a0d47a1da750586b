// SPDX-License-Identifier: Apache-2.0
// What the calls returned: compared call by call, whatever became of the operators.
#include <doctest/doctest.h>

#include <string>

#include "tests/comparators/cause/cause_traces.h"
#include "tests/comparators/said.h"

namespace repro_check::comparators {
namespace {

/// The model of cause_traces.h, whose one call returns `value`.
Trace returning(const std::string& run, const ordered_json& value) {
  Trace trace = model(run);
  trace.json()["ops"].push_back({{"returned", value}});
  return trace;
}

Report compare_returned(const ordered_json& from, const ordered_json& to) {
  Trace baseline = returning("baseline", from);
  Trace candidate = returning("candidate", to);
  return compare_traces(baseline, candidate);
}

TEST_CASE("an equal value counts as no operator") {
  const ordered_json value = {{"out.logits", "t2"}, {"out.loss", 0.5}, {"out.name", nullptr}};
  const Report report = compare_returned(value, value);
  CHECK(exit_of(report) == 0);
  CHECK(report.coverage.baseline_ops == 3);
  CHECK(report.coverage.compared == 3);
  CHECK(report.alignment.position == 3);
  CHECK(report.returned.baseline == 1);
  CHECK(report.returned.equal == 1);
  CHECK(report.returned.tensors == 1);
  CHECK(report.returned.others == 2);
  CHECK_FALSE(report.returned.first);
}

TEST_CASE("a number that the program computed between operators") {
  for (const auto& [from, to, text] :
       {std::tuple<ordered_json, ordered_json, const char*>{2.0, 3.0, "out.n: 2.0 against 3.0"},
        {true, false, "out.n: True against False"},
        {1, 1.0, "out.n: 1 against 1.0"},
        {nullptr, 0, "out.n: None against 0"}}) {
    const Report report =
        compare_returned({{"out.t", "t2"}, {"out.n", from}}, {{"out.t", "t2"}, {"out.n", to}});
    CAPTURE(text);
    CHECK(exit_of(report) == 1);
    CHECK(report.coverage.equal == 3);
    CHECK(report.divergences_total == 1);
    REQUIRE(report.first_divergence);
    CHECK(core::is_returned(report.first_divergence->baseline));
    CHECK(report.first_divergence->relation == Relation::kOrigin);
    CHECK(report.first_divergence->notes == std::vector<std::string>{text});
    CHECK(cause_of(report).name() == "computed outside of operators");
    CHECK(mentions(cause_of(report).evidence, text));
  }
}

TEST_CASE("a number that an operator returned is inherited") {
  Trace baseline = returning("baseline", {{"out", 0.25}});
  Trace candidate = returning("candidate", {{"out", 0.5}});
  baseline.json()["ops"][2]["results"] = {0.25};
  candidate.json()["ops"][2]["results"] = {0.5};
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.first_divergence->baseline_index == 2);
  REQUIRE(report.returned.first);
  CHECK(report.returned.first->relation == Relation::kPropagated);
  CHECK(report.returned.first->producers == std::vector<std::uint64_t>{2});
}

TEST_CASE("another value, and two that are swapped") {
  const Report other = compare_returned({{"out", "t1"}}, {{"out", "t2"}});
  CHECK(exit_of(other) == 1);
  CHECK(other.kind == DivergenceKind::kOrigin);
  CHECK(cause_of(other).name() == "another value is returned");
  CHECK(mentions(cause_of(other).evidence, "made by op 1 aten::relu"));
  CHECK(mentions(cause_of(other).evidence, "made by op 2 aten::linear"));
  CHECK(other.origins_total == 0);

  const Report swapped =
      compare_returned({{"out[0]", "t1"}, {"out[1]", "t2"}}, {{"out[0]", "t2"}, {"out[1]", "t1"}});
  CHECK(exit_of(swapped) == 1);
  CHECK(cause_of(swapped).name() == "another value is returned");
  CHECK(swapped.returned.first->outputs.size() == 2);

  const Report state = compare_returned({{"out", "x"}}, {{"out", "w"}});
  CHECK(cause_of(state).name() == "another value is returned");
  CHECK(mentions(cause_of(state).evidence, "input:tokens"));
}

TEST_CASE("a tensor against another kind of value") {
  for (const ordered_json& other : {ordered_json(nullptr), ordered_json(0.5)}) {
    const Report report = compare_returned({{"out", other}}, {{"out", "t2"}});
    CHECK(exit_of(report) == 1);
    CHECK(report.coverage.equal == 3);
    CHECK(cause_of(report).name() == "another value is returned");
    CHECK(mentions(cause_of(report).evidence,
                   other.is_null() ? "out: None against a tensor" : "out: 0.5 against a tensor"));
  }
}

TEST_CASE("what an operator made is inherited from it") {
  Trace baseline = returning("baseline", {{"out", "t2"}});
  Trace candidate = returning("candidate", {{"out", "t2"}});
  candidate.tensor("t2", {9, 11});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.first_divergence->baseline_index == 2);
  CHECK(report.divergences_total == 1);
  CHECK(report.final_values == 1);
  CHECK(report.returned.diverged == 1);
  REQUIRE(report.returned.first);
  CHECK(report.returned.first->relation == Relation::kPropagated);
  CHECK(mentions(said(report.returned.first->cause).evidence, "comes from op 2"));
}

TEST_CASE("it is compared where no operator can be") {
  for (const bool same : {true, false}) {
    Trace baseline = returning("baseline", {{"out", "t2"}});
    Trace candidate("candidate");
    candidate.tensor("x", {1, 2}).tensor("t2", {9.0, same ? 10.0 : 11.0});
    candidate.op("aten::traced", {"x"}, {"t2"});
    candidate.json()["ops"].push_back({{"returned", {{"out", "t2"}}}});
    const Report report = compare_traces(baseline, candidate);
    CAPTURE(same);
    CHECK(exit_of(report) == (same ? 4 : 1));
    CHECK(report.returned.equal == (same ? 1 : 0));
    CHECK(report.returned.diverged == (same ? 0 : 1));
    if (same) {
      CHECK(report.status == Status::kNothingCompared);
    } else {
      CHECK(core::is_returned(report.first_divergence->baseline));
      CHECK_FALSE(report.control_flow);
      REQUIRE(report.also.size() == 1);
      CHECK(report.also.front() == Status::kNothingCompared);
      // Nobody has seen the operators that made them agree.
      CHECK_FALSE(mentions(cause_of(report).evidence, "bit-equal"));
    }
  }
}

TEST_CASE("a dump that does not hold it misses nothing") {
  Trace baseline = model("baseline");
  Trace candidate = returning("candidate", {{"out", "t2"}});
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 0);
  CHECK(report.coverage.missing_in_baseline == 0);
  CHECK(report.returned.baseline == 0);
  CHECK(report.returned.candidate == 1);
  CHECK(report.returned.compared == 0);
}

TEST_CASE("a program without operators is judged by it alone") {
  for (const double second : {0.5, 0.75}) {
    Trace baseline("baseline");
    Trace candidate("candidate");
    baseline.json()["ops"].push_back({{"returned", {{"out", 0.5}}}});
    candidate.json()["ops"].push_back({{"returned", {{"out", second}}}});
    CHECK(exit_of(compare_traces(baseline, candidate)) == (second == 0.5 ? 0 : 1));
  }
}

TEST_CASE("what only its type is known of proves nothing") {
  const ordered_json opaque = {{"opaque", "Stream"}};
  const auto judged = [](const ordered_json& value) {
    Trace baseline("baseline");
    Trace candidate("candidate");
    for (Trace* trace : {&baseline, &candidate}) {
      trace->json()["ops"].push_back({{"returned", value}});
    }
    return compare_traces(baseline, candidate);
  };
  const Report alone = judged({{"out", opaque}});
  CHECK(exit_of(alone) == 4);
  CHECK(alone.status == Status::kNothingCompared);
  REQUIRE(alone.reasons.size() == 1);
  CHECK(mentions(said(alone.reasons[0]),
                 "of what the model returns (out) only the type was compared"));
  CHECK(mentions(said_fix(alone), "have the model return tensors"));

  const Report beside = judged({{"out[0]", 0.5}, {"out[1]", opaque}});
  CHECK(exit_of(beside) == 0);
  CHECK(beside.returned.opaque == std::vector<std::string>{"out[1]"});
  CHECK(exit_of(compare_returned({{"out", opaque}}, {{"out", opaque}})) == 0);
}

TEST_CASE("calls and structures of one side alone") {
  Trace baseline = returning("baseline", {{"out", "t2"}});
  Trace candidate = returning("candidate", {{"out", "t2"}});
  baseline.json()["ops"].push_back({{"returned", {{"out", "t2"}}}, {"step", 1}});
  const Report calls = compare_traces(baseline, candidate);
  CHECK(exit_of(calls) == 1);
  CHECK(calls.returned.missing == 1);
  CHECK(calls.kind == DivergenceKind::kMissing);

  const Report structure =
      compare_returned({{"out.a", "t1"}, {"out.b", "t2"}}, {{"out.b", "t2"}, {"out.c", 3}});
  CHECK(exit_of(structure) == 1);
  CHECK(cause_of(structure).name() == "another structure is returned");
  CHECK(structure.first_divergence->notes ==
        std::vector<std::string>{"out.a: a tensor against nothing", "out.c: nothing against 3"});
  CHECK(structure.first_divergence->outputs.empty());
}

TEST_CASE("it is judged by the rule of what made it, or by an earlier one of its own") {
  configs::Rule linear;
  linear.match.op = configs::NamePattern("aten::linear");
  linear.policy.kind = configs::PolicyKind::kTolerance;
  linear.policy.rtol = 0.1;
  configs::Rule own;
  own.match.op = configs::NamePattern("repro_check::returned");
  own.policy.kind = configs::PolicyKind::kBitwise;
  const auto judged = [](std::vector<configs::Rule> rules, configs::Unmatched unmatched) {
    Trace baseline = returning("baseline", {{"out.a", "t2"}, {"out.b", "w"}});
    Trace candidate = returning("candidate", {{"out.a", "t2"}, {"out.b", "w"}});
    candidate.tensor("t2", {9, 10.001});
    CompareOptions options;
    options.spec.rules = std::move(rules);
    options.spec.unmatched = unmatched;
    return exit_of(compare_traces(baseline, candidate, options));
  };
  using configs::Unmatched;
  CHECK(judged({}, Unmatched::kPolicy) == 1);
  CHECK(judged({linear}, Unmatched::kPolicy) == 0);
  CHECK(judged({linear, own}, Unmatched::kPolicy) == 0);
  CHECK(judged({own, linear}, Unmatched::kPolicy) == 1);
  configs::Rule relu = linear;
  relu.match.op = configs::NamePattern("aten::relu");
  CHECK(judged({linear, relu}, Unmatched::kError) == 0);
}

TEST_CASE("without values under a policy that needs them it is not judged") {
  Trace baseline = returning("baseline", {{"out", "t2"}});
  Trace candidate = returning("candidate", {{"out", "t2"}});
  for (Trace* trace : {&baseline, &candidate}) trace->manifest()["level"] = "digest";
  candidate.tensor("t2", {9, 10.5});
  const Report report = compare_traces(baseline, candidate, tolerance());
  CHECK(exit_of(report) == 4);
  CHECK(report.returned.not_judged == 1);
  REQUIRE(report.reasons.size() == 2);
  CHECK(mentions(said(report.reasons[1]), "what 1 call returned could not be judged: out"));
}

}  // namespace
}  // namespace repro_check::comparators
