// SPDX-License-Identifier: Apache-2.0
// Causes that only a recorded program has.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/comparators/cause/cause_traces.h"
#include "tests/comparators/said.h"

namespace repro_check::comparators::program_cause_test {
namespace {

Trace program(const std::string& run) {
  Trace trace(run);
  trace.manifest()["method"] = "program";
  return trace;
}

const ordered_json kData = {{"phase", "data"}};

void add_order(Trace& trace, const ordered_json& samples) {
  trace.op("repro_check::order",
           {},
           {},
           {{"phase", "data"},
            {"scalars", {{"samples", samples}, {"sampler", "list"}}},
            {"results", {samples}}});
}

void add_read(Trace& trace, int sample, const std::string& values) {
  ordered_json extra = kData;
  extra["scalars"] = {{"index", sample}};
  trace.op("aten::select", {"data"}, {values}, extra);
}

Report in_orders(const std::vector<int>& from, const std::vector<int>& to) {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (auto [trace, order] : {std::pair(&baseline, &from), std::pair(&candidate, &to)}) {
    trace->tensor("data", {7, 8, 9, 6});
    for (const int sample : {0, 1, 2, 3}) {
      trace->tensor(numbered("row", static_cast<std::size_t>(sample)), {sample + 1});
    }
    for (const int sample : *order) {
      add_order(*trace, {sample});
      add_read(*trace, sample, numbered("row", static_cast<std::size_t>(sample)));
    }
  }
  return compare_traces(baseline, candidate);
}

/// Ops 0 and 1 make `a` and `b` alike in both runs, and op 2 is given these.
Report given(const std::vector<std::string>& from, const std::vector<std::string>& to) {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (auto [trace, inputs] : {std::pair(&baseline, &from), std::pair(&candidate, &to)}) {
    trace->tensor("x", {1}).tensor("a", {2}).tensor("b", {3});
    trace->tensor("y", {inputs->front() == "a" ? 5 : 6});
    trace->op("aten::mul", {"x"}, {"a"}).op("aten::neg", {"x"}, {"b"});
    trace->tensor("z", {inputs->front() == "a" ? 7 : 8});
    trace->op("aten::stack", *inputs, {"y"}).op("aten::sum", {"y"}, {"z"});
  }
  return compare_traces(baseline, candidate);
}

TEST_CASE("what is given a tensor that another operator made is an origin") {
  const Report report = given({"a"}, {"b"});
  CHECK(report.first_divergence->baseline_index == 2);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  CHECK(cause_of(report).name() == "argument differs");
  CHECK(mentions(cause_of(report).evidence,
                 "given another tensor: argument `in0` is what op 0 aten::mul (m) made in the "
                 "baseline, and what op 1 aten::neg (m) made in the candidate"));
  CHECK(report.coverage.origins == 1);
  CHECK(report.coverage.propagated == 1);

  const Report reordered = given({"a", "b"}, {"b", "a"});
  CHECK(reordered.first_divergence->relation == Relation::kOrigin);
  CHECK(mentions(cause_of(reordered).evidence, "given the same tensors in another order"));
}

TEST_CASE("a tensor that parted where it was made is no other one") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    const bool first = trace == &baseline;
    trace->tensor("x", {1}).tensor("a", {2}).tensor("b", {first ? 3 : 4}).tensor("y", {first});
    trace->op("aten::mul", {"x"}, {"a"}).op("aten::neg", {"x"}, {"b"});
    trace->op("aten::exp", {first ? "a" : "b"}, {"y"});
  }
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.first_divergence->baseline_index == 1);
  REQUIRE(report.divergences.size() == 1);
  CHECK(report.divergences[0].relation == Relation::kPropagated);
}

