// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators::resume_test {
namespace {

/// What two small runs say of a loss scale and of a generator; the generator as a number.
struct Told {
  ordered_json saved = {{"saved['scale']", 2.0}, {"saved['random']", 7.0}};
  ordered_json loaded = {{"loaded['scale']", 2.0}, {"loaded['random']", 7.0}};
  double restored = 7;  ///< the generator
  double random = 7;    ///< at its first use in the resumed run
  double scale = 2;
  double random_at_end = 9;  ///< of both runs
  std::string extra;         ///< an operator that the resumed run has alone
  std::uint32_t extra_step = 0;
};

class Run {
 public:
  explicit Run(const std::string& name) : trace_(name) {
    trace_.tensor("x", {1, 2}).tensor("y", {3});
  }

  Run& says(const std::string& moment, const ordered_json& numbers, std::uint32_t step = 0) {
    trace_.op("repro_check::checkpoint_" + moment, {}, {}, {{"scalars", numbers}, {"step", step}});
    return *this;
  }

  Run& runs(const std::string& name, std::uint32_t step) {
    trace_.op(name, {"x"}, {"y"}, {{"step", step}});
    return *this;
  }

  Trace& trace() { return trace_; }

 private:
  Trace trace_;
};

Report compare_resumed(const Told& told) {
  Run whole("whole");
  whole.runs("aten::first", 0)
      .says("saved", told.saved, 1)
      .says("at_save", {{"generator.random", 7.0}, {"scaler[0]['scale']", 2.0}}, 1)
      .says("at_forward", {{"generator.random", 7.0}}, 1)
      .runs("aten::b", 1)
      .says("at_step", {{"scaler[0]['scale']", 2.0}}, 1)
      .runs("aten::c", 2)
      .says("at_end", {{"generator.random", told.random_at_end}}, 2);
  Run resumed("resumed");
  resumed.runs("aten::setup", 0)
      .says("loaded", told.loaded)
      .says("restored", {{"generator.random", told.restored}})
      .says("at_forward", {{"generator.random", told.random}});
  if (!told.extra.empty() && told.extra_step == 0) resumed.runs(told.extra, 0);
  resumed.runs("aten::b", 0).says("at_step", {{"scaler[0]['scale']", told.scale}});
  if (!told.extra.empty() && told.extra_step == 1) resumed.runs(told.extra, 1);
  resumed.runs("aten::c", 1)
      .says("at_end", {{"generator.random", told.random_at_end + told.random - 7}}, 1);
  CompareOptions options;
  options.spec.resume = true;
  return compare_traces(whole.trace(), resumed.trace(), options);
}

Restored outcome_of(const Report& report, StateKind kind) {
  for (const RestoredState& state : report.resume->states) {
    if (state.kind == kind) return state.outcome;
  }
  FAIL("no such state");
  return Restored::kNotProven;
}

TEST_CASE("a resumed run is compared from its first use of the checkpoint on") {
  const Report report = compare_resumed({});
  CHECK(report.status == Status::kReproducible);
  REQUIRE(report.resume);
  CHECK(report.resume->step == 1);
  CHECK(report.resume->files == 1);
  CHECK(report.resume->leading() == nullptr);
  CHECK(report.coverage.baseline_ops == 2);
  CHECK(report.coverage.equal == 2);
  CHECK(outcome_of(report, StateKind::kPythonGenerator) == Restored::kRight);
  CHECK(outcome_of(report, StateKind::kLossScale) == Restored::kRight);
}

TEST_CASE("each state that parts has its word, also where no operator parts") {
  Told told;
  told.scale = 1;
  Report report = compare_resumed(told);
  CHECK(report.status == Status::kDiverged);
  CHECK(report.kind == DivergenceKind::kRestore);
  CHECK_FALSE(report.first_divergence);
  CHECK(outcome_of(report, StateKind::kLossScale) == Restored::kNotLoaded);
  CHECK(said_as_one(report.resume->leading()->detail) == "2 against 1");

  told.saved = {{"saved['random']", 7.0}, {"saved['other']", 2.0}};
  told.loaded = {{"loaded['random']", 7.0}, {"loaded['other']", 2.0}};
  CHECK(outcome_of(compare_resumed(told), StateKind::kLossScale) == Restored::kNotSaved);

  told = {};
  told.random = 8;
  report = compare_resumed(told);
  CHECK(report.status == Status::kDiverged);
  CHECK(outcome_of(report, StateKind::kPythonGenerator) == Restored::kUsedUp);
  told.restored = 3;
  CHECK(outcome_of(compare_resumed(told), StateKind::kPythonGenerator) == Restored::kNotLoaded);
}

TEST_CASE("a run that resumed on another number of ranks is not judged by the parts of one") {
  Run whole("whole");
  whole.says("saved", {{"saved['random']", 7.0}}, 1)
      .says("at_forward", {{"count.weight@0:0/2.step", 7.0}}, 1)
      .runs("aten::b", 1);
  Run resumed("resumed");
  resumed.says("loaded", {{"loaded['random']", 7.0}})
      .says("at_forward", {{"count.weight@0:0/4.step", 7.0}})
      .runs("aten::b", 0);
  whole.trace().manifest()["environment"] = {{"distributed.ranks", "2"}};
  resumed.trace().manifest()["environment"] = {{"distributed.ranks", "4"}};
  CompareOptions options;
  options.spec.resume = true;
  const Report report = compare_traces(whole.trace(), resumed.trace(), options);
  CHECK(report.status == Status::kNotComparable);
  REQUIRE_FALSE(report.reasons.empty());
  CHECK(said(report.reasons.front()).find("2 ranks and the resumed one 4 ranks") !=
        std::string::npos);
}

/// A resumed run whose steps agree, and in which one operator makes other numbers.
Report compare_running(std::int64_t elements, const std::string& name) {
  Run whole("whole");
  Run resumed("resumed");
  for (Run* run : {&whole, &resumed}) {
    std::vector<double> sums(static_cast<std::size_t>(elements), run == &whole ? 3.0 : 1.0);
    run->trace().tensor("sum", sums);
  }
  whole.says("saved", {{"saved['random']", 7.0}}, 1);
  resumed.says("loaded", {{"loaded['random']", 7.0}});
  for (const std::uint32_t step : {1U, 2U}) {
    whole.says("at_forward", {{"generator.random", 7.0}}, step);
    whole.trace().op("repro_check::optimizer_step", {}, {"y"}, {{"step", step}});
    whole.trace().op(name, {"x"}, {"sum"}, {{"step", step}});
    resumed.says("at_forward", {{"generator.random", 7.0}}, step - 1);
    resumed.trace().op("repro_check::optimizer_step", {}, {"y"}, {{"step", step - 1}});
    resumed.trace().op(name, {"x"}, {"sum"}, {{"step", step - 1}});
  }
  CompareOptions options;
  options.spec.resume = true;
  return compare_traces(whole.trace(), resumed.trace(), options);
}

TEST_CASE("a running number that the checkpoint does not hold is no divergence of the training") {
  const Report report = compare_running(1, "aten::add_");
  CHECK(report.status == Status::kNotComparable);
  REQUIRE_FALSE(report.reasons.empty());
  CHECK(said(report.reasons.front()).find("began anew") != std::string::npos);
  CHECK(compare_running(2, "aten::add_").status == Status::kDiverged);
  CHECK(compare_running(1, "repro_check::loss").status == Status::kDiverged);
}

Report compare_states(const ordered_json& saved,
                      const ordered_json& here,
                      const ordered_json& there,
                      const char* use = "at_step") {
  Run whole("whole");
  whole.says("saved", saved, 1).says("at_forward", {{"loader.position", 1.0}}, 1);
  if (use == std::string("at_backward")) whole.says(use, here, 1);
  whole.says("at_step", here, 1).runs("aten::c", 2);
  Run resumed("resumed");
  resumed.says("loaded", saved).says("restored", saved);
  resumed.says("at_forward", {{"loader.position", 1.0}});
  if (use == std::string("at_backward")) resumed.says(use, there);
  resumed.says("at_step", there).runs("aten::c", 1);
  CompareOptions options;
  options.spec.resume = true;
  return compare_traces(whole.trace(), resumed.trace(), options);
}

TEST_CASE("what was restored for another parameter is at another's place") {
  const ordered_json saved = {{"saved['state'][0]['step']", 5.0}};
  const Report report =
      compare_states(saved, {{"count.weight.step", 5.0}}, {{"count.group0.0.step", 5.0}});
  CHECK(outcome_of(report, StateKind::kStepCount) == Restored::kMisplaced);
  CHECK(said_as_one(report.resume->leading()->detail) ==
        "which is count.group0.0.step in the resumed run");
}

TEST_CASE(
    "gradients that were added up before the checkpoint count where the step is made of them") {
  const ordered_json held = {{"gradient.weight", 2.0}};
  const ordered_json saved = {{"saved['other']", 1.0}};
  const Report lost = compare_states(saved, held, {{"gradient.weight", 1.0}}, "at_backward");
  CHECK(outcome_of(lost, StateKind::kGradients) == Restored::kNotSaved);
  const Report kept = compare_states(saved, held, held, "at_backward");
  CHECK(outcome_of(kept, StateKind::kGradients) == Restored::kRight);
}

TEST_CASE("what nothing used afterwards is no divergence") {
  Told told;
  told.random = 8;
  told.random_at_end = 7;
  const Report report = compare_resumed(told);
  CHECK(report.status == Status::kReproducible);
  CHECK(outcome_of(report, StateKind::kPythonGenerator) == Restored::kNotProven);
}

TEST_CASE("operators that a new process needs in its first step are set aside, no others") {
  Told told;
  told.extra = "aten::full";
  const Report first = compare_resumed(told);
  CHECK(first.status == Status::kReproducible);
  CHECK(first.resume->first_calls == 1);
  told.extra_step = 1;
  const Report second = compare_resumed(told);
  CHECK(second.status == Status::kDiverged);
  CHECK(second.coverage.missing_in_baseline == 1);
  REQUIRE(second.first_divergence);
  CHECK(second.first_divergence->candidate.step == 2);  // of the baseline's
}

/// One training, and one that resumed, each with a root module made anew in every step.
struct Trainings {
  Run whole{"whole"};
  Run resumed{"resumed"};

