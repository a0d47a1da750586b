// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cmd/words/causes.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators {
namespace {

/// A draw, of so many numbers, by a generator that was seeded so.
ordered_json draw(std::uint64_t seed, int drawn = 4) {
  return {{"seeded", true},
          {"generator", {{"seed", seed}, {"before", 1}, {"after", 1 + drawn}, {"drawn", drawn}}}};
}

TEST_CASE("draws of both runs are counted, with their generators and seeds") {
  const auto traced = [](const std::string& run) {
    Trace trace(run);
    trace.tensor("x", {1, 2}).tensor("y", {3, 4});
    trace.op("aten::dropout", {"x"}, {"y"}, draw(7));
    trace.op("aten::relu", {"y"}, {"y"});
    trace.op("aten::rand", {}, {"x"}, draw(9));
    ordered_json inner = draw(7);
    inner.update({{"depth", 1}, {"parent", 2}});
    trace.op("aten::uniform_", {}, {"x"}, inner);
    trace.op("aten::bernoulli", {"x"}, {"y"}, draw(7));
    trace.json()["ops"].back()["generator"]["device"] = "cuda:0";
    return trace;
  };
  Trace baseline = traced("baseline");
  Trace candidate = traced("candidate");
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.status == Status::kReproducible);
  // What `rand` calls inside is its own.
  CHECK(report.draws.operators == 3);
  CHECK(report.draws.devices == std::vector<std::string>{"cpu", "cuda:0"});
  CHECK(report.draws.seeds == std::vector<std::uint64_t>{7, 9});
  CHECK(report.draws.parting.empty());
}

TEST_CASE("of calls in calls the outermost that drew is counted, at any depth") {
  const auto nested = [](int depth, int parent, ordered_json extra = ordered_json::object()) {
    extra.update({{"depth", depth}, {"parent", parent}});
    return extra;
  };
  // As draws are recorded that are moved to the host: the call around them drew nothing itself.
  Trace trace = chain("baseline", {"aten::dropout"});
  trace.op("aten::bernoulli_", {}, {"x"}, nested(1, 0, draw(3)));
  trace.op("aten::bernoulli_", {}, {"x"}, nested(1, 0, draw(4)));
  CHECK(compare_traces(trace, trace).draws.operators == 2);
  CHECK(compare_traces(trace, trace).draws.seeds == std::vector<std::uint64_t>{3, 4});
  // Under one that drew, what lies between need not have drawn.
  trace.op("aten::rand", {}, {"x"}, draw(5));
  trace.op("aten::expand", {"x"}, {"x"}, nested(1, 3));
  trace.op("aten::uniform_", {}, {"x"}, nested(2, 4, draw(5)));
  CHECK(compare_traces(trace, trace).draws.operators == 3);
}

TEST_CASE("generators that the model seeded alike are together, whatever the runs' seeds") {
  Trace baseline = chain("baseline", {"aten::relu"});
  Trace candidate = chain("candidate", {"aten::relu"});
  for (Trace* trace : {&baseline, &candidate}) trace->op("aten::zero_", {}, {"x"}, draw(5));
  baseline.manifest() = {{"seed", 1}};
  candidate.manifest() = {{"seed", 2}};
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.status == Status::kReproducible);
  CHECK(report.draws.operators == 1);
  CHECK(report.draws.parting.empty());
}

TEST_CASE("a pass whose generators parted does not rest on the seed") {
  Trace baseline = chain("baseline", {"aten::relu"});
  Trace candidate = chain("candidate", {"aten::relu"});
  baseline.op("aten::zero_", {}, {"x"}, draw(1));
  candidate.op("aten::zero_", {}, {"x"}, draw(2));
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.status == Status::kReproducible);
  CHECK(report.draws.operators == 1);
  CHECK(cmd::sentence_of(report.draws.parting) ==
        "the generators started apart (seed 1 against 2)");
}

TEST_CASE("where nothing draws there is nothing to say") {
  Trace trace = chain("baseline", {"aten::relu"});
  CHECK(compare_traces(trace, trace).draws.operators == 0);
}

}  // namespace
}  // namespace repro_check::comparators
