// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/comparators/corpus.h"
#include "tests/comparators/said.h"
#include "tests/support/memory_source.h"

namespace repro_check::comparators::common_prefix_test {
namespace {

using test_support::DumpFixture;
using test_support::MemorySource;

/// A chain of `values.size()` additions, each with one output.
DumpFixture chain(const std::vector<double>& values) {
  std::string tensors;
  std::string ops;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string name = "t" + std::to_string(i);
    tensors += (i == 0 ? "" : ",") + std::string("\"") + name +
               R"(":{"dtype":"float32","shape":[1],"values":[)" + std::to_string(values[i]) + "]}";
    ops += (i == 0 ? "" : ",") + std::string(R"({"operator":"aten::add","outputs":[")") + name +
           "\"]}";
  }
  return test_support::parse_dump_fixture(R"({"run":"r","tensors":{)" + tensors + R"(},"ops":[)" +
                                          ops + "]}");
}

MemorySource whole(const std::vector<double>& values) {
  return MemorySource(chain(values), "whole");
}

MemorySource partial(const std::vector<double>& values,
                     const std::vector<std::uint64_t>& unfinished = {}) {
  DumpFixture fixture = chain(values);
  core::PartialTrace& trace = fixture.manifest.trace.partial.emplace();
  trace.reason = "stopped in op 9 aten::mul";
  trace.last = 9;
  trace.unfinished = unfinished;
  for (const std::uint64_t index : unfinished) {
    fixture.ops.at(index).tensors.clear();
    fixture.ops.at(index).results.clear();
  }
  return MemorySource(std::move(fixture), "partial");
}

TEST_CASE("equal as far as it goes is no pass, and says how far that is") {
  for (const bool swapped : {false, true}) {
    const MemorySource full = whole({1, 2, 3, 4});
    const MemorySource part = partial({1, 2, 3});
    const Report report = swapped ? compare(part, full, {}) : compare(full, part, {});
    CHECK(report.status == Status::kPartial);
    CHECK(exit_of(report) == 4);
    CHECK(report.coverage.compared == 3);
    CHECK(report.coverage.missing_in_baseline + report.coverage.missing_in_candidate == 0);
    REQUIRE_FALSE(report.reasons.empty());
    CHECK(said(report.reasons.front()) ==
          "reproducible up to op 2: 3 of 3 operators bit-identical; nothing beyond was compared");
    const RunSummary& run = report.runs[swapped ? 0 : 1];
    CHECK(run.status == "partial");
    CHECK(run.last_op == 9);
    REQUIRE_FALSE(report.warnings.empty());
    CHECK(said(report.warnings.front()) ==
          "partial is a partial recording: stopped in op 9 aten::mul");
  }
}

TEST_CASE("a divergence before the end is one") {
  const Report report = compare(whole({1, 2, 3, 4}), partial({1, 5, 3}), {});
  CHECK(report.status == Status::kDiverged);
  CHECK(exit_of(report) == 1);
  CHECK(report.first_divergence->baseline_index == 1);
}

TEST_CASE("a partial recording that goes on after the whole one has ended diverges from it") {
  const Report report = compare(whole({1, 2}), partial({1, 2, 3}), {});
  CHECK(exit_of(report) == 1);
  CHECK(report.coverage.missing_in_baseline == 1);
}

TEST_CASE("operators that were never left are skipped, not mismatched") {
  const Report report = compare(whole({1, 2, 3, 4}), partial({1, 2, 3}, {1}), {});
  CHECK(report.status == Status::kPartial);
  CHECK(report.coverage.compared == 2);
  CHECK(report.coverage.skipped == 1);
  CHECK(said(report.reasons.front()).starts_with("reproducible up to op 2: 2 of 3 operators"));
}

TEST_CASE("two partial recordings are compared as far as both go") {
  const Report report = compare(partial({1, 2, 3, 9}), partial({1, 2}), {});
  CHECK(report.status == Status::kPartial);
  CHECK(report.coverage.compared == 2);
}

TEST_CASE("where no operator was reached, nothing was compared") {
  const Report report = compare(whole({1, 2}), partial({}), {});
  CHECK(report.status == Status::kNothingCompared);
  CHECK(exit_of(report) == 4);
}

}  // namespace
}  // namespace repro_check::comparators::common_prefix_test
