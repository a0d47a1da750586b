// SPDX-License-Identifier: Apache-2.0
#include "comparators/runs/second_pair.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators::second_pair_test {
namespace {

/// Recordings of four operators of which the third reads what the first made.
Trace recording(const std::string& run, double second, double third, const char* level) {
  Trace trace(run);
  trace.manifest()["level"] = level;
  trace.tensor("x", {1, 2}).tensor("a", {3, 4});
  trace.tensor("b", ordered_json::array({second, 6.0})).tensor("c", {third, 8.0});
  trace.tensor("d", {9, 9});
  trace.op("aten::mul", {"x"}, {"a"}).op("aten::add", {"x"}, {"b"});
  trace.op("aten::exp", {"a"}, {"c"}).op("aten::sum", {"x"}, {"d"});
  return trace;
}

Report compared(double second, double third, const char* level = "digest") {
  Trace baseline = recording("baseline", 5, 7, level);
  Trace candidate = recording("candidate", second, third, level);
  return compare_traces(baseline, candidate);
}

const Report& agreeing() {
  static const Report report = compared(5, 7);
  return report;
}

TEST_CASE("a policy that values decide gains nothing from digests") {
  using configs::EqualNan;
  configs::CompareSpec spec;
  CHECK(can_start_with_digests(spec));
  for (const EqualNan rule : {EqualNan::kAny, EqualNan::kNever}) {
    spec.policy.equal_nan = rule;
    CHECK_FALSE(can_start_with_digests(spec));
  }
  spec = {};
  spec.policy.signed_zero_distinct = false;
  CHECK_FALSE(can_start_with_digests(spec));
  spec = {};
  spec.policy.kind = configs::PolicyKind::kTolerance;
  CHECK_FALSE(can_start_with_digests(spec));
}

TEST_CASE("what is asked of operators gains nothing from blocks") {
  const configs::CompareSpec plain;
  CHECK(can_start_with_blocks(plain));
  configs::CompareSpec spec = plain;
  spec.numbers.emplace();
  CHECK_FALSE(can_start_with_blocks(spec));
  spec = plain;
  spec.rules.emplace_back();
  CHECK_FALSE(can_start_with_blocks(spec));
  spec = plain;
  spec.strides = configs::AttributeRule::kStrict;
  CHECK_FALSE(can_start_with_blocks(spec));
  spec = plain;
  spec.policy.kind = configs::PolicyKind::kIgnore;
  CHECK_FALSE(can_start_with_blocks(spec));
}

TEST_CASE("the window is around the first divergence, and holds the producers of its inputs") {
  const Report third = compared(5, 7.5);
  REQUIRE(third.first_divergence);
  REQUIRE(third.first_divergence->baseline_index == 2);
  CHECK(missing_values({&third, 1}, 0).operators == core::OpRanges{{0, 0}, {2, 2}});
  CHECK(missing_values({&third, 1}, 1).operators == core::OpRanges{{0, 3}});
  CHECK(missing_values({&third, 1}, 8).operators == core::OpRanges{{0, 3}});
}

TEST_CASE("the windows of several candidates are united") {
  const std::vector<Report> reports{compared(5.5, 7), agreeing(), compared(5, 7.5)};
  CHECK(missing_values(reports, 0).operators == core::OpRanges{{0, 2}});
}

TEST_CASE("nothing is missing where nothing diverged or all is at hand") {
  CHECK(missing_values({&agreeing(), 1}, 8).operators.empty());
  const Report measured = compared(5.5, 7, "tensor");
  REQUIRE(measured.status == Status::kDiverged);
  CHECK(missing_values({&measured, 1}, 8).operators.empty());
}

TEST_CASE("where the first divergence has no values, what the model returns is measured") {
  Trace baseline = recording("baseline", 5, 7, "digest");
  Trace candidate = recording("candidate", 5, 7.5, "digest");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->json()["ops"].push_back({{"returned", {{"out", "c"}}}});
  }
  candidate.json()["ops"].erase(1);
  const Report report = compare_traces(baseline, candidate);
  REQUIRE(report.status == Status::kDiverged);
  REQUIRE(report.returned.first);
  // Of the candidate too, which has an operator fewer before it.
  CHECK(missing_values({&report, 1}, 0).operators == core::OpRanges{{1, 4}});
}

