// SPDX-License-Identifier: Apache-2.0
// Work of several lanes, and of threads that nobody knows the place of.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/op_record.h"
#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators::lanes_test {
namespace {

struct Call {
  std::uint32_t lane = 0;
  std::string in;
  std::string out;
};

/// `aten::mm` again and again, of values that differ from name to name.
Trace calls(const std::vector<Call>& list) {
  Trace trace("run");
  int value = 0;
  for (const char* name : {"a", "b", "c", "d", "x", "y", "z"}) trace.tensor(name, {++value, 2});
  for (const Call& call : list) {
    trace.op("aten::mm", {call.in}, {call.out}, {{"lane", call.lane}});
  }
  return trace;
}

const std::uint32_t kFirst = core::forked_lane(core::kMainLane, 0);
const std::uint32_t kSecond = core::forked_lane(core::kMainLane, 1);
const std::uint32_t kPool = core::pool_lane(core::kMainLane);

TEST_CASE("lanes that overlap otherwise are equal, lane by lane") {
  Trace baseline = calls({{kFirst, "a", "x"}, {kSecond, "b", "y"}, {kFirst, "x", "z"}});
  Trace candidate = calls({{kSecond, "b", "y"}, {kFirst, "a", "x"}, {kFirst, "x", "z"}});
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 0);
  CHECK(report.alignment.position == 3);
  Trace swapped = calls({{kFirst, "b", "y"}, {kSecond, "a", "x"}, {kFirst, "x", "z"}});
  CHECK(exit_of(compare_traces(baseline, swapped)) == 1);
}

TEST_CASE("work of a pool is a multiset of what went in") {
  Trace baseline = calls({{kPool, "a", "x"}, {kPool, "b", "y"}, {kPool, "a", "x"}});
  Trace candidate = calls({{kPool, "b", "y"}, {kPool, "a", "x"}, {kPool, "a", "x"}});
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 0);
  CHECK(report.coverage.equal == 3);
  CHECK(report.warnings.empty());
}

TEST_CASE("a pool that once more got the one and not the other is no multiset of the same") {
  Trace baseline = calls({{kPool, "a", "x"}, {kPool, "b", "y"}, {kPool, "a", "x"}});
  Trace candidate = calls({{kPool, "b", "y"}, {kPool, "b", "y"}, {kPool, "a", "x"}});
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 1);
  CHECK(report.coverage.equal == 2);
  CHECK(report.coverage.diverged == 1);
}

TEST_CASE("a race in a pool is an origin: equal inputs, other results") {
  Trace baseline = calls({{kPool, "a", "x"}, {kPool, "b", "y"}, {kPool, "c", "z"}});
  Trace candidate = calls({{kPool, "c", "z"}, {kPool, "b", "d"}, {kPool, "a", "x"}});
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 1);
  CHECK(report.coverage.equal == 2);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK(report.first_divergence->candidate_index == 1);
}

TEST_CASE("a call fewer in a pool is missing") {
  Trace baseline = calls({{kPool, "a", "x"}, {kPool, "b", "y"}, {kPool, "c", "z"}});
  Trace candidate = calls({{kPool, "c", "z"}, {kPool, "a", "x"}});
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 1);
  CHECK(report.coverage.missing_in_candidate == 1);
  CHECK(report.coverage.equal == 2);
}

/// Two forks that write one tensor, `mul` of the first and `add` of the second, in either order.
Trace race(bool mul_first) {
  Trace trace("run");
  trace.tensor("s", {1}).tensor("mul", {2}).tensor("add", {3}).tensor("last", {mul_first ? 5 : 6});
  const char* first = mul_first ? "mul" : "add";
  for (const char* written : {"mul", "add", "last"})
    trace.json()["tensors"][written]["storage"] = "s";
  const ordered_json in_first{{"lane", kFirst}};
  const ordered_json in_second{{"lane", kSecond}};
  if (mul_first) {
    trace.op("aten::mul_", {"s"}, {first}, in_first).op("aten::add_", {first}, {"last"}, in_second);
  } else {
    trace.op("aten::add_", {"s"}, {first}, in_second).op("aten::mul_", {first}, {"last"}, in_first);
  }
  return trace;
}

TEST_CASE("two forks that write one tensor are a race, and nothing else") {
  Trace baseline = race(true);
  Trace candidate = race(false);
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 1);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  CHECK(said(report.first_divergence->cause).name() == "race on a tensor in use");
  CHECK(said(report.first_divergence->cause).evidence ==
        "argument `in0` was last written by nobody in the baseline and by op 0 aten::add_ (m) of "
        "lane "
        "main.1 in the candidate, and nothing keeps these lanes in order");
}

}  // namespace
}  // namespace repro_check::comparators::lanes_test