TEST_CASE("another result of one operator, and another part of one result, are told apart") {
  const auto given_part = [](const std::string& run, const std::string& part, int offset) {
    Trace trace = program(run);
    trace.tensor("x", {1, 2}).tensor("a", {1}).tensor("b", {2}).tensor("whole", {1, 2});
    trace.tensor("part", {offset + 1}).tensor("y", {part == "b" || offset == 1 ? 4 : 3});
    ordered_json& tensors = trace.json()["tensors"];
    tensors["part"]["storage"] = "whole";
    tensors["part"]["offset"] = offset;
    trace.op("aten::split_copy", {"x"}, {"a", "b"}).op("aten::clone", {"x"}, {"whole"});
    trace.op("aten::neg", {part}, {"y"});
    return trace;
  };
  Trace first = given_part("baseline", "a", 0);
  Trace second = given_part("candidate", "b", 0);
  const Report results = compare_traces(first, second);
  CHECK(results.first_divergence->relation == Relation::kOrigin);
  CHECK(mentions(cause_of(results).evidence,
                 "is result 0 of op 0 aten::split_copy (m) in the baseline, and result 1 in"));

  first = given_part("baseline", "part", 0);
  second = given_part("candidate", "part", 1);
  const Report parts = compare_traces(first, second);
  CHECK(parts.first_divergence->relation == Relation::kOrigin);
  CHECK(mentions(cause_of(parts).evidence,
                 "is what begins at element 0 of op 1 aten::clone (m) in the baseline, and what "
                 "begins at element 1 in the candidate"));
}

TEST_CASE("what two threads made is another tensor, and what both write is a race") {
  const auto taken = [](const std::string& run, const std::string& made, bool is_one) {
    Trace trace = program(run);
    trace.tensor("x", {1}).tensor("a", {2}).tensor("b", {3});
    trace.tensor("y", {made == "a" ? 5 : 6});
    ordered_json& tensors = trace.json()["tensors"];
    if (is_one) tensors["a"]["storage"] = tensors["b"]["storage"] = "both";
    const auto make = [&](const std::string& name) {
      trace.op("aten::mul", {"x"}, {name}, {{"lane", name == "a" ? 1 : 2}});
    };
    make(made == "a" ? "b" : "a");
    make(made);
    trace.op("aten::neg", {made}, {"y"});
    return trace;
  };
  for (const bool is_one : {false, true}) {
    Trace baseline = taken("baseline", "a", is_one);
    Trace candidate = taken("candidate", "b", is_one);
    const Report report = compare_traces(baseline, candidate);
    CHECK(report.first_divergence->baseline.op->name == "aten::neg");
    CHECK(report.first_divergence->relation == Relation::kOrigin);
    CHECK(cause_of(report).name() == (is_one ? "race on a tensor in use" : "argument differs"));
    CHECK(mentions(cause_of(report).evidence, "of lane"));
  }
}

TEST_CASE("a maker that the baseline called after its reader is looked at all the same") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    const bool first = trace == &baseline;
    trace->tensor("x", {1}).tensor("a", {2}).tensor("b", {3}).tensor("y", {first ? 5 : 6});
    trace->op("aten::mul", {"x"}, {"a"}, {{"lane", 1}});
    if (!first) trace->op("aten::mul", {"x"}, {"b"}, {{"lane", 2}});
    trace->op("aten::neg", {first ? "a" : "b"}, {"y"});
    if (first) trace->op("aten::mul", {"x"}, {"b"}, {{"lane", 2}});
  }
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  CHECK(cause_of(report).name() == "argument differs");
}

TEST_CASE("batches of another size are no other order") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  add_order(baseline, {0, 1, 2});
  add_order(candidate, {0, 1});
  CHECK(mentions(cause_of(compare_traces(baseline, candidate)).evidence,
                 "batches of 3 samples against 2"));
}

TEST_CASE("operators of one run alone: what leads there, and no model file") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->tensor("x", {1}).tensor("a", {2}).op("aten::mul", {"x"}, {"a"});
  }
  candidate.op("aten::clone", {"x"}, {"x"});
  baseline.manifest()["environment"] = {{"unpinned.time.time", "1 call, first at train.py:4"}};
  const auto cause = cause_of(compare_traces(baseline, candidate));
  CHECK(mentions(cause.evidence, "time.time (1 call, first at train.py:4)"));
  CHECK(mentions(cause.advice, "in one run alone"));
}

