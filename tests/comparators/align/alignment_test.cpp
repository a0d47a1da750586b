// SPDX-License-Identifier: Apache-2.0
// What a report says of differing streams: order, place, depth, ranks, and what decided a branch.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators::alignment_test {
namespace {

using Names = std::vector<std::string>;

CompareOptions relaxed() {
  CompareOptions options;
  options.spec.order = configs::OperatorOrder::kRelaxed;
  return options;
}

CompareOptions strict() {
  CompareOptions options;
  options.spec.align = configs::AlignMode::kStrict;
  return options;
}

Trace flat(const Names& names) {
  Trace trace("run");
  trace.tensor("x", {1, 2, 3});
  for (const std::string& name : names) trace.op(name, {"x"}, {"x"});
  return trace;
}

TEST_CASE("another order passes when asked for, and only where all is bit-equal") {
  Trace baseline = flat({"aten::q", "aten::k", "aten::v"});
  Trace candidate = flat({"aten::k", "aten::q", "aten::v"});
  const Report reordered = compare_traces(baseline, candidate);
  CHECK(exit_of(reordered) == 1);
  CHECK(reordered.alignment.reordered == 1);
  CHECK(reordered.alignment.order == 0);

  const Report passed = compare_traces(baseline, candidate, relaxed());
  CHECK(exit_of(passed) == 0);
  CHECK(passed.coverage.compared == 3);
  CHECK(passed.coverage.missing_in_candidate == 0);
  CHECK(passed.alignment.order == 1);
  CHECK(passed.alignment.reordered == 0);
  REQUIRE(passed.warnings.size() == 1);
  CHECK(said(passed.warnings.front()).find("another order") != std::string::npos);

  Trace other = flat({"aten::k"});
  other.tensor("y", {1, 2, 4});
  other.op("aten::q", {"x"}, {"y"}).op("aten::v", {"x"}, {"x"});
  CHECK(exit_of(compare_traces(baseline, other, relaxed())) == 1);
  Trace read_other = flat({"aten::k"});
  read_other.tensor("y", {1, 2, 4});
  read_other.op("aten::q", {"y"}, {"x"}).op("aten::v", {"x"}, {"x"});
  CHECK(exit_of(compare_traces(baseline, read_other, relaxed())) == 1);
  Trace argument = flat({"aten::k"});
  argument.op("aten::q", {"x"}, {"x"}, {{"scalars", {{"p", 0.5}}}}).op("aten::v", {"x"}, {"x"});
  CHECK(exit_of(compare_traces(baseline, argument, relaxed())) == 1);
}

TEST_CASE("relaxed order forgives nothing else") {
  Trace baseline = flat({"aten::a", "aten::b"});
  Trace shorter = flat({"aten::a"});
  CHECK(exit_of(compare_traces(baseline, shorter, relaxed())) == 1);
  Trace twice = flat({"aten::b", "aten::a", "aten::b"});
  CHECK(exit_of(compare_traces(baseline, twice, relaxed())) == 1);
}

TEST_CASE("strict: the place alone") {
  Trace baseline = flat({"aten::a", "aten::b", "aten::c", "aten::d"});
  Trace candidate = flat({"aten::a", "aten::c", "aten::d"});
  const Report keyed = compare_traces(baseline, candidate);
  CHECK(keyed.coverage.compared == 3);
  const Report report = compare_traces(baseline, candidate, strict());
  CHECK(exit_of(report) == 1);
  CHECK(report.kind == DivergenceKind::kMismatch);
  CHECK(report.coverage.compared == 1);
  CHECK(report.alignment.by_position);
  CHECK(report.alignment.position == 1);
  CHECK(report.divergences_total == 3);
  REQUIRE(report.first_divergence);
  CHECK(said(report.first_divergence->cause).name() == "operator differs");
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK(report.first_divergence->candidate_index == 1);
  REQUIRE(report.divergences.size() == 2);
  CHECK(said(report.divergences[1].cause).name() == "missing");
  CHECK(exit_of(compare_traces(baseline, baseline, strict())) == 0);
}

TEST_CASE("a recording of all depths is compared with one of the top by its outermost calls") {
  Trace top = flat({"aten::a", "aten::linear"});
  Trace all = flat({"aten::a", "aten::linear"});
  all.manifest()["depth"] = "all";
  all.tensor("t", {4, 5, 6});
  all.op("aten::t", {"x"}, {"t"}, {{"depth", 1}, {"parent", 1}});
  all.op("aten::addmm", {"t"}, {"x"}, {{"depth", 1}, {"parent", 1}});
  const Report report = compare_traces(top, all);
  CHECK(exit_of(report) == 0);
  CHECK(report.coverage.candidate_ops == 2);
  CHECK(report.alignment.left_out_candidate == 2);
  CHECK(exit_of(compare_traces(all, top)) == 0);
  all.manifest()["depth"] = "leaf";
  CHECK(compare_traces(top, all).status == Status::kNotComparable);
}

TEST_CASE("what nested calls made was made by the call around them") {
  Trace top("run");
  top.tensor("x", {1, 2, 3}).tensor("h", {7}).tensor("y", {8});
  top.op("aten::linear", {"x"}, {"h"}).op("aten::relu", {"h"}, {"y"});
  Trace all("run");
  all.tensor("x", {1, 2, 3}).tensor("h", {9}).tensor("y", {10});
  all.manifest()["depth"] = "all";
  all.op("aten::linear", {"x"}, {"h"});
  all.op("aten::addmm", {"x"}, {"h"}, {{"depth", 1}, {"parent", 0}});
  all.op("aten::relu", {"h"}, {"y"});
  const Report report = compare_traces(all, top);
  CHECK(exit_of(report) == 1);
  REQUIRE(report.divergences.size() == 1);
  CHECK(report.divergences.front().relation == Relation::kPropagated);
  CHECK(report.divergences.front().producers == std::vector<std::uint64_t>{0});
}

TEST_CASE("the value that decided is named, whether or not it differs") {
  const auto branch = [](bool left, bool right, double score) {
    std::pair<Trace, Trace> sides{flat({"aten::a"}), flat({"aten::a"})};
    sides.first.op("aten::item", {"x"}, {}, {{"results", {score}}});
    sides.second.op("aten::item", {"x"}, {}, {{"results", {score}}});
    sides.first.op("aten::Bool", {"x"}, {}, {{"results", {left}}});
    sides.second.op("aten::Bool", {"x"}, {}, {{"results", {right}}});
    sides.first.op("aten::mul", {"x"}, {"x"}).op("aten::sub", {"x"}, {"x"});
    sides.second.op("aten::sin", {"x"}, {"x"}).op("aten::cos", {"x"}, {"x"});
    return sides;
  };
  auto [baseline, candidate] = branch(true, false, 0.5);
  const Report differs = compare_traces(baseline, candidate);
  REQUIRE(differs.control_flow);
  REQUIRE(differs.control_flow->decision);
  CHECK(differs.control_flow->decision->baseline_index == 2);
  CHECK(differs.control_flow->decision->baseline == "True");
  CHECK(differs.control_flow->decision->candidate == "False");
  CHECK(differs.kind == DivergenceKind::kOrigin);

  auto [one, other] = branch(true, true, 0.5);
  const Report same = compare_traces(one, other);
  CHECK(same.kind == DivergenceKind::kControlFlow);
  REQUIRE(same.control_flow->decision);
  CHECK_FALSE(same.control_flow->decision->differs());
  CHECK(said(same.first_divergence->cause).evidence.find("said True on both sides") !=
        std::string::npos);
}

TEST_CASE("neighbouring modules, each with another operator, are findings of their own") {
  Trace baseline("run");
  Trace candidate("run");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->tensor("x", {1});
    trace->op("aten::a", {"x"}, {"x"});
    const bool first = trace == &baseline;
    for (const char* module : {"layer.0", "layer.1"}) {
      trace->op(first ? "aten::gelu" : "aten::silu", {"x"}, {"x"}, {{"module", module}});
    }
  }
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.divergences_total == 2);
  CHECK(said(report.first_divergence->cause).name() == "operator differs");
  REQUIRE(report.divergences.size() == 1);
  CHECK(report.divergences.front().baseline_index == 2);
  CHECK(report.divergences.front().candidate_index == 2);
}

