// SPDX-License-Identifier: Apache-2.0
#include "comparators/runs/repeatability.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators::repeatability_test {
namespace {

constexpr std::size_t kAll = 1000;
using Counts = std::vector<std::uint64_t>;

/// Two operators of which the second reads what the first returns.
Trace run_of(const std::string& name, double first, double second, const char* level = "digest") {
  Trace trace(name);
  trace.manifest()["level"] = level;
  trace.tensor("x", {1, 2});
  trace.tensor("a", ordered_json::array({first, 4.0}));
  trace.tensor("b", ordered_json::array({second, 8.0}));
  trace.op("aten::mul", {"x"}, {"a"}).op("aten::exp", {"a"}, {"b"});
  return trace;
}

OpRepeatability assess(std::vector<Trace> traces, std::size_t max_items = kAll) {
  std::vector<std::unique_ptr<test_support::MemorySource>> sources;
  std::vector<const core::DumpSource*> runs;
  for (Trace& trace : traces) {
    sources.push_back(test_support::source_from_json(trace.json().dump()));
    runs.push_back(sources.back().get());
  }
  return assess_ops(runs, max_items);
}

TEST_CASE("what follows a flaky operator is not flaky itself") {
  const OpRepeatability ops = assess(
      {run_of("1", 3, 7), run_of("2", 3, 7), run_of("3", 3.5, 7.5), run_of("4", 3.25, 7.25)});
  CHECK(ops.runs == 4);
  CHECK(ops.assessed == 2);
  CHECK(ops.flaky == 1);
  CHECK(ops.not_assessed == 0);
  REQUIRE(ops.ops.size() == 1);
  CHECK(ops.ops[0].index == 0);
  CHECK(ops.ops[0].counts == Counts{2, 1, 1});
  CHECK(ops.ops[0].runs() == 4);
  CHECK(ops.ops[0].disagreement == doctest::Approx(1 - 2.0 / 12));
  CHECK_FALSE(ops.ops[0].l2_rel.has_value());
}

TEST_CASE("what a call returned is no operator that could be flaky") {
  const auto returning = [](const std::string& name, double first) {
    Trace trace = run_of(name, first, 7);
    trace.json()["ops"].push_back({{"returned", {{"out", "a"}}}});
    return trace;
  };
  const OpRepeatability ops =
      assess({returning("1", 3), returning("2", 3), returning("3", 3.5), returning("4", 3.5)});
  CHECK(ops.assessed == 2);
  CHECK(ops.flaky == 1);
  CHECK(ops.not_assessed == 0);
  REQUIRE(ops.ops.size() == 1);
  CHECK(ops.ops[0].index == 0);
}

TEST_CASE("an operator is flaky among the runs that gave it equal inputs") {
  const OpRepeatability ops =
      assess({run_of("1", 3, 7), run_of("2", 3, 7.5), run_of("3", 3, 7), run_of("4", 3.5, 9)});
  CHECK(ops.flaky == 2);
  REQUIRE(ops.ops.size() == 2);
  // 2:1 of three runs disagrees more often than 3:1 of four.
  CHECK(ops.ops[0].index == 1);
  CHECK(ops.ops[0].counts == Counts{2, 1});
  CHECK(ops.ops[1].index == 0);
  CHECK(ops.ops[1].counts == Counts{3, 1});
}

TEST_CASE("an operator whose inputs never were the same twice is not assessed") {
  const OpRepeatability ops =
      assess({run_of("1", 3, 7), run_of("2", 3.5, 7.5), run_of("3", 3.25, 7.25)});
  CHECK(ops.assessed == 1);
  CHECK(ops.not_assessed == 1);
  CHECK(ops.ops.at(0).counts == Counts{1, 1, 1});
}

TEST_CASE("runs that agree are stable, and one run says nothing") {
  const OpRepeatability ops = assess({run_of("1", 3, 7), run_of("2", 3, 7), run_of("3", 3, 7)});
  CHECK(ops.assessed == 2);
  CHECK(ops.flaky == 0);
  CHECK(ops.ops.empty());
  CHECK(assess({run_of("1", 3, 7)}).runs == 0);
}

TEST_CASE("outputs are measured against the first where the runs hold them") {
  const OpRepeatability ops = assess(
      {run_of("1", 3, 7, "tensor"), run_of("2", 3.5, 7.5, "tensor"), run_of("3", 4, 8, "tensor")});
  REQUIRE(ops.ops.size() == 1);
  CHECK(ops.ops[0].l2_rel.value() == doctest::Approx(1.0 / 5));
  CHECK(ops.ops[0].ulp_max.value() == (1U << 22U));
}

TEST_CASE("a NaN in one run alone is infinitely far") {
  Trace odd = run_of("2", 3, 7, "tensor");
  odd.tensor("a", {"nan", 4});
  const OpRepeatability ops = assess({run_of("1", 3, 7, "tensor"), std::move(odd)});
  REQUIRE(ops.ops.size() == 1);
  CHECK(ops.ops[0].l2_rel.value() == std::numeric_limits<double>::infinity());
}

TEST_CASE("the chance of an operator is said for all of them at once") {
  const OpRepeatability ops = assess({run_of("1", 3, 7), run_of("2", 3.5, 7.5)});
  REQUIRE(ops.assessed == 1);
  CHECK(ops.ops.at(0).differs.low == doctest::Approx(0.025));
  const OpRepeatability two =
      assess({run_of("1", 3, 7), run_of("2", 3, 7.5), run_of("3", 3, 7), run_of("4", 3, 7)});
  REQUIRE(two.assessed == 2);
  const Interval expected = clopper_pearson(1, 3, kAlpha / 2);
  CHECK(two.ops.at(0).differs.low == expected.low);
  CHECK(two.ops.at(0).differs.high == expected.high);
}

TEST_CASE("scalar arguments and generators are inputs") {
  std::vector<Trace> traces;
  for (const double p : {0.5, 0.25}) {
    Trace trace = run_of(std::to_string(p), 3, 7 + p);
    trace.json()["ops"][1]["scalars"] = {{"p", p}};
    traces.push_back(std::move(trace));
  }
  CHECK(assess(std::move(traces)).flaky == 0);
  traces.clear();
  for (const int place : {1, 2}) {
    Trace trace = run_of(std::to_string(place), 3, 7 + place);
    trace.json()["ops"][1]["generator"] = {
        {"device", "cpu"}, {"seed", 1}, {"before", place}, {"after", 9}, {"drawn", 4}};
    traces.push_back(std::move(trace));
  }
  const OpRepeatability ops = assess(std::move(traces));
  CHECK(ops.flaky == 0);
  CHECK(ops.not_assessed == 1);
}

TEST_CASE("scalar results count") {
  std::vector<Trace> traces;
  for (const bool said : {true, false, true}) {
    Trace trace = run_of("run", 3, 7);
    trace.op("aten::item", {"b"}, {}, {{"results", {said}}});
    traces.push_back(std::move(trace));
  }
  const OpRepeatability ops = assess(std::move(traces));
  REQUIRE(ops.flaky == 1);
  CHECK(ops.ops[0].index == 2);
  CHECK(ops.ops[0].counts == Counts{2, 1});
}

TEST_CASE("streams that part are aligned behind the place") {
  Trace parted = chain("2", {"aten::a", "aten::extra", "aten::b", "aten::c"});
  parted.json()["ops"][1]["inputs"]["in0"] = "x";
  parted.json()["ops"][2]["inputs"]["in0"] = "t0";
  Trace other = chain("3", {"aten::a", "aten::b", "aten::c"});
  const OpRepeatability ops =
      assess({chain("1", {"aten::a", "aten::b", "aten::c"}), std::move(parted), std::move(other)});
  CHECK(ops.assessed == 3);
  CHECK(ops.flaky == 0);
  CHECK(ops.notes.empty());
}

TEST_CASE("a run with digests of another rule is left out, and said to be") {
  Trace other = run_of("2", 3.5, 7);
  other.manifest()["digest_algorithm"] = "md5";
  const OpRepeatability ops = assess({run_of("1", 3, 7), std::move(other), run_of("3", 3, 7)});
  CHECK(ops.runs == 2);
  CHECK(ops.flaky == 0);
  CHECK(ops.notes.size() == 1);
}

TEST_CASE("only the least repeatable are kept, and all are counted") {
  std::vector<Trace> traces;
  for (int run = 0; run < 4; ++run) {
    Trace trace(numbered("run", static_cast<std::size_t>(run)));
    trace.manifest()["level"] = "digest";
    trace.tensor("x", {1});
    for (int op = 0; op < 50; ++op) {
      const std::string name = numbered("t", static_cast<std::size_t>(op));
      // Operator 40 gives a result of its own in every run, the others one odd result.
      const bool is_odd = op == 40 ? run > 0 : run == 3;
      trace.tensor(name, ordered_json::array({is_odd ? op + run + 0.5 : op}));
      trace.op("aten::f", {"x"}, {name});
    }
    traces.push_back(std::move(trace));
  }
  const OpRepeatability ops = assess(std::move(traces), 3);
  CHECK(ops.flaky == 50);
  REQUIRE(ops.ops.size() == 3);
  CHECK(ops.ops[0].index == 40);
  CHECK(ops.ops[0].disagreement == 1);
  CHECK(ops.ops[1].index == 0);
  CHECK(ops.ops[2].index == 1);
}

TEST_CASE("more than half of the runs differing makes the first the odd one") {
  RepeatSummary summary;
  summary.judged = 9;
  summary.differing = 4;
  CHECK_FALSE(summary.first_is_odd());
  summary.differing = 5;
  CHECK(summary.first_is_odd());
  CHECK(summary.chance().low == doctest::Approx(0.2120).epsilon(1e-3));
}

}  // namespace
}  // namespace repro_check::comparators::repeatability_test
