// SPDX-License-Identifier: Apache-2.0
#include "comparators/audit/sweep.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "tests/support/memory_source.h"

namespace repro_check::comparators {
namespace {

using test_support::DumpFixture;
using test_support::MemorySource;

const std::vector<SweepSetting> kSettings{{FindingId::kVariesWithThreads, "threads=1"},
                                          {FindingId::kVariesWithThreads, "threads=8"},
                                          {FindingId::kVariesWithAlignment, "alignment=4"}};

/// Calls of aten::addmm at one line, of aten::sum at another.
MemorySource source_of_calls() {
  DumpFixture fixture;
  const auto site = [](std::uint32_t line) {
    auto made = std::make_shared<core::CallSite>();
    made->module_path = "net";
    made->frames.push_back({"train.py", line, "forward"});
    return made;
  };
  const auto product =
      std::make_shared<core::OperatorInfo>(core::OperatorInfo{"aten::addmm", "", false});
  const auto sum = std::make_shared<core::OperatorInfo>(core::OperatorInfo{"aten::sum", "", false});
  const auto first = site(3);
  const auto second = site(4);
  for (std::uint64_t i = 0; i < 4; ++i) {
    core::OpRecord record;
    record.index = i;
    record.op = i == 2 ? sum : product;
    record.site = i == 2 ? second : first;
    record.step = static_cast<std::uint32_t>(i);
    fixture.ops.push_back(std::move(record));
  }
  return MemorySource(std::move(fixture), "calls");
}

SweepDifference difference(std::uint64_t op, std::size_t setting, double max_abs) {
  SweepDifference made;
  made.op = op;
  made.setting = setting;
  made.slot = "0";
  made.elements = 10;
  made.differing = 2;
  made.max_abs = max_abs;
  made.largest = 1;
  return made;
}

SweptDump swept_of(const core::DumpSource& source, std::vector<std::size_t> had) {
  SweptDump swept;
  swept.dump = &source;
  swept.settings = kSettings;
  swept.had = std::move(had);
  return swept;
}

AuditPlan plan_of(const std::vector<SweepSetting>& settings) {
  AuditPlan plan;
  for (const AuditRule& rule : sweep_rules()) {
    const bool is_asked =
        std::ranges::find(settings, rule.id, &SweepSetting::found) != settings.end();
    if (is_asked) plan.rules.push_back(&rule);
  }
  return plan;
}

template <typename T>
T field_of(const AuditFinding& found, const std::string& name) {
  const auto field = std::ranges::find(found.finding.fields, name, &Field::name);
  REQUIRE(field != found.finding.fields.end());
  return std::get<T>(field->value);
}

}  // namespace

TEST_CASE("calls of one operator at one line are one finding for each kind of setting") {
  const MemorySource source = source_of_calls();
  SweptDump swept = swept_of(source, {0, 1, 2});
  swept.coverage.judged = 4;
  swept.differences = {difference(3, 0, 1e-7),
                       difference(0, 1, 1e-6),
                       difference(3, 1, 1e-7),
                       difference(2, 1, 1e-7),
                       difference(0, 2, 1e-7)};
  const AuditReport report = audit_sweep(std::vector<SweptDump>{swept}, plan_of(kSettings));
  REQUIRE(report.findings.size() == 3);
  const AuditFinding& threads = report.findings[0];
  CHECK(threads.rule->id == FindingId::kVariesWithThreads);
  CHECK(threads.finding.where.op == 0);
  CHECK(threads.finding.where.step == 0);
  CHECK(field_of<std::int64_t>(threads, "calls") == 2);
  CHECK(field_of<double>(threads, "max_abs") == 1e-6);
  CHECK(field_of<std::vector<std::string>>(threads, "settings") ==
        std::vector<std::string>{"threads=1", "threads=8"});
  CHECK(report.findings[1].finding.where.op == 2);
  CHECK(report.findings[2].rule->id == FindingId::kVariesWithAlignment);
  CHECK(report.count(Finding::Weight::kProof) == 3);
  CHECK(exit_code_of(report, configs::AuditFailure::kProof, false) == core::ExitCode::kDivergence);
}

TEST_CASE("a sweep that compared little is no pass") {
  const MemorySource source = source_of_calls();
  SweptDump swept = swept_of(source, {0, 1, 2});
  swept.coverage.judged = 3;
  swept.coverage.unrepeated = {"op 0 aten::addmm"};
  const AuditReport report = audit_sweep(std::vector<SweptDump>{swept}, plan_of(kSettings));
  CHECK(report.audited.empty());
  CHECK(report.not_audited.size() == 2);
  CHECK(exit_code_of(report, configs::AuditFailure::kProof, false) ==
        core::ExitCode::kNotComparable);
}

TEST_CASE("a setting that could not be had is not audited") {
  const MemorySource source = source_of_calls();
  SweptDump swept = swept_of(source, {2});
  swept.coverage.judged = 4;
  const AuditReport report = audit_sweep(std::vector<SweptDump>{swept}, plan_of(kSettings));
  REQUIRE(report.not_audited.size() == 1);
  CHECK(report.not_audited.front().rule->id == FindingId::kVariesWithThreads);
  CHECK(exit_code_of(report, configs::AuditFailure::kProof, true) ==
        core::ExitCode::kNotComparable);
}

TEST_CASE("what rounding decides is a suspicion, the largest share first") {
  const MemorySource source = source_of_calls();
  SweptDump swept;
  swept.dump = &source;
  swept.settings = {{FindingId::kFragile, "condition"},
                    {FindingId::kDecidesOnRounding, "decisions"}};
  swept.had = {0, 1};
  swept.coverage.judged = 4;
  SweepDifference moved = difference(0, 0, 1e-7);
  moved.argument = "self";
  moved.condition = 2000;
  SweepDifference far = moved;
  far.op = 3;
  far.condition = 1e6;
  SweepDifference decided = difference(2, 1, 1);
  decided.argument = "self";
  swept.differences = {moved, far, decided};
  const AuditReport report = audit_sweep(std::vector<SweptDump>{swept}, plan_of(swept.settings));
  REQUIRE(report.findings.size() == 2);
  CHECK(report.count(Finding::Weight::kProof) == 0);
  CHECK(report.count(Finding::Weight::kSuspicion) == 2);
  const auto fragile = std::ranges::find_if(report.findings, [](const AuditFinding& found) {
    return found.rule->id == FindingId::kFragile;
  });
  REQUIRE(fragile != report.findings.end());
  CHECK(field_of<double>(*fragile, "condition") == 1e6);
  CHECK(field_of<std::string>(*fragile, "argument") == "self");
  CHECK(exit_code_of(report, configs::AuditFailure::kProof, true) == core::ExitCode::kReproducible);
}

TEST_CASE("a batch whose items nobody can tell apart is not audited") {
  const MemorySource source = source_of_calls();
  AuditPlan plan;
  plan.rules = {batch_rule()};
  SweptDump swept;
  swept.dump = &source;
  swept.settings = {{FindingId::kVariesWithBatch, "item 0"},
                    {FindingId::kVariesWithBatch, "item 6"}};
  swept.had = {0, 1};
  swept.coverage.judged = 4;
  swept.coverage.batch = BatchCoverage{7, 2, 1, {"op 9 aten::mean"}};
  const AuditReport silent = audit_sweep(std::vector<SweptDump>{swept, swept}, plan);
  CHECK(silent.not_audited.empty());
  REQUIRE(silent.sweep->batch);
  CHECK(silent.sweep->batch->items == 7);
  CHECK(silent.sweep->batch->told_apart == 4);
  CHECK(silent.sweep->batch->mixing.size() == 2);
  swept.differences = {difference(0, 1, 1e-6)};
  const AuditReport found = audit_sweep(std::vector<SweptDump>{swept}, plan);
  REQUIRE(found.findings.size() == 1);
  CHECK(field_of<std::int64_t>(found.findings.front(), "batch") == 7);
  CHECK(found.findings.front().finding.weight == Finding::Weight::kProof);
  // As many times as large: a mean.
  swept.differences = {difference(0, 1, 0.5)};
  const AuditReport mean = audit_sweep(std::vector<SweptDump>{swept}, plan);
  REQUIRE(mean.findings.size() == 1);
  CHECK(mean.findings.front().finding.weight == Finding::Weight::kSuspicion);
  swept.differences.clear();
  swept.coverage.batch->told_apart = 0;
  const AuditReport blind = audit_sweep(std::vector<SweptDump>{swept}, plan);
  REQUIRE(blind.not_audited.size() == 1);
  CHECK(blind.not_audited.front().why.key == "batch-of-alike");
  swept.coverage.batch->items = 0;
  const AuditReport none = audit_sweep(std::vector<SweptDump>{swept}, plan);
  REQUIRE(none.not_audited.size() == 1);
  CHECK(none.not_audited.front().why.key == "batch-without-items");
}

}  // namespace repro_check::comparators
