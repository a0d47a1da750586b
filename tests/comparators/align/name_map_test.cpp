// SPDX-License-Identifier: Apache-2.0
// Pairs that a map of names makes.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators {
namespace {

CompareOptions with_map(const std::string& text) {
  CompareOptions options;
  std::vector<std::string> problems;
  options.spec.map = configs::parse_name_map(text, "names.map", problems);
  REQUIRE(problems.empty());
  return options;
}

struct Call {
  std::string op;
  std::string module;
};

Trace calls(const std::vector<Call>& list) {
  Trace trace("run");
  trace.tensor("x", {1, 2, 3});
  for (const Call& call : list) trace.op(call.op, {"x"}, {"x"}, {{"module", call.module}});
  return trace;
}

TEST_CASE("modules that moved and operators that were renamed are pairs") {
  Trace baseline = calls({{"aten::embedding", "tok"},
                          {"aten::linear", "encoder.0.q"},
                          {"aten::gelu", "encoder.0.act"},
                          {"aten::add.Tensor", ""}});
  Trace candidate = calls({{"aten::embedding", "tok"},
                           {"aten::linear", "backbone.0.q"},
                           {"custom::gelu", "backbone.0.act"},
                           {"my::plus.Tensor", ""}});
  CHECK(exit_of(compare_traces(baseline, candidate)) == 1);
  const CompareOptions options = with_map(
      "module backbone\\.(.*) -> encoder.\\1\noperator custom::(.*) -> aten::\\1\n"
      "operator my::plus -> aten::add\n");
  for (const configs::AlignMode mode : {configs::AlignMode::kKeyed, configs::AlignMode::kStrict}) {
    CompareOptions chosen = options;
    chosen.spec.align = mode;
    const Report report = compare_traces(baseline, candidate, chosen);
    CHECK(exit_of(report) == 0);
    CHECK(report.coverage.compared == 4);
    CHECK(report.alignment.map == 3);
    CHECK(report.alignment.position == 1);
    REQUIRE(report.name_map.entries.size() == 3);
    CHECK(report.name_map.entries[0].operators == 2);
    CHECK(report.name_map.entries[1].operators == 1);
    CHECK(report.name_map.entries[2].operators == 1);
    CHECK(report.warnings.empty());
  }
}

TEST_CASE("a pair that the map made and that differs is labelled, and keeps both names") {
  Trace baseline("run");
  Trace candidate("run");
  baseline.tensor("x", {1}).tensor("y", {2}).op("aten::gelu", {"x"}, {"y"});
  candidate.tensor("x", {1}).tensor("y", {3}).op("custom::gelu", {"x"}, {"y"});
  const Report report =
      compare_traces(baseline, candidate, with_map("operator custom::gelu -> aten::gelu"));
  CHECK(exit_of(report) == 1);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->matched_by == MatchedBy::kMap);
  CHECK(report.first_divergence->baseline.op->name == "aten::gelu");
  CHECK(report.first_divergence->candidate.op->name == "custom::gelu");
  CHECK(report.first_divergence->relation == Relation::kOrigin);
}

TEST_CASE("the first line that matches is taken, and one that matches nothing is told") {
  Trace baseline = calls({{"aten::a", "one"}, {"aten::a", "two"}});
  Trace candidate = calls({{"aten::a", "new.one"}, {"aten::a", "new.two"}});
  const Report report = compare_traces(
      baseline,
      candidate,
      with_map("module new\\.one -> one\nmodule new\\.(.*) -> \\1\nmodule new.* -> lost\n"
               "operator aten::b -> aten::a\n"));
  CHECK(exit_of(report) == 0);
  REQUIRE(report.name_map.entries.size() == 4);
  CHECK(report.name_map.entries[0].operators == 1);
  CHECK(report.name_map.entries[1].operators == 1);
  REQUIRE(report.warnings.size() == 2);
  CHECK(said(report.warnings[0]) == "names.map:3: module new.* matched nothing in the candidate");
  CHECK(said(report.warnings[1]) ==
        "names.map:4: operator aten::b matched nothing in the candidate");
}

TEST_CASE("a line that leaves a name as it is makes no pair of the map") {
  Trace trace = calls({{"aten::a", "one"}});
  const Report report = compare_traces(trace, trace, with_map("module one -> one\n"));
  CHECK(exit_of(report) == 0);
  CHECK(report.alignment.map == 0);
  CHECK(report.alignment.position == 1);
  CHECK(report.name_map.entries.front().operators == 1);
  CHECK(report.warnings.empty());
}

TEST_CASE("a map never makes a pair of what is on one side only") {
  Trace baseline = calls({{"aten::a", "m"}, {"aten::b", "m"}});
  Trace candidate = calls({{"aten::a", "m"}});
  CHECK(exit_of(compare_traces(baseline, candidate, with_map("operator aten::a -> aten::b"))) == 1);
  Trace twice = calls({{"aten::a", "m"}, {"aten::a", "m"}});
  CHECK(exit_of(compare_traces(baseline, twice, with_map("operator aten::a -> aten::b"))) == 1);
}

TEST_CASE("weights go with their modules") {
  Trace baseline = calls({{"aten::a", "encoder.q"}});
  Trace candidate = calls({{"aten::a", "backbone.q"}});
  for (Trace* trace : {&baseline, &candidate}) {
    trace->tensor("w", {1, 2});
    trace->named("parameter", trace == &baseline ? "encoder.q.weight" : "backbone.q.weight", "w");
  }
  const CompareOptions options = with_map("module backbone\\.(.*) -> encoder.\\1");
  CHECK(compare_traces(baseline, candidate).named_tensors.size() == 2);
  const Report report = compare_traces(baseline, candidate, options);
  CHECK(report.named_tensors.empty());
  CHECK(report.name_map.entries.front().tensors == 1);
  candidate.tensor("w", {1, 3});
  const Report other = compare_traces(baseline, candidate, options);
  REQUIRE(other.named_tensors.size() == 1);
  CHECK(other.named_tensors.front().name == "encoder.q.weight");
  CHECK(other.named_tensors.front().candidate ==
        other.runs.back().manifest.named_tensors.front().digest);
}

TEST_CASE("what stands in another's place is seen through the map of its module") {
  Trace baseline =
      calls({{"aten::a", "p"}, {"aten::gelu", "encoder.0"}, {"aten::gelu", "encoder.1"}});
  Trace candidate =
      calls({{"aten::a", "p"}, {"aten::silu", "backbone.0"}, {"aten::silu", "backbone.1"}});
  const Report report =
      compare_traces(baseline, candidate, with_map("module backbone\\.(.*) -> encoder.\\1"));
  CHECK(report.divergences_total == 2);
  REQUIRE(report.first_divergence);
  CHECK(said(report.first_divergence->cause).name() == "operator differs");
}

}  // namespace
}  // namespace repro_check::comparators
