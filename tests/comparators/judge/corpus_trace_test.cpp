// SPDX-License-Identifier: Apache-2.0
// The fault corpus of the comparison reference: rows about several operators, and where control
// flow parts.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators::corpus_trace_test {
namespace {

using Names = std::vector<std::string>;

Report compare_chains(const Names& from, const Names& to, const CompareOptions& options = {}) {
  Trace baseline = chain("baseline", from);
  Trace candidate = chain("candidate", to);
  return compare_traces(baseline, candidate, options);
}

TEST_CASE("row 36: a missing operator and an extra one") {
  const Report report = compare_chains({"aten::a", "aten::relu", "aten::b", "aten::c"},
                                       {"aten::a", "aten::b", "aten::c", "aten::tail"},
                                       tolerance());
  CHECK(exit_of(report) == 1);
  CHECK(report.kind == DivergenceKind::kMissing);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->relation == Relation::kMissing);
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK_FALSE(report.first_divergence->candidate_index);
  CHECK(said(report.first_divergence->cause).name() == "missing");
  CHECK(report.divergences_total == 2);
  REQUIRE(report.divergences.size() == 1);
  CHECK(report.divergences[0].candidate_index == 3);
  CHECK(said(report.divergences[0].cause).name() == "extra");
  CHECK(report.coverage.missing_in_candidate == 1);
  CHECK(report.coverage.missing_in_baseline == 1);
  CHECK(report.coverage.equal == 3);
  REQUIRE(report.control_flow);
  CHECK(report.control_flow->rejoined);
  CHECK(report.control_flow->last_common_baseline == 0);
  CHECK(report.control_flow->baseline_next == "aten::relu");
  CHECK(report.control_flow->candidate_next == "aten::b");
}

TEST_CASE("row 37: an operator replaced by another") {
  const Report report = compare_chains({"aten::a", "aten::add.Tensor", "aten::b"},
                                       {"aten::a", "aten::add.Scalar", "aten::b"});
  CHECK(exit_of(report) == 1);
  CHECK(report.kind == DivergenceKind::kMismatch);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->relation == Relation::kMismatch);
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK(report.first_divergence->candidate_index == 1);
  CHECK(said(report.first_divergence->cause).name() == "operator differs");
  CHECK(report.divergences_total == 1);
}

TEST_CASE("row 38: the same operators in another order") {
  const Report report = compare_chains({"aten::q", "aten::k", "aten::v", "aten::end"},
                                       {"aten::k", "aten::q", "aten::v", "aten::end"});
  CHECK(exit_of(report) == 1);
  REQUIRE(report.first_divergence);
  CHECK(said(report.first_divergence->cause).name() == "reordered");
  REQUIRE_FALSE(report.reasons.empty());
  CHECK(said(report.reasons.front()).find("another order") != std::string::npos);
}

TEST_CASE("row 39: a composite against its parts") {
  const Report report = compare_chains({"aten::a", "aten::linear", "aten::b"},
                                       {"aten::a", "aten::t", "aten::addmm", "aten::b"});
  CHECK(exit_of(report) == 1);
  REQUIRE(report.first_divergence);
  CHECK(said(report.first_divergence->cause).name() == "decomposed");
  CHECK(said(report.first_divergence->cause).evidence.find("their outputs are bit-equal") !=
        std::string::npos);
}

TEST_CASE("row 40: a loop that ran once more") {
  Names from;
  Names to;
  for (int trip = 0; trip < 13; ++trip) {
    for (const char* name : {"aten::mul", "aten::add"}) {
      if (trip < 12) from.emplace_back(name);
      to.emplace_back(name);
    }
  }
  from.emplace_back("aten::end");
  to.emplace_back("aten::end");
  const Report report = compare_chains(from, to);
  CHECK(exit_of(report) == 1);
  CHECK(report.kind == DivergenceKind::kControlFlow);
  REQUIRE(report.first_divergence);
  CHECK(said(report.first_divergence->cause).name() == "loop");
  CHECK(said(report.first_divergence->cause).evidence.find("ran 12 against 13 times") !=
        std::string::npos);
  CHECK(report.first_divergence->candidate_index == 24);
  CHECK(report.coverage.equal == 25);
}

TEST_CASE("row 41: what diverged before the streams parted comes first") {
  Trace baseline = chain("baseline", {"aten::a", "aten::b", "aten::c", "aten::d", "aten::e"});
  Trace candidate = chain("candidate", {"aten::a", "aten::b", "aten::c", "aten::x", "aten::y"});
  candidate.tensor("t1", {7, 8, 10});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.kind == DivergenceKind::kOrigin);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  REQUIRE(report.control_flow);
  CHECK_FALSE(report.control_flow->rejoined);
  REQUIRE_FALSE(report.divergences.empty());
  const OpDivergence& parting = report.divergences.front();
  CHECK(parting.kind == DivergenceKind::kControlFlow);
  CHECK(said(parting.cause).evidence.find("a consequence of op 1 aten::b") != std::string::npos);
}

