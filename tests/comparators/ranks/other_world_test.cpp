// SPDX-License-Identifier: Apache-2.0
// One rank of two runs that had other numbers of ranks.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators {
namespace {

/// A training whose operators are another's on every number of ranks.
class Training {
 public:
  explicit Training(int ranks) : trace_("run of " + std::to_string(ranks)), ranks_(ranks) {
    trace_.manifest()["environment"] = {{"distributed.ranks", std::to_string(ranks)}};
    tensor("w", 1);
    tensor("x", 2);
    tensor("loss", 3);
    tensor("other", ranks);
  }

  Training& tensor(const std::string& name, double value) {
    trace_.tensor(name, {value, value});
    return *this;
  }
  Training& begins(const std::string& parameter, const std::string& input, int step = 0) {
    values("repro_check::replica",
           {{parameter, "w"}, {"input[0]", input}, {"buffer.mean", "other"}},
           step);
    return computes(step);
  }
  Training& loses(const std::string& loss, int step) {
    values("repro_check::loss", {{"loss", loss}}, step);
    return computes(step);
  }
  Training& steps(int step) {
    values("repro_check::optimizer_step", {{"grad.w", "other"}, {"param.w", "other"}}, step);
    return *this;
  }
  Trace& trace() noexcept { return trace_; }

 private:
  Training& computes(int step) {
    for (int i = 0; i < ranks_; ++i) trace_.op("aten::mul", {"x"}, {"other"}, {{"step", step}});
    return *this;
  }
  void values(const std::string& name, const ordered_json& held, int step) {
    trace_.op(name, {}, {}, {{"returned", held}, {"step", step}});
  }

  Trace trace_;
  int ranks_;
};

/// Two steps.
Training healthy(int ranks) {
  Training training(ranks);
  training.begins("param.w", "x").loses("loss", 0).steps(0);
  training.begins("param.w", "x", 1).loses("loss", 1).steps(1);
  return training;
}

Report compare_worlds(Training& two, Training& four) {
  return compare_traces(two.trace(), four.trace());
}

using Sentences = std::vector<std::string>;

constexpr const char* kNotAll =
    "the baseline ran on 2 ranks and the candidate on 4 ranks: operators, gradients and what the "
    "optimizer leaves were not compared";

TEST_CASE("what another number of ranks must leave alike is compared, and is no pass") {
  Training two = healthy(2);
  Training four = healthy(4);
  const Report report = compare_worlds(two, four);
  CHECK(report.status == Status::kNotComparable);
  CHECK(exit_code_of(report) == core::ExitCode::kNotComparable);
  CHECK(said(report.reasons) == Sentences{kNotAll,
                                          "compared: 1 parameter before the first step",
                                          "compared: losses of steps 0 to 1"});
  CHECK(report.coverage.baseline_ops == 3);
  CHECK(report.coverage.compared == 3);
  CHECK(report.coverage.tensors == 3);
}

TEST_CASE("parameters that begin otherwise diverge, whatever the number of ranks") {
  Training two = healthy(2);
  Training four = healthy(4);
  four.tensor("w", 1.5);
  const Report report = compare_worlds(two, four);
  CHECK(report.status == Status::kDiverged);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline_index == 0U);
  CHECK(report.divergences_total == 1);
  CHECK(said(report.warnings.front()) == kNotAll);
}

TEST_CASE("a loss that parts names its own operators on both sides") {
  Training two = healthy(2);
  Training four(4);
  four.tensor("late", 3.5);
  four.begins("param.w", "x").loses("loss", 0).steps(0);
  four.begins("param.w", "x", 1).loses("late", 1).steps(1);
  const Report report = compare_worlds(two, four);
  CHECK(report.status == Status::kDiverged);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline.step == 1);
  CHECK(report.first_divergence->baseline_index == 10U);
  CHECK(report.first_divergence->candidate_index == 16U);
  CHECK(report.first_divergence->relation == Relation::kPropagated);
  CHECK(report.origins.empty());
}

TEST_CASE("losses are held against each other for as long as a rank reads the same") {
  Training two = healthy(2);
  Training four(4);
  four.tensor("late", 3.5).tensor("y", 9);
  four.begins("param.w", "x").loses("loss", 0).steps(0);
  four.begins("param.w", "y", 1).loses("late", 1).steps(1);
  Report report = compare_worlds(two, four);
  CHECK(report.status == Status::kNotComparable);
  CHECK(said(report.reasons.at(2)) == "compared: losses of step 0");
  CHECK(said(report.reasons.at(3)) ==
        "not compared: further losses: this rank reads something else in step 1");

  Training unknown(1);
  unknown.loses("loss", 0).steps(0);
  report = compare_worlds(unknown, four);
  CHECK(report.status == Status::kNothingCompared);
  CHECK(said(report.reasons.back()) ==
        "not compared: losses: what this rank reads in step 0 is not known on both sides");

  Training accumulates(4);
  accumulates.begins("param.w", "x").loses("loss", 0).loses("loss", 0).steps(0);
  report = compare_worlds(two, accumulates);
  CHECK(report.status == Status::kNotComparable);
  CHECK(said(report.reasons.at(2)) == "not compared: losses: step 0 has 1 losses against 2");

  Training shorter(4);
  shorter.begins("param.w", "x").loses("loss", 0).steps(0);
  report = compare_worlds(two, shorter);
  CHECK(report.status == Status::kNotComparable);
  CHECK(said(report.reasons.at(3)) == "not compared: further losses: step 1 is on one side alone");
}

TEST_CASE("where nothing is alike, nothing was compared") {
  Training two(2);
  Training four(4);
  two.begins("param.w@0:0/2", "x").steps(0);
  four.begins("param.w@0:0/4", "x").steps(0);
  const Report report = compare_worlds(two, four);
  CHECK(report.status == Status::kNothingCompared);
  CHECK(exit_code_of(report) == core::ExitCode::kNotComparable);
  CHECK(said(report.reasons) ==
        Sentences{kNotAll,
                  "not compared: 1 parameter of which this rank holds a part",
                  "not compared: losses: none were recorded"});
}

}  // namespace
}  // namespace repro_check::comparators
