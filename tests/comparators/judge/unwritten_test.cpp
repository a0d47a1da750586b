// SPDX-License-Identifier: Apache-2.0
// Memory that was allocated and not written in whole: who reads it, and what is said of that.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/comparators/cause/cause_traces.h"

namespace repro_check::comparators::unwritten_test {
namespace {

/// Memory `b` is allocated, its first half is written from x, and `reader` reads the whole.
Trace half_written(const std::string& run, const std::string& reader = "aten::sum") {
  Trace trace(run);
  ordered_json& tensors = trace.json()["tensors"];
  tensors["b"] = {{"dtype", "float32"}, {"shape", {4}}, {"state", "uninitialised"}};
  tensors["before"] = {
      {"dtype", "float32"}, {"shape", {2}}, {"state", "uninitialised"}, {"storage", "b"}};
  trace.tensor("x", {1, 2}).tensor("half", {1, 2}).tensor("part", {1, 2, 0, 0}).tensor("y", {7});
  tensors["half"]["storage"] = "b";
  tensors["part"]["storage"] = "b";
  tensors["part"]["state"] = "uninitialised";
  trace.op("aten::empty", {}, {"b"});
  trace.op("aten::copy_", {"before", "x"}, {"half"});
  trace.op(reader, {}, {"y"}, {{"inputs", {{"self", "part"}}}});
  return trace;
}

bool warns(const Report& report, const std::string& words) {
  return std::ranges::any_of(cmd::warnings_of(report),
                             [&](const std::string& text) { return mentions(text, words); });
}

TEST_CASE("who allocated and who wrote last is named where the reader differs") {
  Trace baseline = half_written("baseline");
  Trace candidate = half_written("candidate");
  candidate.tensor("y", {8});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.kind == DivergenceKind::kUninitialised);
  CHECK(report.first_divergence->baseline_index == 2);
  CHECK(cause_of(report).name() == "uninitialised memory");
  CHECK(
      mentions(cause_of(report).evidence, "`self` is memory that op 0 aten::empty (m) allocated"));
  CHECK(mentions(cause_of(report).evidence, "in part alone, last by op 1 aten::copy_ (m)"));
}

TEST_CASE("memory of a program that operators wrote in part, and that differs where it is read") {
  const auto read_whole = [](const std::string& run, int rest, int written) {
    Trace trace = half_written(run);
    trace.manifest()["method"] = "program";
    ordered_json& tensors = trace.json()["tensors"];
    // Python may have filled it: it has a content.
    tensors["part"].erase("state");
    tensors["part"]["values"] = {1, 2, rest, rest};
    trace.tensor("y", {rest});
    if (written == 4) {
      trace.tensor("half", {1, 2, 0, 0});
      tensors["half"]["storage"] = "b";
    }
    return trace;
  };
  for (const int written : {2, 4}) {
    Trace baseline = read_whole("baseline", 5, written);
    Trace candidate = read_whole("candidate", 6, written);
    const Report report = compare_traces(baseline, candidate);
    CHECK(report.first_divergence->baseline_index == 2);
    CHECK(report.first_divergence->relation == Relation::kOrigin);
    CHECK((cause_of(report).name() == "uninitialised memory") == (written == 2));
    CHECK(mentions(cause_of(report).evidence, "nobody has written the rest") == (written == 2));
  }
}

TEST_CASE("a pass on memory that nobody has written is warned of") {
  Trace trace = half_written("run");
  const Report report = compare_traces(trace, trace);
  CHECK(exit_of(report) == 0);
  CHECK(warns(report, "first op 2 aten::sum (m): `self` is memory that op 0"));
  // What picks elements may have picked written ones; shapes hold no values.
  for (const char* name : {"aten::index_select", "aten::zeros_like", "aten::new_zeros"}) {
    Trace picking = half_written("run", name);
    CHECK_FALSE(warns(compare_traces(picking, picking), "nobody has written"));
  }
}

TEST_CASE("memory that is returned is warned of") {
  Trace baseline = half_written("baseline");
  Trace candidate = half_written("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->json()["ops"].push_back({{"returned", {{"out", "part"}}}});
  }
  CHECK(warns(compare_traces(baseline, baseline), "(2 times)"));
}

TEST_CASE("the written part is compared, and traced to the operator that wrote it") {
  Trace baseline = half_written("baseline");
  Trace candidate = half_written("candidate");
  candidate.tensor("half", {1, 3}).tensor("y", {8});
  candidate.json()["tensors"]["half"]["storage"] = "b";
  candidate.json()["tensors"]["part"]["values"] = {1, 3, 0, 0};
  const Report report = compare_traces(baseline, candidate);
  REQUIRE(report.divergences.size() == 1);
  CHECK(report.divergences[0].relation == Relation::kPropagated);
  CHECK(report.divergences[0].producers == std::vector<std::uint64_t>{1});
}

/// Memory is allocated, `index_put_` writes part of it, and a view shows what was written.
Trace put_in_part(const std::string& run, int written) {
  Trace trace(run);
  ordered_json& tensors = trace.json()["tensors"];
  const ordered_json nothing = {
      {"dtype", "float32"}, {"shape", {4}}, {"state", "uninitialised"}, {"storage", "b"}};
  tensors["b"] = {{"dtype", "float32"}, {"shape", {4}}, {"state", "uninitialised"}};
  tensors["before"] = tensors["after"] = nothing;
  trace.tensor("x", {1, 2}).tensor("put", {1, written, 0, 0}).tensor("shown", {1, written});
  trace.tensor("y", {written});
  tensors["put"]["storage"] = tensors["shown"]["storage"] = "b";
  tensors["put"]["state"] = "uninitialised";
  trace.op("aten::empty", {}, {"b"});
  trace.op("aten::index_put_", {"before", "x"}, {"put"});
  trace.op("aten::slice", {"after"}, {"shown"}, {{"view", true}});
  trace.op("aten::neg", {"shown"}, {"y"});
  return trace;
}

TEST_CASE("what an operator writes into memory that is not yet whole is compared") {
  Trace baseline = put_in_part("baseline", 2);
  Trace candidate = put_in_part("candidate", 3);
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 1);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  CHECK(cause_of(report).name() != "uninitialised memory");
  REQUIRE(report.divergences.size() == 2);
  CHECK(report.divergences[0].relation == Relation::kPropagated);
  CHECK(report.divergences[0].producers == std::vector<std::uint64_t>{1});
  CHECK(exit_of(compare_traces(baseline, baseline)) == 0);
}

