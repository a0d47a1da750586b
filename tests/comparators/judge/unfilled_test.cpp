// SPDX-License-Identifier: Apache-2.0
// Memory that a kernel made for itself, and handed to operators before all of it was filled.
#include <doctest/doctest.h>

#include <string>

#include "core/tensor/unread.h"
#include "tests/comparators/cause/cause_traces.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators {
namespace {

/// `aten::resize` calls `aten::copy_` on memory that holds `scratch`, and gives `y`.
Trace with_scratch(const std::string& run, int scratch, int y = 7) {
  Trace trace(run);
  trace.tensor("x", {1, 2}).tensor("y", {y}).tensor("scratch", {scratch}).tensor("copy", {scratch});
  trace.op("aten::upsample", {"x"}, {"y"});
  trace.op("aten::clone", {"scratch"}, {"copy"}, {{"depth", 1}, {"parent", 0}});
  trace.op("aten::neg", {"copy"}, {"copy"}, {{"depth", 1}, {"parent", 0}});
  trace.op("aten::sum", {"y"}, {"y"});
  return trace;
}

TEST_CASE("a kernel's own memory differs, and what it gives is equal") {
  Trace baseline = with_scratch("baseline", 1);
  Trace candidate = with_scratch("candidate", 2);
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.status == Status::kReproducible);
  CHECK(report.coverage.skipped == 2);
}

TEST_CASE("it counts where what the kernel gives differs too") {
  Trace baseline = with_scratch("baseline", 1);
  Trace candidate = with_scratch("candidate", 2, 8);
  CHECK(compare_traces(baseline, candidate).status == Status::kDiverged);
}

TEST_CASE("memory that the program gave the kernel is no memory of its own") {
  const auto given = [](const std::string& run, int scratch) {
    Trace trace = with_scratch(run, scratch);
    trace.json()["ops"][0]["inputs"] = {{"x", "x"}, {"scratch", "scratch"}};
    return trace;
  };
  Trace baseline = given("baseline", 1);
  Trace candidate = given("candidate", 2);
  CHECK(compare_traces(baseline, candidate).status == Status::kDiverged);
}

TEST_CASE("an inner operator that differs of itself counts") {
  Trace baseline = with_scratch("baseline", 1);
  Trace candidate = with_scratch("candidate", 1);
  candidate.tensor("copy", {2});
  CHECK(compare_traces(baseline, candidate).status == Status::kDiverged);
}

/// `name` on the state of a generator, or on as many bytes as `size`, that holds `first`.
Trace with_state(const std::string& run, const std::string& name, int first, std::size_t size) {
  Trace trace(run);
  ordered_json bytes = ordered_json::array();
  for (std::size_t i = 0; i < size; ++i) bytes.push_back(i == 0 ? first : 0);
  trace.json()["tensors"]["state"] = tensor_of("uint8", bytes);
  trace.tensor("y", {7});
  return trace.op(name, {"state"}, {"state"}).op("aten::sum", {"y"}, {"y"});
}

TEST_CASE("a copy of a generator's state is no number of the program") {
  const auto status = [](const std::string& name, std::size_t size) {
    Trace baseline = with_state("baseline", name, 1, size);
    Trace candidate = with_state("candidate", name, 2, size);
    const Report report = compare_traces(baseline, candidate);
    CHECK(report.coverage.skipped == (report.status == Status::kReproducible ? 1 : 0));
    return report.status;
  };
  CHECK(status("aten::clone", 5056) == Status::kReproducible);
  CHECK(status("aten::clone", 5055) == Status::kDiverged);
  CHECK(status("aten::neg", 5056) == Status::kDiverged);
}

TEST_CASE("what a class holds that nobody read is no pass, unless its operator only wraps it") {
  const auto wrapped = [](const std::string& name) {
    Trace trace("baseline");
    trace.tensor("x", {1, 2}).tensor("y", {1, 2});
    trace.json()["tensors"]["y"]["state"] = "none";
    trace.json()["tensors"]["y"]["attributes"] = "opaque of AsyncCollectiveTensor";
    trace.op("aten::relu", {}, {"x"}).op(name, {"x"}, {"y"});
    return compare_traces(trace, trace);
  };
  CHECK(exit_of(wrapped("library::make")) == 4);
  CHECK(exit_of(wrapped("_c10d_functional::_wrap_tensor_autograd")) == 0);
}

TEST_CASE("what a device could not digest is no pass, nor another content") {
  Trace baseline("baseline");
  baseline.tensor("x", {1, 2}).tensor("y", {1, 2});
  baseline.op("aten::relu", {}, {"x"}).op("aten::neg", {"x"}, {"y"});
  Trace candidate = baseline;
  candidate.json()["tensors"]["y"]["state"] = "none";
  candidate.json()["tensors"]["y"]["attributes"] = core::kUnread;
  CHECK(exit_of(compare_traces(baseline, candidate)) == 4);
  CHECK(exit_of(compare_traces(candidate, baseline)) == 4);
  CHECK(exit_of(compare_traces(candidate, candidate)) == 4);
}

}  // namespace
}  // namespace repro_check::comparators
