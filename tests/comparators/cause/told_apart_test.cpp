// SPDX-License-Identifier: Apache-2.0
// What two runs of one model were told otherwise, where the model went another way.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tests/comparators/cause/cause_traces.h"
#include "tests/comparators/said.h"

namespace repro_check::comparators::told_apart_test {
namespace {

/// The inputs of the only call, as a run records them: a tensor and `n`.
ordered_json given(const std::string& n) {
  return {{"configuration",
           R"({"calls": [{"inputs": [{"generate": "normal", "name": "x"}, {"value": )" + n +
               R"(, "name": "n"}]}]})"}};
}

/// One run calls relu, and the other does not.
Report skipping(const ordered_json& from, const ordered_json& to) {
  Trace baseline = chain("a", {"aten::linear", "aten::relu"});
  Trace candidate = chain("b", {"aten::linear"});
  baseline.manifest().update(from);
  candidate.manifest().update(to);
  return compare_traces(baseline, candidate);
}

TEST_CASE("a value that the calls were given is a difference, and the suspect of a branch") {
  const Report report = skipping(given("1"), given("0"));
  REQUIRE(report.differences.size() == 1);
  CHECK(report.differences.front().pointer == "/calls/0/inputs/1/value");
  CHECK(cause_of(report).evidence ==
        "1 operator in the baseline only; all operators before it agree; suspect: "
        "/calls/0/inputs/1/value 1 -> 0, the only setting that differs");
  CHECK(cause_of(report).advice == "give both runs /calls/0/inputs/1/value=1");
  const Report text = skipping(given(R"("relu")"), given(R"("none")"));
  CHECK(mentions(cause_of(text).evidence, R"(value "relu" -> "none", the only setting)"));
  CHECK(skipping(given("1"), given("1")).differences.empty());
}

TEST_CASE("a value is the suspect of an argument, and of a number that is returned") {
  const auto argument = cause_of(compute("aten::mul",
                                         {{"scalars", {{"other", 1}}}},
                                         {{"scalars", {{"other", 2}}}},
                                         given("1"),
                                         given("2")));
  CHECK(argument.name() == "argument differs");
  CHECK(mentions(argument.evidence, "suspect: /calls/0/inputs/1/value 1 -> 2, the only setting"));
  Trace baseline = model("a");
  Trace candidate = model("b");
  baseline.json()["ops"].push_back({{"returned", {{"out", 3}}}});
  candidate.json()["ops"].push_back({{"returned", {{"out", 6}}}});
  baseline.manifest().update(given("1"));
  candidate.manifest().update(given("2"));
  const Report returned = compare_traces(baseline, candidate);
  CHECK(cause_of(returned).name() == "computed outside of operators");
  CHECK(mentions(cause_of(returned).evidence, "suspect: /calls/0/inputs/1/value 1 -> 2"));
}

TEST_CASE("the only setting that differs is the suspect of a branch") {
  const auto grad =
      cause_of(skipping({{"configuration", R"({"grad": "disabled"})"}},
                        {{"configuration", R"({"grad": "enabled"})"}, {"grad", "enabled"}}));
  CHECK(mentions(grad.evidence, "suspect: grad disabled -> enabled, the only setting"));
  CHECK(grad.advice == R"(give both runs "grad": "disabled")");
  const auto method = cause_of(skipping(kNone, {{"method", "encode"}}));
  CHECK(mentions(method.evidence, "suspect: model.method forward -> encode, the only setting"));
  CHECK(method.advice == R"(give both runs "model": {"method": "forward"})");
}

TEST_CASE("of another model, another seed that nothing draws by, or what follows, none is") {
  const auto model = cause_of(skipping(kNone, {{"model", "other"}, {"method", "encode"}}));
  CHECK_FALSE(mentions(model.evidence, "suspect"));
  CHECK_FALSE(mentions(cause_of(skipping(kNone, {{"seed", 1}})).evidence, "suspect"));
  const ordered_json eval = {{"environment", {{"model.mode", "eval"}}}};
  const ordered_json train = {{"environment", {{"model.mode", "train"}}}, {"method", "encode"}};
  const auto mode = cause_of(skipping(eval, train));
  CHECK(mode.name() == "eval against train");
  REQUIRE(mode.also.size() == 1);
  CHECK_FALSE(mentions(mode.also.front().evidence, "suspect"));
}

TEST_CASE("what parts at the first operator follows no other") {
  Trace baseline = chain("a", {"aten::linear", "aten::relu"});
  Trace candidate = chain("b", {"aten::conv2d", "aten::relu"});
  candidate.manifest()["model"] = "other";
  const auto cause = cause_of(compare_traces(baseline, candidate));
  CHECK(cause.name() == "operator differs");
  CHECK(cause.evidence ==
        "aten::linear in the baseline, aten::conv2d in the candidate; there is no operator before "
        "it");
}

TEST_CASE("runs that were cast to other dtypes are told so, and not to have other data") {
  Trace baseline = model("a");
  Trace candidate = model("b");
  baseline.manifest()["configuration"] = R"({"dtype": null})";
  candidate.manifest()["configuration"] = R"({"dtype": "bfloat16"})";
  for (const char* name : {"x", "w", "t0", "t1", "t2"}) {
    candidate.json()["tensors"][name]["dtype"] = "bfloat16";
  }
  candidate.json()["tensors"]["t0"]["values"] = {5, 60};
  const Report strict = compare_traces(baseline, candidate);
  CHECK(cause_of(strict).name() == "dtype promotion");
  CHECK(mentions(cause_of(strict).evidence,
                 "different dtypes, dtype null -> bfloat16: `tokens` was"));
  CHECK(mentions(cause_of(strict).advice, R"("compare": {"dtype": "promote")"));
  REQUIRE(strict.differences.size() == 1);
  CHECK(strict.differences.front().pointer == "dtype");
  CompareOptions options = tolerance();
  options.spec.promote = true;
  const Report promoted = compare_traces(baseline, candidate, options);
  CHECK(promoted.kind == DivergenceKind::kOrigin);
  CHECK(cause_of(promoted).name() == "dtype promotion");
}

TEST_CASE("draws of which one run made its own on the host stand apart by that") {
  const auto drawn = [](int seed) {
    return ordered_json{
        {"seeded", true},
        {"generator",
         {{"device", "cpu"}, {"seed", seed}, {"before", 0}, {"after", 2}, {"drawn", 2}}}};
  };
  const auto cause =
      cause_of(compute("aten::rand", drawn(0), drawn(3838), kNone, {{"rng", "host"}}));
  CHECK(cause.name() == "rng stream");
  CHECK(mentions(cause.evidence, "the runs draw in different ways: rng device -> host"));
  CHECK(mentions(cause.advice, "give both runs one \"rng\""));
}

TEST_CASE("a value of NaN is said where the size of a difference says nothing") {
  Trace baseline = model("a");
  Trace candidate = model("b");
  candidate.tensor("w", {3, "nan"});
  candidate.tensor("t0", {5, 60});
  CHECK(mentions(cause_of(compare_traces(baseline, candidate)).evidence,
                 "`head.weight` differs, 1 of 2 elements, NaN in candidate only"));
}

TEST_CASE("a weight that the other model has under another name was moved") {
  const auto layers = [](const char* digest, const std::vector<std::string>& weights) {
    Trace trace("run");
    trace.manifest()["model"] = digest;
    trace.tensor("x", {1, 2});
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const int value = weights[i].front();
      trace.tensor(weights[i], {value, value});
      trace.named("parameter", numbered("m.", i) + ".weight", weights[i]);
    }
    for (const std::string& weight : weights) {
      const std::string next = "y" + weight;
      trace.tensor(next, {weight.front(), 1});
      trace.op("aten::linear", {"x", weight}, {next});
    }
    return trace;
  };
  Trace baseline = layers("a", {"p", "q", "r"});
  Trace candidate = layers("b", {"p", "r"});
  const Report report = compare_traces(baseline, candidate);
  CHECK(cause_of(report).name() == "weights");
  CHECK(mentions(cause_of(report).evidence,
                 "the candidate's `m.1.weight` is the baseline's `m.2.weight`: layers were"));
  CHECK(mentions(cause_of(compare_traces(candidate, baseline)).evidence,
                 "the candidate's `m.2.weight` is the baseline's `m.1.weight`"));
}

TEST_CASE("what reads values of a branch that one run took comes from that branch") {
  // One adds and multiplies, the other multiplies alone.
  Trace baseline = chain("a", {"aten::linear", "aten::add", "aten::mul", "aten::exp"});
  Trace candidate("b");
  candidate.tensor("x", {1, 2, 3}).tensor("t0", {7, 8, 9});
  candidate.tensor("t2", {1, 1, 1}).tensor("t3", {2, 2, 2});
  baseline.tensor("t1", {8, 9, 10});
  candidate.op("aten::linear", {"x"}, {"t0"});
  candidate.op("aten::mul", {"t0"}, {"t2"});
  candidate.op("aten::exp", {"t2"}, {"t3"});
  CompareOptions options;
  const Report report = compare_traces(baseline, candidate, options);
  REQUIRE(report.divergences.size() == 2);
  CHECK(said(report.divergences[0].cause).evidence == "argument `in0` comes from op 1");
  CHECK(said(report.divergences[1].cause).evidence ==
        "argument `in0` comes from op 2, and the difference from op 1");
}

TEST_CASE("what was called with other arguments read no differing inputs") {
  const auto calls = [](const char* run, int p) {
    Trace trace = chain(run, {"aten::size", "aten::dropout"});
    trace.json()["ops"][1]["scalars"] = {{"p", p}};
    return trace;
  };
  Trace baseline = calls("a", 0);
  Trace candidate = calls("b", 1);
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 0);
  REQUIRE(report.warnings.size() == 1);
  CHECK(said(report.warnings.front()) ==
        "1 operator took other arguments and gave bit-equal outputs; first op 1 aten::dropout (m)");
}

}  // namespace
}  // namespace repro_check::comparators::told_apart_test