  Trainings() {
    step(whole, 0, "CrossEntropyLoss");
    whole.says("saved", {{"saved['i']", 7.0}}, 1).says("at_forward", {{"loader.position", 1.0}}, 1);
    step(whole, 1, "CrossEntropyLoss#2");
    step(whole, 2, "CrossEntropyLoss#3");
    resumed.says("loaded", {{"loaded['i']", 7.0}}).says("at_forward", {{"loader.position", 1.0}});
    step(resumed, 0, "CrossEntropyLoss");
    step(resumed, 1, "CrossEntropyLoss#2");
  }

  static void step(Run& run, std::uint32_t step, const std::string& module) {
    run.trace().op("aten::loss", {"x"}, {"y"}, {{"step", step}, {"module", module}});
    run.trace().op(
        "repro_check::optimizer_step", {}, {}, {{"scalars", {{"lr[0]", 0.5}}}, {"step", step}});
  }

  Report compare() {
    CompareOptions options;
    options.spec.resume = true;
    return compare_traces(whole.trace(), resumed.trace(), options);
  }
};

TEST_CASE("root modules are numbered from where the two runs meet") {
  const Report report = Trainings().compare();
  CHECK(report.status == Status::kReproducible);
  CHECK(report.coverage.missing_in_baseline + report.coverage.missing_in_candidate == 0);
}

TEST_CASE("what one run alone does behind the last step is left out, and that is said") {
  for (const bool of_whole : {true, false}) {
    Trainings trainings;
    (of_whole ? trainings.whole : trainings.resumed).runs("aten::evaluate", of_whole ? 3 : 2);
    const Report report = trainings.compare();
    CHECK(report.status == Status::kReproducible);
    CHECK(said(report.warnings.back()).find("1 operator") != std::string::npos);
  }
  Trainings both;
  both.whole.runs("aten::evaluate", 3);
  both.resumed.runs("aten::test", 2);
  CHECK(both.compare().status == Status::kDiverged);
}

TEST_CASE("of two runs of which one makes more steps those that both made are compared") {
  Trainings longer;
  Trainings::step(longer.whole, 3, "CrossEntropyLoss#4");
  longer.resumed.runs("aten::evaluate", 2);
  CHECK(longer.compare().status == Status::kReproducible);
  Trainings other;
  Trainings::step(other.resumed, 2, "CrossEntropyLoss#3");
  CHECK(other.compare().status == Status::kReproducible);
  other.resumed.trace().json()["ops"][4]["outputs"] = {"x"};  // of the last step in common
  CHECK(other.compare().status == Status::kDiverged);
}

TEST_CASE("what was loaded must be what the baseline saved") {
  Told told;
  told.loaded["loaded['scale']"] = 3.0;
  const Report report = compare_resumed(told);
  CHECK(report.status == Status::kNotComparable);
  CHECK_FALSE(report.resume);
}

TEST_CASE("records of checkpoints pair in no comparison") {
  Run one("one");
  one.runs("aten::a", 0).says("saved", {{"saved['time']", 1.0}});
  Run other("other");
  other.runs("aten::a", 0).says("saved", {{"saved['time']", 2.0}});
  const Report report = compare_traces(one.trace(), other.trace());
  CHECK(report.status == Status::kReproducible);
  CHECK(report.coverage.compared == 1);
}

}  // namespace
}  // namespace repro_check::comparators::resume_test
