// SPDX-License-Identifier: Apache-2.0
// Losses, parameters, gradients and results alone, whatever operators made them.
#include "comparators/runs/numbers.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators {
namespace {

using configs::NumberKind;

/// A training of two steps whose operators are those of the implementation that was chosen.
class Training {
 public:
  explicit Training(const std::string& run, std::vector<std::string> operators = {"aten::mul"})
      : trace_(run), operators_(std::move(operators)) {
    for (const char* name : {"x", "loss", "w", "grad", "moment", "hidden", "result"}) {
      trace_.tensor(name, {1, 2, 3});
    }
  }

  Training& tensor(const std::string& name, const ordered_json& values) {
    trace_.tensor(name, values);
    return *this;
  }
  Training& step(int step, const ordered_json& left = kLeft) {
    for (const std::string& name : operators_) {
      trace_.op(name, {"x"}, {"hidden"}, {{"step", step}, {"module", operators_.front()}});
    }
    values("repro_check::loss", {{"loss", "loss"}}, step);
    values("repro_check::optimizer_step", left, step);
    return *this;
  }
  Training& reads(const std::string& tensor, int step) {
    values("repro_check::read", {{"tensor", tensor}}, step);
    return *this;
  }
  Trace& trace() noexcept { return trace_; }

  static inline const ordered_json kLeft{
      {"grad.w", "grad"}, {"state.w.exp_avg", "moment"}, {"param.w", "w"}};

 private:
  void values(const std::string& name, const ordered_json& held, int step) {
    trace_.op(name, {}, {}, {{"returned", held}, {"step", step}});
  }

  Trace trace_;
  std::vector<std::string> operators_;
};

Training healthy(const std::string& run, const std::vector<std::string>& operators) {
  Training training(run, operators);
  training.step(0).step(1);
  return training;
}

Report by_numbers(Training& baseline,
                  Training& candidate,
                  const std::vector<NumberKind>& kinds = {},
                  CompareOptions options = {}) {
  options.spec.numbers = kinds;
  return compare_traces(baseline.trace(), candidate.trace(), options);
}

const std::vector<std::string> kEager{"aten::mul", "aten::softmax", "aten::mul"};
const std::vector<std::string> kFused{"aten::scaled_dot_product_attention"};

std::string first_slot(const Report& report) {
  REQUIRE(report.first_divergence);
  REQUIRE(!report.first_divergence->outputs.empty());
  const TensorComparison& output = report.first_divergence->outputs.front();
  return output.baseline.slot.empty() ? output.candidate.slot : output.baseline.slot;
}

TEST_CASE("the same numbers by other operators pass, and the operators are counted") {
  Training eager = healthy("eager", kEager);
  Training fused = healthy("fused", kFused);
  CHECK(compare_traces(eager.trace(), fused.trace()).status == Status::kDiverged);
  const Report report = by_numbers(eager, fused);
  CHECK(report.status == Status::kReproducible);
  CHECK(exit_code_of(report) == core::ExitCode::kReproducible);
  CHECK(report.origins_total == 0);
  REQUIRE(report.numbers);
  CHECK(report.numbers->steps == 2);
  CHECK(report.numbers->judged == std::vector{NumberKind::kLosses,
                                              NumberKind::kParameters,
                                              NumberKind::kGradients,
                                              NumberKind::kState});
  CHECK(report.numbers->not_recorded == std::vector{NumberKind::kResults});
  REQUIRE(report.numbers->operators);
  const ChangedOperators& operators = *report.numbers->operators;
  CHECK(operators.baseline == 6);
  CHECK(operators.candidate == 2);
  CHECK(operators.differing == 0);
  CHECK(operators.baseline_only == 6);
  CHECK(operators.candidate_only == 2);
  CHECK(operators.total() == 8);
  CHECK(operators.first_index == 0U);
  REQUIRE(operators.kinds_baseline.size() == 2);
  CHECK(operators.kinds_baseline.front().name == "aten::mul");
  CHECK(operators.kinds_baseline.front().calls == 4);
}

TEST_CASE("operators that give other results are counted, and not judged") {
  Training one = healthy("one", kEager);
  Training other = healthy("other", kEager);
  other.tensor("hidden", {1, 2, 4});
  const Report report = by_numbers(one, other);
  CHECK(report.status == Status::kReproducible);
  CHECK(report.numbers->operators->differing == 6);
  CHECK(report.numbers->operators->total() == 6);
}

TEST_CASE("the first step and name that differ are named, gradients before what they lead to") {
  Training one = healthy("one", kEager);
  Training other("other", kFused);
  other.tensor("late", {1, 2, 3.5}).tensor("moved", {1, 2, 5});
  other.step(0).step(1, {{"grad.w", "late"}, {"state.w.exp_avg", "moved"}, {"param.w", "moved"}});
  const Report report = by_numbers(one, other);
  CHECK(report.status == Status::kDiverged);
  CHECK(exit_code_of(report) == core::ExitCode::kDivergence);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline.step == 1);
  CHECK(report.first_divergence->relation == Relation::kPropagated);
  CHECK(first_slot(report) == "grad.w");
  REQUIRE(report.first_divergence->outputs.front().metrics);
  CHECK(report.first_divergence->outputs.front().metrics->max_abs == 0.5);
  CHECK(report.first_divergence->outputs.size() == 3);
  CHECK(report.coverage.origins == 0);
}

TEST_CASE("a kind that is asked for is judged alone") {
  Training one = healthy("one", kEager);
  Training other("other", kEager);
  other.tensor("late", {1, 2, 3.5});
  other.step(0).step(1, {{"grad.w", "late"}, {"state.w.exp_avg", "moment"}, {"param.w", "w"}});
  CHECK(by_numbers(one, other, {NumberKind::kGradients}).status == Status::kDiverged);
  const Report report = by_numbers(one, other, {NumberKind::kLosses, NumberKind::kParameters});
  CHECK(report.status == Status::kReproducible);
  CHECK(report.coverage.tensors == 4);
}