TEST_CASE("every rank has its first divergence") {
  const auto trace = [](double of_rank_0, double of_rank_1) {
    Trace dump("run");
    dump.tensor("x", {1}).tensor("y", {of_rank_0}).tensor("z", {of_rank_1});
    dump.op("aten::a", {"x"}, {"x"}).op("aten::a", {"x"}, {"x"}, {{"rank", 1}});
    dump.op("aten::b", {"x"}, {"z"}, {{"rank", 1}}).op("aten::b", {"x"}, {"y"});
    dump.op("aten::c", {"z"}, {"z"}, {{"rank", 1}});
    return dump;
  };
  Trace baseline = trace(1, 2);
  Trace both = trace(3, 4);
  CompareOptions few;
  few.max_items = 0;
  const Report report = compare_traces(baseline, both, few);
  CHECK(report.ranks == std::vector<std::uint32_t>{0, 1});
  REQUIRE(report.rank_divergences.size() == 2);
  CHECK(report.rank_divergences[0].rank == 0);
  CHECK(report.rank_divergences[0].op_index == 3);
  CHECK(report.rank_divergences[1].op_index == 2);
  Trace one = trace(1, 4);
  CHECK(compare_traces(baseline, one).rank_divergences.size() == 1);
}

TEST_CASE("of very many ranks those that part first are listed") {
  constexpr std::uint32_t kRanks = 3000;
  constexpr std::size_t kListed = 1024;
  const auto trace = [](double of_others) {
    Trace dump("run");
    dump.tensor("x", {1}).tensor("y", {of_others});
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      dump.op("aten::a", {"x"}, {rank < 500 ? "x" : "y"}, {{"rank", rank}});
    }
    return dump;
  };
  Trace baseline = trace(1);
  Trace candidate = trace(2);
  CompareOptions few;
  few.max_items = 0;
  const Report report = compare_traces(baseline, candidate, few);
  CHECK(report.divergences_total == kRanks - 500);
  REQUIRE(report.ranks.size() == kListed);
  REQUIRE(report.rank_divergences.size() == kListed);
  for (std::uint32_t i = 0; i < kListed; ++i) {
    CHECK(report.ranks[i] == 500 + i);
    CHECK(report.rank_divergences[i].rank == 500 + i);
  }
  CHECK(std::ranges::count(said(report.warnings),
                           "1024 of 3000 ranks are listed, those that part first among them") == 1);
  const Report equal = compare_traces(baseline, baseline, few);
  CHECK(equal.rank_divergences.empty());
  REQUIRE(equal.ranks.size() == kListed);
  CHECK(equal.ranks.back() == kListed - 1);
}