TEST_CASE("a parameter that one run alone freezes is told where its gradient is missing") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->tensor("x", {1}).tensor("w", {2}).tensor("y", {3}).tensor("g", {4}).tensor("h", {5});
    trace->json()["tensors"]["w"]["requires_grad"] = trace == &baseline;
    trace->op("aten::linear", {"x", "w"}, {"y"});
    trace->op("aten::mean", {"y"}, {"h"}, {{"phase", "backward"}});
  }
  baseline.op("aten::mm", {"y"}, {"g"}, {{"phase", "backward"}});
  const auto cause = cause_of(compare_traces(baseline, candidate));
  CHECK(mentions(cause.evidence,
                 "`in1` requires gradients at op 0 aten::linear (m) in the baseline alone"));
  CHECK(mentions(cause.advice, "requires_grad"));
}

TEST_CASE("one operator in two phases is told by these") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->tensor("x", {1}).tensor("y", {2});
    trace->op("aten::neg", {"x"}, {"y"}, {{"phase", trace == &baseline ? "forward" : "eval"}});
    trace->op("aten::exp", {"y"}, {"x"});
  }
  const auto cause = cause_of(compare_traces(baseline, candidate));
  CHECK(mentions(cause.evidence, "phase forward against eval"));
  CHECK(mentions(cause.advice, "no_grad()"));
}

TEST_CASE(
    "threads that draw from the generator of the process are named where it stood elsewhere") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  const auto draw = [](int before, bool is_own) {
    ordered_json extra = {{"lane", 1}, {"seeded", true}};
    extra["generator"] = {{"seed", 0}, {"before", before}, {"after", before + 1}, {"drawn", 4}};
    if (is_own) extra["scalars"] = {{"generator", 1}};
    return extra;
  };
  for (const bool is_own : {false, true}) {
    for (Trace* trace : {&baseline, &candidate}) {
      const bool first = trace == &baseline;
      trace->json()["ops"].clear();
      trace->tensor("x", {first ? 1 : 2}).op("aten::rand", {}, {"x"}, draw(first ? 1 : 5, is_own));
    }
    const auto cause = cause_of(compare_traces(baseline, candidate));
    CHECK(cause.name() == "rng stream");
    CHECK(mentions(cause.evidence, "threads draw from it in no fixed order") == !is_own);
    CHECK(mentions(cause.advice, "a generator of its own") == !is_own);
  }
}

/// A program that draws once, by a generator that stands so.
Report drawing(std::uint64_t seed,
               std::uint64_t other_seed,
               const ordered_json& environment = ordered_json::object(),
               const ordered_json& settings = ordered_json::object(),
               bool is_own = false,
               const ordered_json& of_candidate = ordered_json::object()) {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    const bool first = trace == &baseline;
    trace->manifest()["environment"] = first || of_candidate.empty() ? environment : of_candidate;
    trace->manifest()["settings"] = settings;
    ordered_json extra = {{"seeded", true}};
    extra["generator"] = {
        {"seed", first ? seed : other_seed}, {"before", first ? 1 : 5}, {"after", 9}, {"drawn", 4}};
    if (is_own) extra["scalars"] = {{"generator", 1}};
    trace->tensor("x", {first ? 1 : 2}).op("aten::rand", {}, {"x"}, extra);
  }
  return compare_traces(baseline, candidate);
}

constexpr std::string_view kUnseeded = "random numbers were not seeded";

TEST_CASE("a program that seeds nothing is told so") {
  // What LibTorch takes for a generator that it makes.
  constexpr std::uint64_t kOne = 5'000'000'000'000;
  constexpr std::uint64_t kOther = 6'000'000'000'000;
  const ordered_json none = ordered_json::object();
  const Report report = drawing(kOne, kOther);
  CHECK(report.kind == DivergenceKind::kRng);
  const SaidCause& cause = cause_of(report);
  CHECK(cause.name() == "rng stream");
  CHECK(cause.headline == kUnseeded);
  CHECK(mentions(cause.evidence, "random numbers were not seeded: it draws from a generator"));
  CHECK(cause.advice ==
        "torch.manual_seed(0) before this line (random.seed, numpy.random.seed likewise), or, to "
        "find what differs after it: --seed 0");

  // By the program with another number each time, where that is seen and where it is not; by
  // repro-check; a generator of the program's own.
  CHECK(cause_of(drawing(kOne, kOther, {{"set.torch.manual_seed", "(now)"}})).headline !=
        kUnseeded);
  CHECK(cause_of(drawing(7, 8)).headline != kUnseeded);
  CHECK(cause_of(drawing(kOne, kOther, none, {{"generator.cpu", "0"}})).headline != kUnseeded);
  CHECK(cause_of(drawing(kOne, kOther, none, none, true)).headline != kUnseeded);
  CHECK(mentions(cause_of(drawing(7, 8)).evidence, "the generators started apart (seed 7 against"));
}

