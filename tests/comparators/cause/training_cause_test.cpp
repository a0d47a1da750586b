// SPDX-License-Identifier: Apache-2.0
// Causes of programs that train: gradients, steps, clocks, memory that nobody has written.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "comparators/audit/audit_trace.h"
#include "comparators/cause/cause.h"
#include "tests/comparators/cause/cause_traces.h"
#include "tests/support/memory_source.h"

namespace repro_check::comparators::training_cause_test {
namespace {

Trace program(const std::string& run) {
  Trace trace(run);
  trace.manifest()["method"] = "program";
  return trace;
}

bool warns(const Report& report, const std::string& words) {
  return std::ranges::any_of(cmd::warnings_of(report),
                             [&](const std::string& text) { return mentions(text, words); });
}

/// Two steps, of which the second adds to the gradient of the first unless that was cleared.
Trace stepped(const std::string& run, bool clears) {
  Trace trace = program(run);
  trace.tensor("x", {1}).tensor("g0", {2}).tensor("g1", {3}).tensor("sum", {5}).tensor("w", {4});
  trace.json()["tensors"]["sum"]["storage"] = "g0";
  const ordered_json gradient = {
      {"phase", "backward"}, {"module", "head.bias"}, {"module_type", "AccumulateGrad"}};
  const auto in_step = [](ordered_json extra, int step) {
    extra["step"] = step;
    return extra;
  };
  const auto step = [&](int number, const std::string& left) {
    trace.op("repro_check::loss",
             {"x"},
             {"x"},
             {{"step", number}, {"phase", "loss"}, {"source", "train.py:63"}});
    const std::string made = numbered("g", static_cast<std::size_t>(number));
    trace.op("aten::sum", {"x"}, {made}, {{"step", number}, {"phase", "backward"}});
    if (number == 0 || clears) {
      trace.op("aten::detach", {made}, {made}, in_step(gradient, number));
    } else {
      trace.op("aten::add_", {"g0", made}, {"sum"}, in_step(gradient, number));
    }
    trace.op("repro_check::optimizer_step",
             {left},
             {"w"},
             {{"step", number}, {"phase", "optimizer"}, {"source", "train.py:66"}});
  };
  step(0, "g0");
  step(1, clears ? "g1" : "sum");
  return trace;
}

TEST_CASE("a gradient that was not cleared is named with the lines of both steps") {
  for (const bool first_clears : {true, false}) {
    Trace baseline = stepped("baseline", first_clears);
    Trace candidate = stepped("candidate", !first_clears);
    const Report report = compare_traces(baseline, candidate);
    CHECK(report.first_divergence->baseline_index == 6);
    const auto& cause = cause_of(report);
    CHECK(mentions(cause.evidence, "the gradient of `head.bias` was not cleared in the "));
    CHECK(mentions(cause.evidence, first_clears ? "candidate" : "baseline"));
    CHECK(mentions(cause.evidence, "train.py:63"));
    CHECK(mentions(cause.evidence, "train.py:66"));
    CHECK(mentions(cause.advice, "zero_grad()"));
    CHECK(cause.headline == "a gradient was not cleared");
    // What autograd calls itself is shown at the line of the backward pass.
    CHECK(core::line_text(report.first_divergence->baseline.site.get()) == "train.py:63");
  }
}

TEST_CASE("memory that one run alone takes, and a later operator reads otherwise, was written") {
  for (const bool is_read : {true, false}) {
    Trace baseline = program("baseline");
    Trace candidate = program("candidate");
    for (Trace* trace : {&baseline, &candidate}) {
      const bool first = trace == &baseline;
      trace->tensor("x", {1}).tensor("w", {2}).tensor("late", {first ? 2 : 3});
      trace->tensor("y", {first ? 4 : 5}).tensor("z", {first ? 6 : 7});
      trace->json()["tensors"]["late"]["storage"] = is_read ? "w" : "late";
      trace->op("aten::mul", {"x"}, {"w"});
      if (!first)
        trace->op("aten::detach", {"w"}, {"w"}, {{"source", "train.py:9"}, {"view", true}});
      trace->op("aten::neg", {is_read ? "late" : "x"}, {is_read ? "y" : "x"});
    }
    const Report report = compare_traces(baseline, candidate);
    CHECK(report.first_divergence->candidate_index == 1);
    CHECK((cause_of(report).name() == "unobserved write") == is_read);
    if (!is_read) continue;
    CHECK(cause_of(report).headline == "the candidate alone wrote a tensor with no operator");
    CHECK(mentions(cause_of(report).evidence, "op 1 aten::neg (m) reads there what no operator"));
    CHECK(mentions(cause_of(report).advice, "`.numpy()`"));
  }
}

TEST_CASE("of an operator more in a backward pass the gradient that it is a part of is named") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    const bool first = trace == &baseline;
    trace->tensor("x", {1}).tensor("g", {2}).tensor("sum", {first ? 2 : 3}).tensor("w", {4});
    trace->op("aten::mm", {"x"}, {"g"}, {{"phase", "backward"}});
    if (!first) trace->op("aten::add", {"g", "g"}, {"sum"}, {{"phase", "backward"}});
    ordered_json step = {{"phase", "optimizer"}};
    step["inputs"]["grad.head.weight"] = first ? "g" : "sum";
    step["inputs"]["param.head.weight"] = "w";
    trace->op("repro_check::optimizer_step", {}, {}, step);
  }
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.first_divergence->candidate_index == 1);
  CHECK(mentions(cause_of(report).evidence, "a part of the gradient of `head.weight`"));
}