TEST_CASE("an operator that one side does not have has no values to record") {
  Trace baseline = recording("baseline", 5, 7, "digest");
  Trace candidate = recording("candidate", 5, 7, "digest");
  candidate.json()["ops"].erase(1);
  Report report = compare_traces(baseline, candidate);
  REQUIRE(report.status == Status::kDiverged);
  CHECK(missing_values({&report, 1}, 8).operators.empty());

  const std::size_t reasons = report.reasons.size();
  report = settle(std::move(report));
  CHECK(report.status == Status::kDiverged);
  CHECK(report.kind == DivergenceKind::kMissing);
  CHECK(report.reasons.size() == reasons + 1);
  CHECK(report.passes.size() == 1);
}

TEST_CASE("a divergence that comes again is the second pair's") {
  const Report report = settle(compared(5.5, 7), compared(5.25, 7, "tensor"));
  CHECK(report.status == Status::kDiverged);
  CHECK(report.kind == DivergenceKind::kOrigin);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->outputs.front().metrics.has_value());
  REQUIRE(report.passes.size() == 2);
  CHECK_FALSE(report.passes[0].first_divergence->outputs.front().metrics.has_value());
}

TEST_CASE("of runs that resumed a call is known by how far it is from where they meet") {
  Report first = compared(5.5, 7);
  Report closer = compared(5.25, 7, "tensor");
  first.resume.emplace().baseline_op = 1;
  closer.resume.emplace().baseline_op = 5;
  *closer.first_divergence->baseline_index += 4;
  closer.first_divergence->baseline.index += 4;
  CHECK(settle(first, closer).kind == DivergenceKind::kOrigin);
  closer.resume->baseline_op = 6;
  CHECK(settle(first, closer).kind == DivergenceKind::kUnrepeated);
}

TEST_CASE("a divergence that does not come again is the finding") {
  SUBCASE("the second pair agrees") {
    const Report report = settle(compared(5.5, 7), compared(5, 7, "tensor"));
    CHECK(report.status == Status::kDiverged);
    CHECK(report.kind == DivergenceKind::kUnrepeated);
    REQUIRE(report.first_divergence);
    CHECK(report.first_divergence->baseline_index == 1);
    CHECK(report.passes[1].status == Status::kReproducible);
    CHECK(exit_code_of(report) == core::ExitCode::kDivergence);
  }
  SUBCASE("the second pair diverges at another operator") {
    const Report report = settle(compared(5.5, 7), compared(5, 7.5, "tensor"));
    CHECK(report.kind == DivergenceKind::kUnrepeated);
    CHECK(report.first_divergence->baseline_index == 2);
    CHECK(exit_code_of(report) == core::ExitCode::kDivergence);
  }
  SUBCASE("the second pair alone diverges, as another candidate made it be recorded") {
    const Report report = settle(agreeing(), compared(5, 7.5, "tensor"));
    CHECK(report.kind == DivergenceKind::kUnrepeated);
    CHECK(exit_code_of(report) == core::ExitCode::kDivergence);
  }
}

TEST_CASE("two pairs that agree pass") {
  const Report report = settle(agreeing(), compared(5, 7, "tensor"));
  CHECK(report.status == Status::kReproducible);
  CHECK(report.kind == DivergenceKind::kNone);
  CHECK(exit_code_of(report) == core::ExitCode::kReproducible);
}

/// Training of one step of an optimizer, of which `inside` operators were recorded.
Report training(double second, int inside, const char* level) {
  const auto recording_of = [&](const std::string& run, double bias) {
    const ordered_json extra = {{"step", 1}, {"phase", "optimizer"}};
    Trace trace(run);
    trace.manifest()["level"] = level;
    trace.tensor("x", {1, 2}).tensor("g", {3, 4}).tensor("w", {bias, 6.0});
    trace.op("aten::mul", {"x"}, {"g"}, {{"step", 1}, {"phase", "backward"}});
    for (int i = 0; i < inside; ++i) trace.op("aten::add_", {"g"}, {"w"}, extra);
    return std::move(trace.op("repro_check::optimizer_step", {"g"}, {"w"}, extra));
  };
  Trace baseline = recording_of("baseline", 5);
  Trace candidate = recording_of("candidate", second);
  return compare_traces(baseline, candidate);
}