TEST_CASE("what the program seeds itself is seeded there, and by no seed from outside") {
  CHECK(cause_of(drawing(7, 8, kNone, kNone, true)).advice ==
        "give that generator the same seed in every run");
  const ordered_json one = {{"set.torch.manual_seed", "(7)"},
                            {"set_at.torch.manual_seed", "train.py:2"}};
  const ordered_json other = {{"set.torch.manual_seed", "(8)"},
                              {"set_at.torch.manual_seed", "train.py:2"}};
  const Report report = drawing(7, 8, one, kNone, false, other);
  CHECK(cause_of(report).headline == "random number generators had other seeds");
  CHECK(
      cause_of(report).advice ==
      "give torch.manual_seed the same value in every run: (7) at train.py:2 -> (8) at train.py:2");
}

TEST_CASE("a function whose second call draws on is told so in its own words") {
  const ordered_json call = {{"process.state", "restored"}};
  CHECK(
      mentions(cause_of(drawing(7, 7, call)).advice, "or, to find what differs after it: seed=0"));
  CHECK(cause_of(drawing(7, 7, call)).headline == kUnseeded);
  // In a process of its own it is unknown what moved a generator that both runs seeded alike.
  CHECK(mentions(cause_of(drawing(7, 7)).evidence, "found the generator at another position"));
}

/// A step of an optimizer that was given its parameters in this order; `told` are its options.
void add_step(Trace& trace, const std::vector<std::string>& order, const ordered_json& told) {
  ordered_json step = {{"phase", "optimizer"}, {"scalars", told}};
  for (const std::string& name : order) {
    step["inputs"]["param." + name] = name;
    step["outputs"]["param." + name] = "new_" + name;
  }
  trace.op("repro_check::optimizer_step", {}, {}, step);
}

TEST_CASE("what an optimizer left belongs together by its name") {
  const auto stepped = [](const std::string& run, const std::vector<std::string>& order) {
    Trace trace = program(run);
    trace.tensor("a", {1, 2}).tensor("b", {3}).tensor("new_a", {4, 5}).tensor("new_b", {6});
    add_step(trace, order, {{"lr[0]", 0.1}});
    return trace;
  };
  Trace baseline = stepped("baseline", {"a", "b"});
  Trace candidate = stepped("candidate", {"b", "a"});
  CHECK(compare_traces(baseline, candidate).status == Status::kReproducible);

  candidate.tensor("new_a", {4, 7});
  const Report report = compare_traces(baseline, candidate);
  REQUIRE(report.first_divergence);
  REQUIRE(report.first_divergence->outputs.size() == 1);
  CHECK(report.first_divergence->outputs[0].candidate.slot == "param.a");

  // What has no counterpart stands on one side alone, or in its order where names differ.
  candidate = stepped("candidate", {"b"});
  const Report fewer = compare_traces(baseline, candidate);
  REQUIRE(fewer.first_divergence);
  REQUIRE(fewer.first_divergence->outputs.size() == 1);
  CHECK(fewer.first_divergence->outputs[0].baseline.slot == "param.a");
  CHECK(said_as_one(fewer.first_divergence->outputs[0].note) == "in baseline only");
  candidate.tensor("wrapped.a", {1, 2}).tensor("new_wrapped.a", {4, 5});
  candidate.json()["ops"].clear();
  add_step(candidate, {"b", "wrapped.a"}, {{"lr[0]", 0.1}});
  CHECK(compare_traces(baseline, candidate).status == Status::kReproducible);
}

TEST_CASE("options that an optimizer of one run alone has are told") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    const bool first = trace == &baseline;
    trace->tensor("a", {1}).tensor("b", {3}).tensor("new_a", {4}).tensor("new_b", {first ? 6 : 7});
    ordered_json told = {{"lr[0]", 0.1}, {"weight_decay[0]", 0.01}};
    if (!first) told = {{"lr[0]", 0.1}, {"lr[1]", 0.1}, {"weight_decay[0]", 0.01}};
    add_step(*trace, {"a", "b"}, told);
    trace->manifest()["optimizer"] = "state";
  }
  const Report report = compare_traces(baseline, candidate);
  CHECK(cause_of(report).name() == "argument differs");
  CHECK(mentions(cause_of(report).evidence, "lr[1]: nothing against 0.1"));
}