TEST_CASE("row 42: the middle of a loop is missing") {
  const Report report = compare_chains(
      {"aten::A",
       "aten::B",
       "aten::C",
       "aten::A",
       "aten::B",
       "aten::C",
       "aten::A",
       "aten::B",
       "aten::C"},
      {"aten::A", "aten::B", "aten::C", "aten::A", "aten::C", "aten::A", "aten::B", "aten::C"});
  CHECK(report.kind == DivergenceKind::kMissing);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline_index == 4);
  CHECK(report.first_divergence->occurrence == 1);
  CHECK(report.coverage.compared == 8);
}

TEST_CASE("row 40 with a branch: the streams part and say what was answered") {
  Trace baseline = chain("baseline", {"aten::a"});
  Trace candidate = chain("candidate", {"aten::a"});
  baseline.op("aten::gt", {"t0"}, {}, {{"results", {true}}});
  candidate.op("aten::gt", {"t0"}, {}, {{"results", {false}}});
  baseline.op("aten::slice", {"t0"}, {"t0"}).op("aten::mul", {"t0"}, {"t0"});
  candidate.op("aten::cat", {"t0"}, {"t0"}).op("aten::sin", {"t0"}, {"t0"});
  const Report report = compare_traces(baseline, candidate);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK(report.first_divergence->notes == Names{"result 0: True against False"});
  CHECK(report.kind == DivergenceKind::kOrigin);
  REQUIRE(report.control_flow);
  CHECK(report.control_flow->baseline_next == "aten::slice");
  CHECK(report.control_flow->candidate_next == "aten::cat");
  REQUIRE_FALSE(report.divergences.empty());
  CHECK(said(report.divergences.front().cause).evidence.find("aten::gt (m) said True | False") !=
        std::string::npos);
}

TEST_CASE("row 40: what ended a loop is said with it") {
  Trace baseline = chain("baseline", {"aten::a"});
  Trace candidate = chain("candidate", {"aten::a"});
  const auto turns = [](Trace& trace, int count) {
    for (int turn = 1; turn <= count; ++turn) {
      trace.op("aten::mul", {"t0"}, {"t0"}).op("aten::sin", {"t0"}, {"t0"});
      trace.op("aten::is_nonzero", {"t0"}, {}, {{"results", {turn < count}}});
    }
    trace.op("aten::end", {"t0"}, {"t0"});
  };
  turns(baseline, 3);
  turns(candidate, 4);
  const Report report = compare_traces(baseline, candidate);
  const auto loop = std::ranges::find_if(
      report.divergences, [](const OpDivergence& op) { return said(op.cause).name() == "loop"; });
  REQUIRE(loop != report.divergences.end());
  CHECK(said(loop->cause).evidence.find("ran 3 against 4 times") != std::string::npos);
  CHECK(said(loop->cause).evidence.find("aten::is_nonzero (m) said False | True") !=
        std::string::npos);
}

TEST_CASE("a recording that stopped storing bytes is said to have done so") {
  Trace baseline = chain("baseline", {"aten::a", "aten::b"});
  Trace candidate = chain("candidate", {"aten::a", "aten::b"});
  candidate.manifest()["bytes_limit_reached_at"] = 1;
  candidate.json()["ops"][1]["stored"] = false;
  const Report report = compare_traces(baseline, candidate, {});
  CHECK(exit_of(report) == 0);
  REQUIRE(report.warnings.size() == 1);
  CHECK(said(report.warnings.front())
            .starts_with("the candidate stored no bytes beyond dump.max_bytes, "
                         "from op 1 on (2 tensors): there digests"));

  // A window leaves out others, and which of them the limit did is not known.
  candidate.manifest()["keep_ops"] = ordered_json::parse("[[0, 1]]");
  const Report window = compare_traces(baseline, candidate, {});
  REQUIRE(window.warnings.size() == 1);
  CHECK(
      said(window.warnings.front())
          .starts_with(
              "the candidate stored no bytes beyond dump.max_bytes, from op 1 on: there digests"));
}

TEST_CASE("L5: the sums hold, and the lists are bounded") {
  Trace baseline = chain("baseline", Names(40, "aten::a"));
  Trace candidate = chain("candidate", Names(40, "aten::a"));
  for (std::size_t i = 5; i < 40; ++i) candidate.tensor(numbered("t", i), {1, 1, 1});
  CompareOptions few;
  few.max_items = 3;
  few.max_samples = 2;
  const Report report = compare_traces(baseline, candidate, few);
  CHECK(report.divergences_total == 35);
  CHECK(report.divergences.size() == 3);
  CHECK(report.coverage.diverged == 35);
  CHECK(report.coverage.origins == 1);
  CHECK(report.coverage.propagated == 34);
  CHECK(report.first_divergence->outputs.front().samples.size() == 2);
  CHECK(report.first_divergence->occurrence == 5);
}

TEST_CASE("L4: swapping the sides keeps the exit code under bitwise") {
  const std::vector<std::pair<Names, Names>> pairs{
      {{"aten::a", "aten::b"}, {"aten::a"}},
      {{"aten::a", "aten::b", "aten::c"}, {"aten::c", "aten::b", "aten::a"}},
      {{"aten::a"}, {"aten::b"}},
      {{"aten::a", "aten::b"}, {"aten::a", "aten::b"}}};
  for (const auto& [left, right] : pairs) {
    CHECK(exit_of(compare_chains(left, right)) == exit_of(compare_chains(right, left)));
  }
}

}  // namespace
}  // namespace repro_check::comparators::corpus_trace_test
