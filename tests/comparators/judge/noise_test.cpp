// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/noise.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "configs/spec/noise_floors.h"
#include "core/error.h"
#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators::noise_test {
namespace {

using configs::NoiseFloors;
using configs::OutputFloor;
using test_support::source_from_json;

/// One operator that returns `tensor`, as run `name`.
ordered_json run_of(const std::string& name, const ordered_json& tensor) {
  return one_op(name, tensor);
}

ordered_json floats(const ordered_json& values) { return tensor_of("float32", values); }

/// Floors of the first of some runs.
NoiseFloors floors_of(const std::vector<ordered_json>& runs) {
  const auto first = source_from_json(runs.front().dump());
  NoiseMeter meter(*first);
  for (std::size_t i = 1; i < runs.size(); ++i) {
    meter.add(*source_from_json(runs[i].dump()));
  }
  return meter.floors();
}

TEST_CASE("a measurement says how many operators it has looked at") {
  const auto first = source_from_json(run_of("1", floats({3, 4})).dump());
  NoiseMeter meter(*first);
  std::vector<std::uint64_t> told;
  meter.add(*source_from_json(run_of("2", floats({3, 4})).dump()),
            [&](const CompareProgress& progress) {
              CHECK(progress.total == first->op_count());
              told.push_back(progress.done);
            });
  REQUIRE(told.size() == first->op_count() + 1);
  CHECK(told.front() == 0);
  CHECK(told.back() == first->op_count());
  CHECK(std::ranges::is_sorted(told));
}

const OutputFloor& only_floor(const NoiseFloors& floors) {
  return floors.operators.at(0).outputs.at("output 0");
}

CompareOptions by_noise(const NoiseFloors& floors, double factor = 2) {
  CompareOptions options;
  options.spec.policy.kind = configs::PolicyKind::kNoise;
  options.spec.policy.factor = factor;
  options.spec.noise = "noise.jsonl";
  options.noise = std::make_shared<const NoiseFloors>(floors);
  return options;
}

TEST_CASE("the floor is the worst of every run, each measure by itself") {
  // |b| = 5; the second run has the greater norm, the third the greater single error.
  const NoiseFloors floors = floors_of({run_of("1", floats({3, 4})),
                                        run_of("2", floats({3.375, 4.375})),
                                        run_of("3", floats({3, 4.5}))});
  CHECK(floors.runs == 3);
  CHECK(floors.operators.at(0).op == "aten::linear");
  CHECK(floors.operators.at(0).module == "head");
  CHECK(only_floor(floors).l2_rel == doctest::Approx(0.375 * std::sqrt(2.0) / 5).epsilon(1e-15));
  CHECK(only_floor(floors).max_abs == 0.5);
}

TEST_CASE("where the distance is no finite number there is no floor, and no later run makes one") {
  const auto problem_of = [](const ordered_json& other) {
    return only_floor(
               floors_of(
                   {run_of("1", floats({0, 1})), run_of("2", other), run_of("3", floats({0, 1}))}))
        .problem;
  };
  CHECK(problem_of(floats({"nan", 1})) == "some runs have NaN or Inf where others have none");
  CHECK(problem_of(floats({"inf", 1})) == "some runs have NaN or Inf where others have none");
  CHECK(problem_of(floats({0, 1, 2})) == "another dtype, shape or layout in some runs");
  CHECK(problem_of(tensor_of("float64", {0, 1})) == "another dtype, shape or layout in some runs");
  CHECK(problem_of(floats({0, 1})).empty());
  const NoiseFloors zeros = floors_of(
      {run_of("1", floats({0, 0})), run_of("2", floats({0, 1})), run_of("3", floats({0, 0}))});
  CHECK(only_floor(zeros).problem ==
        "all of it is 0 in the first run, or the distance is not finite");
}

TEST_CASE("a run that does not call an operator leaves it without a floor") {
  Trace all("1");
  all.tensor("a", {1}).tensor("b", {2}).op("aten::x", {}, {"a"}).op("aten::y", {"a"}, {"b"});
  Trace less("2");
  less.tensor("a", {1}).op("aten::x", {}, {"a"});
  const NoiseFloors floors = floors_of({all.json(), less.json(), all.json()});
  CHECK(floors.operators.at(0).outputs.at("output 0").problem.empty());
  CHECK(floors.operators.at(1).outputs.at("output 0").problem == "some runs do not call it");
  const NoiseSummary summary = summarise(floors);
  CHECK(summary.operators == 2);
  CHECK(summary.quiet == 1);
  CHECK(summary.noisy == 0);
  CHECK(summary.without_floor == 1);
}

TEST_CASE("what a call returned has a floor, and counts as no operator") {
  const auto returning = [](const std::string& run, double value) {
    Trace trace(run);
    trace.tensor("a", {value}).op("aten::x", {}, {"a"});
    trace.json()["ops"].push_back({{"returned", {{"out", "a"}}}});
    return trace.json();
  };
  const NoiseFloors floors = floors_of({returning("1", 1), returning("2", 2), returning("3", 1)});
  CHECK(floors.operators.at(1).outputs.at("output out").l2_rel == 1);
  const NoiseSummary summary = summarise(floors);
  CHECK(summary.operators == 1);
  CHECK(summary.noisy == 1);
  CHECK(summary.worst == std::vector<std::uint64_t>{0});
}

TEST_CASE("numbers that an operator returns have floors too") {
  const auto returning = [](const std::string& run, const ordered_json& result) {
    Trace trace(run);
    trace.tensor("a", {1}).op("aten::item", {"a"}, {}, {{"results", {result}}});
    return trace.json();
  };
  const NoiseFloors floors =
      floors_of({returning("1", 2.0), returning("2", 2.5), returning("3", 1.75)});
  const OutputFloor& floor = floors.operators.at(0).outputs.at("result 0");
  CHECK(floor.max_abs == 0.5);
  CHECK(floor.l2_rel == 0.25);
  const auto verdict = [&](double candidate) {
    // An element has to be compared for a pass.
    ordered_json left = returning("1", 2.0);
    ordered_json right = returning("c", candidate);
    for (ordered_json* dump : {&left, &right}) {
      (*dump)["ops"].push_back({{"operator", "aten::z"}, {"module", "m"}, {"outputs", {"a"}}});
    }
    NoiseFloors with_both = floors;
    with_both.operators.push_back({"aten::z", "m", {{"output 0", OutputFloor{}}}});
    return compare_json(left, right, by_noise(with_both)).status;
  };
  CHECK(verdict(3.0) == Status::kReproducible);
  CHECK(verdict(3.125) == Status::kDiverged);
  CHECK(floors_of({returning("1", 2), returning("2", 3), returning("3", 2)})
            .operators.at(0)
            .outputs.at("result 0")
            .problem == "the runs returned different values");
}

TEST_CASE("row 52: twice the floor passes, what is beyond it does not") {
  NoiseFloors floors = floors_of({run_of("1", floats({3, 4})),
                                  run_of("2", floats({3, 4.00390625})),
                                  run_of("3", floats({3, 4}))});
  const auto judge = [&](double value) {
    return compare_json(
        run_of("1", floats({3, 4})), run_of("c", floats({3, value})), by_noise(floors));
  };
  const Report within = judge(4.0078125);
  CHECK(within.status == Status::kReproducible);
  CHECK(within.coverage.within_policy == 1);
  const Report beyond = judge(4.01171875);
  REQUIRE(beyond.status == Status::kDiverged);
  const TensorComparison& output = beyond.first_divergence->outputs.at(0);
  REQUIRE(output.noise);
  CHECK(output.noise->times == doctest::Approx(3).epsilon(1e-12));
  CHECK(said_as_one(output.note).starts_with("3 times the noise floor"));
  CHECK(judge(4).status == Status::kReproducible);

  SUBCASE("a floor of 0 asks for equal values") {
    floors = floors_of({run_of("1", floats({3, 4})), run_of("2", floats({3, 4}))});
    floors.runs = 3;
    const Report report = judge(4.000000476837158);
    REQUIRE(report.status == Status::kDiverged);
    CHECK(report.first_divergence->outputs.at(0).noise->times ==
          std::numeric_limits<double>::infinity());
  }
  SUBCASE("NaN in the candidate is beyond every floor") {
    CHECK(
        compare_json(run_of("1", floats({3, 4})), run_of("c", floats({3, "nan"})), by_noise(floors))
            .status == Status::kDiverged);
  }
  SUBCASE("fewer than three runs are no floor") {
    floors.runs = 2;
    CHECK(exit_code_of(judge(4)) == core::ExitCode::kNotComparable);
  }
  SUBCASE("floors of another model are refused") {
    floors.subject.model_digest = std::string(32, '0');
    const Report report = judge(4);
    CHECK(exit_code_of(report) == core::ExitCode::kNotComparable);
    CHECK(said(report.reasons.at(0)).find("another model file") != std::string::npos);
  }
}

TEST_CASE("without a floor what is equal passes, and what differs is unmatched") {
  NoiseFloors floors = floors_of({run_of("1", floats({3, 4})), run_of("2", floats({3, 4}))});
  floors.runs = 3;
  floors.operators.at(0).op = "aten::other";
  const auto judge = [&](double value, configs::Unmatched unmatched) {
    CompareOptions options = by_noise(floors);
    options.spec.unmatched = unmatched;
    return exit_code_of(
        compare_json(run_of("1", floats({3, 4})), run_of("c", floats({3, value})), options));
  };
  using configs::Unmatched;
  CHECK(judge(4, Unmatched::kError) == core::ExitCode::kReproducible);
  CHECK(judge(5, Unmatched::kError) == core::ExitCode::kNotComparable);
  // There is no other policy than noise to fall back to.
  CHECK(judge(5, Unmatched::kPolicy) == core::ExitCode::kNotComparable);
  // All is ignored: nothing was compared.
  CHECK(judge(5, Unmatched::kIgnore) == core::ExitCode::kNotComparable);

  CompareOptions options = by_noise(floors);
  options.spec.rules = {{{}, options.spec.policy}};
  options.spec.policy = {};
  options.spec.policy.kind = configs::PolicyKind::kTolerance;
  options.spec.unmatched = Unmatched::kPolicy;
  const auto by_rule = [&](double value) {
    return exit_code_of(
        compare_json(run_of("1", floats({3, 4})), run_of("c", floats({3, value})), options));
  };
  CHECK(by_rule(4.000000476837158) == core::ExitCode::kReproducible);
  CHECK(by_rule(5) == core::ExitCode::kDivergence);
}

TEST_CASE("a file of floors reads back as it was, and refuses any change") {
  NoiseFloors floors = floors_of(
      {run_of("1", floats({3, 4})), run_of("2", floats({3, 4.1})), run_of("3", floats({3, 4.2}))});
  floors.operators.push_back({"aten::y", "\"\\\n", {{"output 0", {0, 0, "why not"}}}});
  const std::string text = configs::to_noise_text(floors);
  const NoiseFloors read = configs::parse_noise_text(text, "noise.jsonl");
  CHECK(read.runs == floors.runs);
  CHECK(read.subject == floors.subject);
  CHECK(read.operators == floors.operators);
  CHECK(configs::to_noise_text(read) == text);
  for (std::size_t at = 0; at < text.size(); ++at) {
    CAPTURE(at);
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK_THROWS_AS(configs::parse_noise_text(changed, "noise.jsonl"), core::Error);
    CHECK_THROWS_AS(configs::parse_noise_text(text.substr(0, at), "noise.jsonl"), core::Error);
  }
}

}  // namespace
}  // namespace repro_check::comparators::noise_test
