// SPDX-License-Identifier: Apache-2.0
#include "core/trace/program_plan.h"

#include <doctest/doctest.h>

#include "core/error.h"

namespace repro_check::core {
namespace {

TEST_CASE("a plan is read as it was written") {
  ProgramPlan plan;
  plan.level = DumpLevel::kStats;
  plan.steps = {{0, 2}, {7, 7}};
  plan.phases = {Phase::kBackward, Phase::kEval};
  plan.optimizer = OptimizerReading::kOperators;
  plan.processes = RecordedProcesses::kMain;
  plan.keep_ops = {{3, 9}};
  plan.checkpoints = true;
  plan.seed = 7;
  plan.found = {{"SET", "1"}, {"UNSET", std::nullopt}};
  plan.configuration = R"({"program": {"command": ["python", "train.py"]}})";
  plan.build_folder = "/somewhere";
  const ProgramPlan read = program_plan_from_json_text(to_json_text(plan));
  CHECK(static_cast<const RecordedPart&>(read) == plan);
  CHECK(read.seed == plan.seed);
  CHECK(read.found == plan.found);
  CHECK(read.build_folder == plan.build_folder);
  CHECK(manifest_of(read).model_path == "python train.py");
  CHECK(manifest_of(read).trace.only ==
        "steps 0:3,7; phases backward, eval; one process, whatever others did");
}

TEST_CASE("a plan says what differs from the defaults") {
  const ProgramPlan plan = program_plan_from_json_text(R"({"level": "digest", "seed": null})");
  CHECK(plan.optimizer == OptimizerReading::kState);
  CHECK(!plan.seed);
  CHECK(program_plan_from_json_text("{}").optimizer == OptimizerReading::kOperators);
}

TEST_CASE("what no plan has is refused") {
  for (const char* text : {"",
                           "[]",
                           R"({"levels": "digest"})",
                           R"({"level": "all"})",
                           R"({"bare": "yes"})",
                           R"({"steps": [[4, 2]]})",
                           R"({"first_ops": -1})"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(program_plan_from_json_text(text), Error);
  }
}

TEST_CASE("the state of a process is read as it was written") {
  ProcessState state;
  state.process = 12;
  state.notes = {"modules"};
  state.rank = 1;
  state.ranks = 2;
  state.began = 0.5;
  const ProcessState read = process_state_from_json_text(to_json_text(state));
  CHECK(read.process == 12);
  CHECK(read.notes == state.notes);
  CHECK(read.rank == 1);
  CHECK(read.began == 0.5);
  CHECK_FALSE(process_state_from_json_text(R"({"rank": null})").rank);
}

}  // namespace
}  // namespace repro_check::core