TEST_CASE("what a program set otherwise in each run is named where an argument differs") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    const int index = trace == &baseline ? 1 : 2;
    trace->manifest()["environment"] = {
        {"set.random.Random.seed", "(" + std::to_string(index) + ")"},
        {"set_at.random.Random.seed", "data.py:" + std::to_string(2 + index)},
        {"set.torch.manual_seed", "(0)"},
        {"set_at.torch.manual_seed", "data.py:" + std::to_string(index)}};
    trace->tensor("data", {7, 8, 9}).tensor("row", {7 + index});
    trace->op("aten::select", {"data"}, {"row"}, {{"scalars", {{"index", index}}}});
  }
  const Report report = compare_traces(baseline, candidate);
  CHECK(cause_of(report).name() == "argument differs");
  CHECK(
      mentions(cause_of(report).evidence,
               "index: 1 against 2; the program called random.Random.seed (1) at data.py:3 -> (2) "
               "at data.py:4"));
  CHECK(!mentions(cause_of(report).evidence, "torch.manual_seed"));
}

TEST_CASE("samples in another order are one origin, and what reads them is none") {
  const Report report = in_orders({0, 1, 2, 3}, {0, 3, 2, 1});
  CHECK(report.first_divergence->baseline.op->name == "repro_check::order");
  CHECK(cause_of(report).name() == "constant differs");
  CHECK(mentions(cause_of(report).evidence, "its sampler (list)"));
  CHECK(report.coverage.origins == 1);
  CHECK(report.coverage.propagated == 3);
}

TEST_CASE("an order that an operator drew comes from there") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  std::uint64_t seed = 1;
  for (Trace* trace : {&baseline, &candidate}) {
    trace->tensor("drawn", {static_cast<int>(seed), 2});
    ordered_json draws = kData;
    draws["seeded"] = true;
    draws["generator"] = {{"seed", seed}, {"before", 1}, {"after", 2}, {"drawn", 1}};
    trace->op("aten::randperm", {}, {"drawn"}, draws);
    add_order(*trace, {seed});
    ++seed;
  }
  const Report report = compare_traces(baseline, candidate);
  CHECK(cause_of(report).name() == "rng stream");
  CHECK(report.coverage.origins == 1);
  CHECK(report.coverage.propagated == 1);
}

TEST_CASE("what the program made differs once, however often it is read") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  int noise = 1;
  for (Trace* trace : {&baseline, &candidate}) {
    trace->tensor("noise", {noise, 2}).tensor("a", {noise, 3}).tensor("b", {noise, 4});
    trace->op("aten::to", {"noise"}, {"a"}).op("aten::neg", {"noise"}, {"b"});
    ++noise;
  }
  const Report report = compare_traces(baseline, candidate);
  CHECK(cause_of(report).name() == "constant differs");
  CHECK(report.coverage.origins == 1);
  CHECK(report.coverage.propagated == 1);
}

Trace normalises(const std::string& run, bool training) {
  Trace trace = program(run);
  trace.tensor("x", {1, 2}).tensor("count", {3}).tensor("y", {training ? 5 : 4, 6});
  if (training) trace.op("aten::add_", {"count"}, {"count"});
  trace.op("aten::batch_norm", {"x"}, {"y"}, {{"scalars", {{"training", training}}}});
  return trace;
}

TEST_CASE("a module of a program in another mode is known by what its operators were called with") {
  Trace baseline = normalises("baseline", false);
  Trace candidate = normalises("candidate", true);
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.kind == DivergenceKind::kMissing);
  REQUIRE(report.divergences.size() == 1);
  for (const SaidCause& cause : {cause_of(report), said(report.divergences.front().cause)}) {
    CHECK(cause.name() == "eval against train");
    CHECK(cause.evidence ==
          "module `m` ran in another mode: aten::batch_norm was called with training: False "
          "against True");
  }
}

}  // namespace
}  // namespace repro_check::comparators::program_cause_test
