// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators::hidden_steps_test {
namespace {

/// Two steps, before each of which gradients are clipped.
/// @param inside   operators of a step that were recorded
/// @param weights  what each step leaves
Trace training(const std::string& run, const char* optimizer, int inside, double weights) {
  Trace trace(run);
  trace.manifest()["optimizer"] = optimizer;
  trace.tensor("x", {1, 2}).tensor("g", {3, 4}).tensor("w", {weights, 6.0});
  for (int step = 0; step < 2; ++step) {
    const auto of = [&](const char* phase) {
      return ordered_json{{"step", step}, {"phase", phase}};
    };
    trace.op("aten::mul", {"x"}, {"g"}, of("backward"));
    trace.op("aten::clamp_", {"g"}, {"g"}, of("optimizer"));
    trace.op("repro_check::clip_grad", {"g"}, {"g"}, of("optimizer"));
    for (int i = 0; i < inside; ++i) trace.op("aten::add_", {"g"}, {"w"}, of("optimizer"));
    trace.op("repro_check::optimizer_step", {"g"}, {"w"}, of("optimizer"));
  }
  return trace;
}

Report compared(Trace baseline, Trace candidate) { return compare_traces(baseline, candidate); }

bool warns(const Report& report, const std::string& of) {
  return std::ranges::any_of(said(report.warnings), [&](const std::string& warning) {
    return warning.starts_with(of) && warning.find("optimizers' steps") != std::string::npos;
  });
}

TEST_CASE("steps whose operators one recording alone has are compared by what they left") {
  SUBCASE("of the candidate") {
    const Report report = compared(training("a", "state", 0, 5), training("b", "operators", 3, 5));
    CHECK(report.status == Status::kReproducible);
    CHECK(report.coverage.compared == 8);
    CHECK(report.coverage.missing_in_baseline == 0);
    CHECK(warns(report, "6 operators of the candidate"));
  }
  SUBCASE("of the baseline, and what they left differs") {
    const Report report =
        compared(training("a", "operators", 3, 5), training("b", "state", 0, 5.5));
    CHECK(report.status == Status::kDiverged);
    REQUIRE(report.first_divergence);
    CHECK(report.first_divergence->baseline.op->name == "repro_check::optimizer_step");
    CHECK(warns(report, "6 operators of the baseline"));
  }
}

TEST_CASE("recordings made alike must have the same operators in their steps") {
  for (const char* optimizer : {"state", "operators"}) {
    const Report report = compared(training("a", optimizer, 1, 5), training("b", optimizer, 3, 5));
    CHECK(report.status == Status::kDiverged);
    CHECK(report.coverage.missing_in_baseline == 4);
    CHECK(report.warnings.empty());
  }
}

}  // namespace
}  // namespace repro_check::comparators::hidden_steps_test