TEST_CASE("a step that parts is opened, and what is found inside is the same divergence") {
  const Report digests = training(5.5, 0, "digest");
  const MissingValues missing = missing_values({&digests, 1}, 0);
  CHECK(missing.operators == core::OpRanges{{0, 1}});
  CHECK(missing.steps == core::OpRanges{{1, 1}});
  const Report report = settle(digests, training(5.25, 2, "tensor"));
  CHECK(report.kind != DivergenceKind::kUnrepeated);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline.op->name == "aten::add_");
  CHECK(missing_values({&report, 1}, 0).steps.empty());

  CHECK(settle(digests, compared(5.5, 7, "tensor")).kind == DivergenceKind::kUnrepeated);
}

const Phrase told("optimizer-told-otherwise");

TEST_CASE("what a step was told otherwise leads what is found inside of it") {
  Report digests = training(5.5, 0, "digest");
  digests.first_divergence->cause = {CauseKind::kArgument, {told}};
  const Report report = settle(digests, training(5.25, 2, "tensor"));
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->cause.evidence == Phrases{told});
  const Report same = settle(digests, training(5.25, 0, "tensor"));
  CHECK(same.first_divergence->cause.evidence != Phrases{told});
}

TEST_CASE("an operator of the step that one run alone has is the same divergence") {
  Report digests = training(5.5, 0, "digest");
  digests.first_divergence->cause = {CauseKind::kUnexplained, {told}};
  Report closer = training(5.25, 2, "tensor");
  closer.first_divergence->baseline_index.reset();
  closer.first_divergence->baseline = {};
  const Report report = settle(digests, closer);
  CHECK(report.kind != DivergenceKind::kUnrepeated);
  CHECK(report.first_divergence->cause.evidence == Phrases{told});
}

/// As training(), of its blocks: one whose output is that.
Report of_block(const std::string& output) {
  const auto side = [](const std::string& run, const std::string& out) {
    return ordered_json{
        {"run", run},
        {"manifest", {{"depth", "blocks"}, {"level", "digest"}, {"method", "program"}}},
        {"tensors", ordered_json::object()},
        {"ops", ordered_json::array()},
        {"blocks", {{{"step", 1}, {"path", "a"}, {"in", "x"}, {"out", out}}}}};
  };
  return compare_json(side("baseline", "y"), side("candidate", output));
}

TEST_CASE("operators of the step of a block are the same divergence, those behind it are another") {
  const auto of_step = [](std::uint32_t step) {
    Report report = compared(5.5, 7, "tensor");
    report.first_divergence->baseline.step = step;
    return report;
  };
  const Report same = settle(of_block("other"), of_step(1));
  CHECK(same.kind == DivergenceKind::kOrigin);
  CHECK(same.first_divergence->baseline_index == 1);
  REQUIRE(same.passes.size() == 2);
  CHECK(same.passes[0].blocks);

  CHECK(settle(of_block("other"), of_step(2)).kind == DivergenceKind::kUnrepeated);
  CHECK(settle(of_block("other"), agreeing()).kind == DivergenceKind::kUnrepeated);
  CHECK(settle(of_block("y"), agreeing()).blocks);  // of all steps
  CHECK(settle(of_block("y"), of_step(1)).kind == DivergenceKind::kUnrepeated);
}

TEST_CASE("of what comes behind the operators no operator is made up") {
  Report report = compared(5.5, 7);
  report.first_divergence->baseline_index = 9;
  report.first_divergence->candidate_index = 9;
  CHECK(missing_values({&report, 1}, 4).operators.back().last <= 9);
}

TEST_CASE("a second pair that cannot be judged does not take back the first one's divergence") {
  Report failed;
  failed.status = Status::kRunFailed;
  const Report report = settle(compared(5.5, 7), failed);
  CHECK(report.status == Status::kRunFailed);
  CHECK(report.also == std::vector<Status>{Status::kDiverged});
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK(exit_code_of(report) == core::ExitCode::kRunFailed);
}

}  // namespace
}  // namespace repro_check::comparators::second_pair_test
