// SPDX-License-Identifier: Apache-2.0
// Causes that only a recorded program has.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/comparators/cause/cause_traces.h"

namespace repro_check::comparators {
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

TEST_CASE("samples in another order are one origin, and what reads them is none") {
  const Report report = in_orders({0, 1, 2, 3}, {0, 3, 2, 1});
  CHECK(report.first_divergence->baseline.op->name == "repro_check::order");
  CHECK(cause_of(report).name() == "constant differs");
  CHECK(mentions(cause_of(report).evidence, "its sampler (\"list\")"));
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
  for (const Cause& cause : {cause_of(report), report.divergences.front().cause}) {
    CHECK(cause.name() == "eval against train");
    CHECK(cause.evidence ==
          "module `m` ran in another mode: aten::batch_norm was called with training: False "
          "against True");
  }
}

}  // namespace
}  // namespace repro_check::comparators
