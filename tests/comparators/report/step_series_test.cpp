// SPDX-License-Identifier: Apache-2.0
// What two trainings recorded of their steps, as series.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/comparators/cause/cause_traces.h"

namespace repro_check::comparators::step_series_test {
namespace {

using Kind = StepSeries::Kind;

/// A record of named numbers, and of what follows from them.
void add_values(Trace& trace,
                const std::string& name,
                std::uint32_t step,
                const ordered_json& values,
                const ordered_json& follows = ordered_json::object()) {
  ordered_json extra;
  extra["step"] = step;
  extra["scalars"] = values;
  extra["scalars"].update(follows);
  extra["results"] = ordered_json::array();
  for (const auto& [key, value] : values.items()) extra["results"].push_back(value);
  trace.op("repro_check::" + name, {}, {}, extra);
}

/// @param shift  added to the first sum of every sketch from step 2 on
Trace training(const std::string& run, std::uint32_t steps, double shift) {
  Trace trace = chain(run, {"aten::mul"});
  for (std::uint32_t step = 0; step < steps; ++step) {
    const double parted = step >= 2 ? shift : 0;
    add_values(trace, "loss", step, {{"loss", 1.0 / (step + 1) + parted}});
    add_values(trace, "loss", step, {{"loss", 7.0}});
    add_values(trace,
               "optimizer_step",
               step,
               {{"lr[0]", 0.1}},
               {{"grad_norm", 2.0 + step}, {"param_sketch", {3.0 + parted, 4.0}}});
  }
  return trace;
}

const StepSeries& series_of(const Report& report, Kind kind, std::uint32_t ordinal = 0) {
  for (const StepSeries& series : report.steps) {
    if (series.kind == kind && series.ordinal == ordinal) return series;
  }
  FAIL("there is no such series");
  return report.steps.front();
}

TEST_CASE("numbers of steps stand side by side") {
  Trace baseline = training("baseline", 4, 0);
  Trace candidate = training("candidate", 4, 0.5);
  const Report report = compare_traces(baseline, candidate);
  REQUIRE(report.steps.size() == 5);  // two losses, norm, rate and drift
  const StepSeries& loss = series_of(report, Kind::kLoss);
  CHECK(loss.steps == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(loss.baseline == std::vector<Metric>{1.0, 0.5, 1.0 / 3, 0.25});
  CHECK(loss.candidate == std::vector<Metric>{1.0, 0.5, 1.0 / 3 + 0.5, 0.75});
  CHECK(loss.first_apart == 2);
  CHECK_FALSE(series_of(report, Kind::kLoss, 1).first_apart);
  CHECK(series_of(report, Kind::kGradientNorm).baseline.back() == 5.0);
  CHECK_FALSE(series_of(report, Kind::kLearningRate).first_apart);
  const StepSeries& drift = series_of(report, Kind::kDrift);
  CHECK(drift.first_apart == 2);
  CHECK(drift.candidate == std::vector<Metric>{0.0, 0.0, 0.1, 0.1});  // 0.5 of |(3, 4)|
  CHECK(drift.baseline == std::vector<Metric>(4));
}

TEST_CASE("a sketch decides nothing, and is no note of a divergence") {
  Trace baseline = training("baseline", 4, 0);
  Trace candidate = training("candidate", 4, 0);
  candidate.json()["ops"][3]["scalars"]["param_sketch"] = {9.0, 9.0};
  CHECK(compare_traces(baseline, candidate).status == Status::kReproducible);
  candidate.json()["ops"][3]["scalars"]["lr[0]"] = 0.2;
  candidate.json()["ops"][3]["results"] = {0.2};
  const Report report = compare_traces(baseline, candidate);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->notes == std::vector<std::string>{"lr[0]: 0.1 against 0.2"});
}

TEST_CASE("steps of one run alone have numbers of one run") {
  Trace baseline = training("baseline", 4, 0);
  Trace candidate = training("candidate", 6, 0);
  const Report report = compare_traces(baseline, candidate);
  const StepSeries& loss = series_of(report, Kind::kLoss);
  REQUIRE(loss.steps.size() == 6);
  CHECK(loss.baseline.at(5) == std::nullopt);
  CHECK(loss.candidate.at(5) == 1.0 / 6);
  CHECK_FALSE(loss.first_apart);
}

TEST_CASE("of a long training some steps are kept, and where it parts is known all the same") {
  Trace baseline = training("baseline", 10'000, 0);
  Trace candidate = training("candidate", 10'000, 0);
  candidate.json()["ops"][1 + 3 * 9'001]["scalars"]["loss"] = 5.0;
  candidate.json()["ops"][1 + 3 * 9'001]["results"] = {5.0};
  const Report report = compare_traces(baseline, candidate);
  const StepSeries& loss = series_of(report, Kind::kLoss);
  CHECK(loss.stride == 4);
  CHECK(loss.steps.size() == 2'500);
  CHECK(loss.steps.at(1) == 4);
  CHECK(loss.first_apart == 9'001);
}

TEST_CASE("operators inside of compiled regions are counted among no others") {
  Trace baseline = chain("baseline", {"aten::mul"});
  Trace candidate = chain("candidate", {"aten::mul"});
  for (Trace* trace : {&baseline, &candidate}) {
    for (std::uint32_t step : {0U, 1U}) {
      add_values(*trace, "region_outputs", step, {{"operators", 12.0}, {"output", 0.5}});
    }
  }
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.status == Status::kReproducible);
  CHECK(report.coverage.compared == 3);
  CHECK(report.coverage.fused_baseline == 24);
  CHECK(report.coverage.fused_candidate == 24);
}

}  // namespace
}  // namespace repro_check::comparators::step_series_test