TEST_CASE("sets of ranks that differ are named, a few of them") {
  const auto trace = [](std::uint32_t ranks) {
    Trace dump("run");
    dump.tensor("x", {1});
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      dump.op("aten::a", {"x"}, {"x"}, {{"rank", rank}});
    }
    return dump;
  };
  Trace two = trace(2);
  Trace many = trace(100);
  const Report report = compare_traces(two, many);
  CHECK(report.status == Status::kNotComparable);
  CHECK(std::ranges::count(said(report.reasons),
                           "the baseline has ranks 0, 1, the candidate ranks 0-99") == 1);
}

TEST_CASE("pairs are labelled, and the counts add up") {
  Trace baseline = flat({"aten::a", "aten::b", "aten::c", "aten::d"});
  Trace candidate("run");
  candidate.tensor("x", {1, 2, 3}).tensor("y", {1, 2, 4});
  candidate.op("aten::a", {"x"}, {"x"}).op("aten::new", {"x"}, {"x"}).op("aten::b", {"x"}, {"y"});
  candidate.op("aten::newer", {"x"}, {"x"}).op("aten::c", {"x"}, {"x"}).op("aten::d", {"x"}, {"x"});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.alignment.position == 3);
  CHECK(report.alignment.lcs == 1);
  CHECK(report.alignment.work <= report.alignment.work_limit);
  CHECK_FALSE(report.alignment.gave_up);
  REQUIRE(report.divergences.size() == 2);
  CHECK(report.divergences.front().matched_by == MatchedBy::kLcs);
  CHECK(report.divergences.back().matched_by == MatchedBy::kNone);
}

}  // namespace
}  // namespace repro_check::comparators::alignment_test