TEST_CASE("what an operator is told to ignore is not read") {
  for (const double beta : {0.0, 1.0}) {
    Trace trace = half_written("run", "aten::baddbmm");
    ordered_json& op = trace.json()["ops"].back();
    op["inputs"] = {{"self", "part"}, {"batch1", "x"}};
    op["scalars"] = {{"beta", beta}};
    CHECK(warns(compare_traces(trace, trace), "nobody has written") == (beta != 0));
  }
}

TEST_CASE("a difference that an earlier write left in the storage is that write's") {
  Trace baseline("baseline");
  Trace candidate("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->tensor("x", {1, 2}).tensor("b", {0, 0, 0, 0}).tensor("first", {1, 2});
    trace->tensor("second", {1, 2}).tensor("whole", {1, 2, 1, 2}).tensor("y", {6});
    ordered_json& tensors = trace->json()["tensors"];
    for (const char* view : {"first", "second", "whole"}) tensors[view]["storage"] = "b";
    tensors["second"]["offset"] = 2;
    trace->op("aten::zeros", {}, {"b"});
    trace->op("aten::exp_", {"x"}, {"first"});
    trace->op("aten::copy_", {"x"}, {"second"});
    trace->op("aten::sum", {"whole"}, {"y"});
  }
  ordered_json& tensors = candidate.json()["tensors"];
  tensors["first"]["values"] = {1, 3};
  tensors["whole"]["values"] = {1, 3, 1, 2};
  tensors["y"]["values"] = {7};
  const Report report = compare_traces(baseline, candidate);
  REQUIRE(report.divergences.size() == 1);
  CHECK(said(report.divergences[0].cause).name() == "propagated");
  CHECK(report.divergences[0].producers == std::vector<std::uint64_t>{1});
}

}  // namespace
}  // namespace repro_check::comparators::unwritten_test
