// SPDX-License-Identifier: Apache-2.0
// Two recordings of blocks, by what differs at their borders.
#include "comparators/blocks/blocks.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "comparators/compare.h"
#include "configs/spec/compare_spec.h"
#include "core/tensor/unread.h"
#include "core/trace/program_records.h"
#include "tests/comparators/corpus.h"
#include "tests/comparators/said.h"

namespace repro_check::comparators {
namespace {

using Input = BlockDivergence::Input;
using Kind = BlockDivergence::Kind;

/// A program of two blocks, one behind the other, and one parameter, that makes `steps` steps.
ordered_json program(const std::string& run, std::uint32_t steps = 3) {
  ordered_json dump{{"run", run},
                    {"manifest", {{"depth", "blocks"}, {"level", "digest"}, {"method", "program"}}},
                    {"tensors", ordered_json::object()},
                    {"ops", ordered_json::array()},
                    {"blocks", ordered_json::array()},
                    {"parameters", ordered_json::array()}};
  for (std::uint32_t step = 0; step < steps; ++step) {
    const std::string at = std::to_string(step);
    dump["blocks"].push_back({{"step", step}, {"path", "a"}, {"in", "x" + at}, {"out", "y" + at}});
    dump["blocks"].push_back({{"step", step}, {"path", "b"}, {"in", "y" + at}, {"out", "z" + at}});
    dump["parameters"].push_back({{"step", step}, {"name", "a.weight"}, {"value", "w" + at}});
  }
  return dump;
}

Report against(const ordered_json& candidate) {
  return compare_json(program("baseline"), candidate);
}

const OpDivergence& lead(const Report& report) {
  REQUIRE(report.first_divergence);
  return *report.first_divergence;
}

std::string evidence(const Report& report) {
  std::string keys;
  for (const Phrase& phrase : lead(report).cause.evidence) keys += phrase.key + " ";
  return keys;
}

TEST_CASE("borders and parameters that are equal pass, and no operator is counted") {
  const Report report = against(program("candidate"));
  CHECK(report.status == Status::kReproducible);
  REQUIRE(report.blocks);
  CHECK(report.blocks->blocks == 2);
  CHECK(report.blocks->steps == 3);
  CHECK(report.blocks->compared == 6);
  CHECK(report.blocks->parameters == 3);
  CHECK(report.coverage.compared == 0);
}

TEST_CASE("a block whose input is equal is an origin, one behind it inherits") {
  ordered_json candidate = program("candidate");
  candidate["blocks"][3]["out"] = "other";  // b at step 1
  candidate["blocks"][4]["in"] = "other";   // a at step 2
  candidate["blocks"][4]["out"] = "other";
  const Report report = against(candidate);
  CHECK(report.status == Status::kDiverged);
  CHECK(exit_code_of(report) == core::ExitCode::kDivergence);
  CHECK(report.blocks->differing == 2);
  CHECK(lead(report).relation == Relation::kOrigin);
  CHECK(lead(report).baseline.step == 1);
  CHECK(lead(report).baseline.site->module_path == "b");
  CHECK(evidence(report) == "border-inside border-agreed ");
  CHECK(report.blocks->first->agreed->path == "a");

  candidate = program("candidate");
  candidate["blocks"][0]["in"] = "other";
  candidate["blocks"][0]["out"] = "other";
  const Report inherited = against(candidate);
  CHECK(lead(inherited).relation == Relation::kPropagated);
  CHECK(evidence(inherited) == "border-inherited border-none-agreed ");
}

TEST_CASE("calls are paired by step, block and number, whatever their order") {
  ordered_json candidate = program("candidate");
  std::swap(candidate["blocks"][2], candidate["blocks"][3]);
  CHECK(against(candidate).status == Status::kReproducible);

  candidate = program("candidate");
  candidate["blocks"][2]["call"] = 1;  // another call of a at step 1
  const Report report = against(candidate);
  CHECK(report.status == Status::kDiverged);
  CHECK(report.blocks->missing == 2);
  CHECK(lead(report).relation == Relation::kMissing);
  CHECK(lead(report).kind == DivergenceKind::kMissing);
}

TEST_CASE("a call of one run alone is where they part, wherever it stands") {
  ordered_json candidate = program("candidate");
  candidate["blocks"].erase(3);
  const Report lacking = against(candidate);
  CHECK(lead(lacking).baseline_index == 3);
  CHECK_FALSE(lead(lacking).candidate_index);

  candidate = program("candidate");
  const ordered_json more{{"step", 0}, {"path", "c"}, {"in", "z0"}, {"out", "c0"}};
  candidate["blocks"].insert(candidate["blocks"].begin() + 2, more);
  candidate["blocks"][4]["out"] = "other";  // later
  const Report extra = against(candidate);
  CHECK(lead(extra).candidate_index == 2);
  CHECK_FALSE(lead(extra).baseline_index);
  CHECK(extra.blocks->first->agreed->path == "b");

  CHECK(against(program("candidate", 2)).status == Status::kDiverged);
}

TEST_CASE("calls of threads beside the main one are no divergence, and no pass") {
  ordered_json baseline = program("baseline");
  for (const std::size_t at : {2U, 3U}) baseline["blocks"][at]["path"] = "Net@main:0.a";
  baseline["blocks"][3]["call"] = 1;
  ordered_json candidate = baseline;
  for (const char* side : {"in", "out"}) {
    std::swap(candidate["blocks"][2][side], candidate["blocks"][3][side]);
  }
  const Report race = compare_json(baseline, candidate);
  CHECK(race.status == Status::kNotComparable);
  CHECK(race.blocks->of_threads == 2);
  CHECK(cmd::fix_of(race.reasons.front()) == "record both runs with --depth top");
  candidate["blocks"].erase(3);
  CHECK(compare_json(baseline, candidate).status == Status::kNotComparable);

  candidate["blocks"][3]["out"] = "other";  // of the main thread
  const Report both = compare_json(baseline, candidate);
  CHECK(both.status == Status::kDiverged);
  CHECK(lead(both).baseline.step == 2);
}

TEST_CASE("parameters say from which step on they differ, unless a border came before") {
  ordered_json candidate = program("candidate");
  candidate["parameters"][1]["value"] = "other";
  const Report report = against(candidate);
  CHECK(report.status == Status::kDiverged);
  CHECK(lead(report).baseline.phase == core::Phase::kOptimizer);
  CHECK(lead(report).outputs.front().baseline.slot == "param.a.weight");
  CHECK(report.blocks->first_parameter->read_equal == 0);
  CHECK(evidence(report) == "parameter-behind-borders parameter-read-equal ");

  candidate["blocks"][4]["out"] = "other";  // of the step behind it
  CHECK(lead(against(candidate)).baseline.phase == core::Phase::kOptimizer);
  candidate["blocks"][2]["out"] = "other";  // of the same step
  CHECK(lead(against(candidate)).baseline.phase == core::Phase::kForward);
}

TEST_CASE("a parameter that moved while it was read, or was read in one run, is not compared") {
  ordered_json candidate = program("candidate");
  candidate["parameters"][0]["value"] = nullptr;
  candidate["parameters"].erase(2);
  const Report report = against(candidate);
  CHECK(report.status == Status::kReproducible);
  CHECK(report.blocks->parameters == 1);
  CHECK(report.blocks->parameters_unread == 2);
}

TEST_CASE("a border where nothing could be opened is no pass") {
  ordered_json baseline = program("baseline");
  for (const char* side : {"in", "out"}) baseline["blocks"][1][side] = nullptr;
  baseline["unopened"] = {{"mamba.Cache", 2}};
  ordered_json candidate = baseline;
  const Report report = compare_json(baseline, candidate);
  CHECK(report.status == Status::kNotComparable);
  CHECK(said(report.reasons.front()).find("mamba.Cache") != std::string::npos);
  CHECK(report.blocks->unread == 1);

  // On one side alone it is another structure; and what differs elsewhere is still said.
  CHECK(against(candidate).status == Status::kDiverged);
  candidate["blocks"][0]["out"] = "other";
  CHECK(compare_json(baseline, candidate).status == Status::kDiverged);
}

TEST_CASE("a border that a device could not digest in one run is not compared, and no pass") {
  ordered_json candidate = program("candidate");
  candidate["blocks"][1]["out"] = nullptr;
  CHECK(against(candidate).status == Status::kDiverged);
  candidate["unopened"] = {{std::string(core::kUnreadContent), 1}};
  const Report report = against(candidate);
  CHECK(report.status == Status::kNotComparable);
  CHECK(report.blocks->unread == 1);
  CHECK(report.blocks->differing == 0);
}

TEST_CASE("recordings that cannot be held against each other say what to record") {
  ordered_json operators = program("candidate");
  operators["manifest"]["depth"] = "top";
  const Report depths = against(operators);
  CHECK(depths.status == Status::kNotComparable);
  CHECK(cmd::fix_of(depths.reasons.front()) == "record the candidate again with --depth blocks");

  ordered_json seldom = program("candidate");
  seldom["every"] = 10;
  CHECK(against(seldom).status == Status::kNotComparable);

  CompareOptions tolerant;
  tolerant.spec.policy.kind = configs::PolicyKind::kTolerance;
  CHECK(compare_json(program("baseline"), program("candidate"), tolerant).status ==
        Status::kNotComparable);
}

TEST_CASE("operators are asked for since all parameters were read and were equal") {
  ordered_json candidate = program("candidate", 9);
  const auto opened = [&] {
    return steps_to_open(compare_json(program("baseline", 9), candidate));
  };
  candidate["blocks"][15]["out"] = "other";  // b at step 7
  CHECK(opened() == core::OpRange{6, 7});
  candidate["parameters"][6]["value"] = nullptr;
  CHECK(opened() == core::OpRange{6, 7});
  for (std::size_t step = 3; step < 9; ++step) candidate["parameters"][step]["value"] = nullptr;
  CHECK(opened() == core::OpRange{3, 7});
  for (std::size_t step = 0; step < 9; ++step) candidate["parameters"][step]["value"] = nullptr;
  candidate["parameters"][8]["value"] = "w8";
  CHECK(opened() == core::OpRange{0, 7});

  candidate = program("candidate", 9);
  candidate["parameters"][4]["value"] = "other";
  CHECK(opened() == core::OpRange{3, 4});
  candidate = program("candidate", 9);
  candidate["blocks"][0]["out"] = "other";
  CHECK(opened() == core::OpRange{0, 0});
}

TEST_CASE("an operator behind what the blocks lead with is another divergence") {
  ordered_json candidate = program("candidate");
  candidate["blocks"][5]["out"] = "other";  // b at step 2
  const Report report = against(candidate);
  core::OpRecord record;
  for (const auto& [step, phase, is_one] : {std::tuple(1U, core::Phase::kOptimizer, true),
                                            std::tuple(2U, core::Phase::kForward, true),
                                            std::tuple(2U, core::Phase::kBackward, false),
                                            std::tuple(3U, core::Phase::kForward, false),
                                            std::tuple(0U, core::Phase::kForward, false)}) {
    record.step = step;
    record.phase = phase;
    CHECK(is_opened(report, record) == is_one);
  }
}

TEST_CASE("two recordings without blocks and records compare nothing") {
  CHECK(compare_json(program("baseline", 0), program("candidate", 0)).status ==
        Status::kNothingCompared);
}

/// With a loss behind the borders of each step.
ordered_json with_losses(ordered_json dump, const ordered_json& losses) {
  for (std::uint32_t step = 0; step < losses.size(); ++step) {
    const std::string name = "loss" + std::to_string(step);
    dump["tensors"][name] = {{"dtype", "float32"}, {"shape", {1}}, {"values", {losses[step]}}};
    dump["ops"].push_back({{"operator", "repro_check::loss"},
                           {"returned", {{"loss", name}}},
                           {"step", step},
                           {"phase", "backward"}});
  }
  return dump;
}

TEST_CASE("losses behind a border that differs follow from it, before it they lead") {
  const ordered_json baseline = with_losses(program("baseline"), {1, 2, 3});
  ordered_json candidate = with_losses(program("candidate"), {1, 5, 6});
  const Report loss = compare_json(baseline, candidate);
  CHECK(lead(loss).baseline.op->name == "repro_check::loss");
  CHECK(evidence(loss) == "loss-behind-borders ");
  CHECK(loss.blocks->losses == 3);

  candidate["blocks"][3]["out"] = "other";
  const Report border = compare_json(baseline, candidate);
  CHECK(lead(border).baseline.site->module_path == "b");
  CHECK(border.divergences_total == 3);
  REQUIRE(border.divergences.size() == 2);
  CHECK(border.divergences.front().relation == Relation::kPropagated);
  CHECK(border.coverage.origins == 0);
  CHECK(border.origins.empty());
}

/// `--numbers` with these words; none: all that are recorded.
CompareOptions of_numbers(std::vector<configs::NumberKind> kinds = {}) {
  CompareOptions options;
  options.spec.numbers = std::move(kinds);
  return options;
}

TEST_CASE("of numbers, parameters are judged, and borders are counted") {
  using configs::NumberKind;
  ordered_json candidate = program("candidate");
  candidate["blocks"][2]["out"] = "other";
  const Report passed = compare_json(program("baseline"), candidate, of_numbers());
  CHECK(passed.status == Status::kReproducible);
  REQUIRE(passed.numbers);
  CHECK(passed.numbers->judged == std::vector{NumberKind::kParameters});
  CHECK(passed.numbers->steps == 3);
  CHECK(passed.blocks->borders_aside);
  CHECK(passed.blocks->differing == 1);
  CHECK(passed.blocks->parameters == 3);

  candidate["parameters"][1]["value"] = "other";
  const Report report = compare_json(program("baseline"), candidate, of_numbers());
  CHECK(report.status == Status::kDiverged);
  CHECK(lead(report).baseline.op->name == core::kParametersRecord);
  CHECK(lead(report).baseline.step == 1);
  CHECK(evidence(report) == "numbers-of-blocks ");
  CHECK(said(lead(report).cause.evidence.front()) ==
        "1 call of blocks differ, which is not judged; the first is block a (step 1, forward)");
  CHECK(compare_json(program("baseline"), candidate, of_numbers({NumberKind::kLosses})).status ==
        Status::kNotComparable);  // there is no loss
}

TEST_CASE("of numbers, a step that one run alone makes is a divergence") {
  const auto stepping = [](const char* run, std::uint32_t steps) {
    ordered_json dump = program(run);
    for (std::uint32_t step = 0; step < steps; ++step) {
      dump["ops"].push_back(
          {{"operator", "repro_check::optimizer_step"}, {"phase", "optimizer"}, {"step", step}});
    }
    return dump;
  };
  const ordered_json baseline = stepping("baseline", 3);
  CHECK(compare_json(baseline, stepping("candidate", 3), of_numbers()).status ==
        Status::kReproducible);
  const Report report = compare_json(baseline, stepping("candidate", 2), of_numbers());
  CHECK(report.status == Status::kDiverged);
  CHECK(lead(report).baseline.step == 2);
}

TEST_CASE("of numbers, blocks have neither gradients nor state") {
  using configs::NumberKind;
  for (const NumberKind kind : {NumberKind::kGradients, NumberKind::kState}) {
    const Report report =
        compare_json(program("baseline"), program("candidate"), of_numbers({kind}));
    CHECK(report.status == Status::kNotComparable);
    CHECK(report.numbers->not_recorded == std::vector{kind});
  }
}

TEST_CASE("of numbers, parameters of one run alone are no pass") {
  ordered_json candidate = program("candidate");
  candidate["parameters"] = ordered_json::array();
  const Report report = compare_json(program("baseline"), candidate, of_numbers());
  CHECK(exit_code_of(report) == core::ExitCode::kNotComparable);
  CompareOptions tolerant = of_numbers();
  tolerant.spec.policy.kind = configs::PolicyKind::kTolerance;
  CHECK(compare_json(program("baseline"), program("candidate"), tolerant).status ==
        Status::kNotComparable);
}

}  // namespace
}  // namespace repro_check::comparators