TEST_CASE("what is asked for and was not recorded is not comparable") {
  Training one = healthy("one", kEager);
  Training other = healthy("other", kFused);
  const Report report = by_numbers(one, other, {NumberKind::kLosses, NumberKind::kResults});
  CHECK(report.status == Status::kNotComparable);
  CHECK(exit_code_of(report) == core::ExitCode::kNotComparable);
  CHECK(report.numbers->lacks_named());
  // What was recorded and differs weighs more.
  other.tensor("loss", {1, 2, 4});
  const Report apart = by_numbers(one, other, {NumberKind::kLosses, NumberKind::kResults});
  CHECK(apart.status == Status::kDiverged);
  CHECK(apart.also == std::vector{Status::kNotComparable});
}

TEST_CASE("without a step and without a result there is nothing to compare") {
  Trace one = chain("one", {"aten::mul"});
  Trace other = chain("other", {"aten::mul"});
  CompareOptions options;
  options.spec.numbers.emplace();
  const Report report = compare_traces(one, other, options);
  CHECK(report.status == Status::kNothingCompared);
  CHECK(exit_code_of(report) == core::ExitCode::kNotComparable);
  CHECK(report.numbers->judged.empty());
}

TEST_CASE("a step more on one side is no pass") {
  Training one = healthy("one", kEager);
  Training other = healthy("other", kFused);
  other.step(2);
  for (const bool swapped : {false, true}) {
    const Report report = swapped ? by_numbers(other, one) : by_numbers(one, other);
    CHECK(report.status == Status::kDiverged);
    REQUIRE(report.first_divergence);
    CHECK(report.first_divergence->relation == Relation::kMissing);
    CHECK(shown_record(*report.first_divergence).step == 2);
  }
}

TEST_CASE("a parameter that one side does not have is no pass") {
  Training one = healthy("one", kEager);
  Training other("other", kFused);
  other.step(0).step(1, {{"grad.w", "grad"}, {"state.w.exp_avg", "moment"}});
  const Report report = by_numbers(one, other);
  CHECK(report.status == Status::kDiverged);
  CHECK(first_slot(report) == "param.w");
}

TEST_CASE("a kind that one side alone holds is no pass") {
  Training one = healthy("one", kEager);
  Training other("other", kFused);
  const ordered_json plain{{"grad.w", "grad"}, {"param.w", "w"}};
  other.step(0, plain).step(1, plain);
  CHECK(by_numbers(one, other).status == Status::kDiverged);
  // Of these nothing belongs together.
  CHECK(by_numbers(one, other, {NumberKind::kState}).status == Status::kNothingCompared);
}

TEST_CASE("recordings of other depths are judged by what both hold") {
  Training one = healthy("one", kEager);
  Training other("other", kFused);
  const ordered_json borders{{"param.w", "w"}};
  other.step(0, borders).step(1, borders);
  other.trace().manifest()["depth"] = "blocks";
  const Report report = by_numbers(one, other);
  CHECK(report.status == Status::kReproducible);
  CHECK(report.numbers->judged == std::vector{NumberKind::kLosses, NumberKind::kParameters});
  CHECK(!report.numbers->operators);
  CHECK(by_numbers(one, other, {NumberKind::kGradients}).status == Status::kNotComparable);
}

TEST_CASE("what a program saves or turns into numbers is a result") {
  Training one = healthy("one", kEager);
  Training other = healthy("other", kFused);
  one.reads("result", 2);
  other.tensor("rounded", {1, 2, 3.25}).reads("rounded", 2);
  const Report report = by_numbers(one, other);
  CHECK(report.status == Status::kDiverged);
  CHECK(report.numbers->results == 1);
  CHECK(first_slot(report) == "tensor");
}

TEST_CASE("what a model returns is its numbers, where they are judged") {
  Trace one = chain("one", {"aten::mul", "aten::add"});
  Trace other = chain("other", {"aten::addcmul"});
  Trace apart = chain("apart", {"aten::addcmul"});
  apart.tensor("y", {1, 2, 3.5});
  for (Trace* trace : {&one, &other}) trace->tensor("y", {1, 2, 3});
  for (Trace* trace : {&one, &other, &apart}) {
    trace->json()["ops"].push_back({{"returned", {{"out", "y"}}}});
  }
  CompareOptions options;
  options.spec.numbers.emplace();
  const Report report = compare_traces(one, other, options);
  CHECK(report.status == Status::kReproducible);
  CHECK(report.numbers->results == 1);
  CHECK(report.returned.equal == 1);
  CHECK(compare_traces(one, apart, options).status == Status::kDiverged);
  options.spec.numbers = {NumberKind::kLosses};
  const Report losses = compare_traces(one, apart, options);
  CHECK(losses.status == Status::kNotComparable);
  CHECK(losses.returned.compared == 0);
}

TEST_CASE("a policy judges the values of numbers") {
  Training one = healthy("one", kEager);
  Training other = healthy("other", kFused);
  other.tensor("grad", {1, 2, 3.0001});
  CompareOptions options;
  options.spec.policy.kind = configs::PolicyKind::kTolerance;
  options.spec.policy.rtol = 1e-3;
  options.spec.policy.atol = 0;
  const Report report = by_numbers(one, other, {}, options);
  CHECK(report.status == Status::kReproducible);
  CHECK(report.coverage.within_policy == 2);
}

}  // namespace
}  // namespace repro_check::comparators
