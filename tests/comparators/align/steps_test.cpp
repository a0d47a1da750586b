// SPDX-License-Identifier: Apache-2.0
// Steps are aligned before operators are, and operators by their lines where these are known to be
// the same in both runs.
#include "comparators/align/steps.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators {
namespace {

/// A program that trains.
class Training {
 public:
  explicit Training(const std::string& run) : trace_(run) {
    trace_.manifest()["method"] = "program";
    trace_.tensor("x", {1}).tensor("y", {2}).tensor("g", {3}).tensor("w", {4});
  }

  Training& batch(std::uint32_t step) {
    trace_.op("aten::linear", {"x"}, {"y"}, {{"step", step}});
    trace_.op("aten::relu", {"y"}, {"y"}, {{"step", step}});
    trace_.op("aten::mm", {"y"}, {"g"}, {{"step", step}, {"phase", "backward"}});
    return *this;
  }

  Training& steps(std::uint32_t step) {
    trace_.op("repro_check::optimizer_step",
              {"g"},
              {"w"},
              {{"step", step}, {"phase", "optimizer"}, {"source", "train.py:12"}});
    return *this;
  }

  Training& trains(std::uint32_t from, std::uint32_t end) {
    for (std::uint32_t step = from; step < end; ++step) batch(step).steps(step);
    return *this;
  }

  Trace& trace() { return trace_; }

 private:
  Trace trace_;
};

TEST_CASE("a rank for each record costs no more than so many ranks") {
  StepSums sums;
  for (std::uint32_t rank = 0; rank < 5000; ++rank) sums.add({rank, 0}, rank, false);
  sums.add({7, 1}, 1, false);
  CHECK(sums.all().size() == 1025);
  CHECK(sums.ranks().size() == 1024);
  CHECK(sums.all().at({7, 0}).records == 1);
}

TEST_CASE("a step of the optimizer more is named, and what comes after it is paired") {
  Training baseline("baseline");
  Training candidate("candidate");
  baseline.trains(0, 8);
  candidate.trains(0, 5).steps(5).trains(6, 9);
  const Report report = compare_traces(baseline.trace(), candidate.trace());
  CHECK(report.status == Status::kDiverged);
  REQUIRE(report.first_divergence);
  CHECK_FALSE(report.first_divergence->baseline_index);
  CHECK(report.first_divergence->candidate_index == 20);
  CHECK(said(report.first_divergence->cause).name() == "extra");
  CHECK(said(report.first_divergence->cause).evidence.find("train.py:12") != std::string::npos);
  CHECK(report.coverage.missing_in_baseline == 1);
  CHECK(report.coverage.missing_in_candidate == 0);
}

TEST_CASE("a step that one run alone leaves out is named") {
  Training baseline("baseline");
  Training candidate("candidate");
  baseline.trains(0, 8);
  candidate.trains(0, 3).batch(3).trains(3, 7);
  const Report report = compare_traces(baseline.trace(), candidate.trace());
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline_index == 15);
  CHECK(said(report.first_divergence->cause).name() == "missing");
  CHECK(report.coverage.missing_in_candidate == 1);
  CHECK(report.coverage.missing_in_baseline == 0);
}

TEST_CASE("what is done in another step is no step more") {
  const auto evaluates = [](Training& training, std::uint32_t in) {
    for (std::uint32_t step = 0; step < 6; ++step) {
      training.batch(step).steps(step);
      for (int i = 0; step == in && i < 9; ++i) {
        training.trace().op("aten::tanh", {"x"}, {"y"}, {{"step", step}});
      }
    }
  };
  Training baseline("baseline");
  Training candidate("candidate");
  evaluates(baseline, 2);
  evaluates(candidate, 4);
  const Report report = compare_traces(baseline.trace(), candidate.trace());
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline.op->name == "aten::tanh");
  CHECK(report.coverage.missing_in_candidate == 9);
  CHECK(report.coverage.missing_in_baseline == 9);
}

TEST_CASE("runs that have no step in common are no steps more") {
  Training baseline("baseline");
  Training candidate("candidate");
  baseline.trains(0, 4);
  for (std::uint32_t step = 0; step < 4; ++step) {
    candidate.trace().op("aten::mul", {"x"}, {"y"}, {{"step", step}, {"phase", "backward"}});
    candidate.steps(step);
  }
  const Report report = compare_traces(baseline.trace(), candidate.trace());
  CHECK(report.coverage.missing_in_candidate == 12);
  CHECK(report.coverage.missing_in_baseline == 4);
}

/// Copies of the forms 1, 2 and 3 at line 67, and one of the form 4 at line 49 before or after.
Trace copies(const std::string& run, bool is_before, int shift = 0) {
  Trace trace(run);
  trace.manifest()["method"] = "program";
  trace.tensor("x", {1});
  const auto copy = [&](int size, int line) {
    const std::string name = numbered("t", static_cast<std::size_t>(size));
    trace.tensor(name, std::vector<int>(static_cast<std::size_t>(size), 1));
    trace.op("aten::copy_",
             {"x"},
             {name},
             {{"source", "train.py:" + std::to_string(line + shift)}, {"module", ""}});
  };
  for (int i = 0; i < 30; ++i) {
    trace.op("aten::neg", {"x"}, {"x"}, {{"source", "train.py:" + std::to_string(20 + shift)}});
  }
  if (is_before) copy(4, 49);
  for (const int size : {1, 2, 3}) copy(size, 67);
  if (!is_before) copy(4, 49);
  return trace;
}

TEST_CASE("operators of two lines and forms are no pair") {
  Trace baseline = copies("baseline", false);
  Trace candidate = copies("candidate", true);
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.coverage.mismatched == 0);
  REQUIRE(report.first_divergence);
  CHECK(said(report.first_divergence->cause).name() == "reordered");
  CHECK(report.first_divergence->candidate_index == 30);
}

TEST_CASE("of a program that was edited lines say nothing") {
  Trace baseline = copies("baseline", false);
  Trace candidate = copies("candidate", false, 1);
  CHECK(compare_traces(baseline, candidate).status == Status::kReproducible);
}

}  // namespace
}  // namespace repro_check::comparators