/// Of a number that the program made.
Report made_apart(const ordered_json& from, const ordered_json& to) {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    const bool first = trace == &baseline;
    trace->tensor("x", {first ? 1 : 2}).tensor("y", {first ? 3 : 4});
    trace->op("aten::mul", {"x"}, {"y"});
    trace->manifest()["environment"] = first ? from : to;
  }
  return compare_traces(baseline, candidate);
}

TEST_CASE("a clock that one run alone asks is a suspect, and one that both ask only by itself") {
  const ordered_json clock = {{"unpinned.time.time", "1 call, first at train.py:4"}};
  ordered_json both = clock;
  both["unpinned.os.urandom"] = "2 calls, first at train.py:7";
  CHECK(mentions(cause_of(made_apart(clock, clock)).evidence, "train.py:4"));
  CHECK(mentions(cause_of(made_apart(both, both)).evidence, "train.py:7"));
  CHECK_FALSE(mentions(cause_of(made_apart(both, both)).evidence, "train.py:4"));
  CHECK(cause_of(made_apart(both, both)).advice ==
        "os.urandom at train.py:7 does not repeat: seed a generator, sort a listing, take a "
        "constant");
  CHECK(cause_of(made_apart(both, both)).headline ==
        "the program handed over another number: 1 -> 2");
  // It asks for a seed of its own through the other.
  const ordered_json generator = {
      {"unpinned.numpy.random.default_rng", "2 calls, first at data.py:3"},
      {"unpinned.random.SystemRandom", "2 calls, first at data.py:3"}};
  CHECK(cause_of(made_apart(generator, generator)).advice ==
        "give numpy.random.default_rng at data.py:3 a seed, or, to find what differs after it: "
        "--seed 0");

  const Report alone = made_apart(ordered_json::object(), clock);
  CHECK(mentions(cause_of(alone).evidence, "the candidate alone took from time.time"));
  const auto difference =
      std::ranges::find(alone.differences, "unpinned.time.time", &Difference::pointer);
  REQUIRE(difference != alone.differences.end());
  CHECK(difference->affects_numbers);
}

TEST_CASE("an operator without a result did not give an equal one") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->tensor("x", {1}).tensor("y", {3});
    trace->op("aten::mul", {"x"}, {"y"});
    trace->op("mine::note", {"x"}, {}, {{"scalars", {{"level", trace == &baseline ? 1 : 2}}}});
  }
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.status == Status::kReproducible);
  CHECK_FALSE(warns(report, "took other arguments"));
}

/// A buffer in memory that op 0 made room for.
Trace unfilled(const std::string& run, int value, const std::string& between) {
  Trace trace = program(run);
  trace.json()["tensors"]["room"] = {
      {"dtype", "float32"}, {"shape", {1}}, {"state", "uninitialised"}, {"storage", "memory"}};
  trace.tensor("held", {value}).tensor("y", {value + 1});
  trace.json()["tensors"]["held"]["storage"] = "memory";
  trace.json()["tensors"]["held"]["name"] = "state:freqs";
  trace.op("aten::empty_like", {}, {"room"}, {{"source", "load.py:12"}});
  if (between == "view") {
    trace.json()["tensors"]["shown"] = trace.json()["tensors"]["room"];
    trace.op("aten::detach", {"room"}, {"shown"}, {{"view", true}});
  }
  trace.op("aten::mul", {"held"}, {"y"});
  return trace;
}

TEST_CASE("a buffer of a program that nobody has written is uninitialised memory") {
  Trace baseline = unfilled("baseline", 1, "");
  Trace candidate = unfilled("candidate", 2, "");
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK(report.kind == DivergenceKind::kUninitialised);
  CHECK(cause_of(report).name() == "uninitialised memory");
  CHECK(mentions(cause_of(report).evidence, "load.py:12"));
  CHECK(mentions(cause_of(report).evidence, "freqs"));

  candidate = unfilled("candidate", 1, "");
  const Report by_luck = compare_traces(baseline, candidate);
  CHECK(by_luck.status == Status::kReproducible);
  CHECK(warns(by_luck, "load.py:12"));
}

TEST_CASE("what a view shows may have been filled through it") {
  Trace baseline = unfilled("baseline", 1, "view");
  Trace candidate = unfilled("candidate", 1, "view");
  CHECK_FALSE(warns(compare_traces(baseline, candidate), "load.py:12"));
}

TEST_CASE("read-unwritten is found in one recording") {
  const auto reads = [](Trace trace) {
    const auto source = test_support::source_from_json(trace.json().dump());
    return AuditTrace(*source).unwritten();
  };
  const auto found = reads(unfilled("one", 1, ""));
  REQUIRE(found.size() == 1);
  CHECK(found[0].name == "freqs");
  CHECK(found[0].reader == 1);
  CHECK(found[0].allocated == 0);
  CHECK(reads(unfilled("one", 1, "view")).empty());
}

TEST_CASE("values shown under a tolerance are those beyond it") {
  Trace baseline = program("baseline");
  Trace candidate = program("candidate");
  baseline.tensor("x", {1}).tensor("y", {1, 1, 1, 1}).op("aten::mul", {"x"}, {"y"});
  candidate.tensor("x", {1})
      .tensor("y", {1.0000001, 1.0000001, 2, 1})
      .op("aten::mul", {"x"}, {"y"});
  const Report report = compare_traces(baseline, candidate, tolerance());
  REQUIRE(report.first_divergence);
  REQUIRE(report.first_divergence->outputs.size() == 1);
  const std::vector<Sample>& samples = report.first_divergence->outputs[0].samples;
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].flat_index == 2);
  const Report exact = compare_traces(baseline, candidate);
  CHECK(exact.first_divergence->outputs[0].samples.size() == 3);
}

}  // namespace
}  // namespace repro_check::comparators::training_cause_test
