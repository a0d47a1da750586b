// SPDX-License-Identifier: Apache-2.0
// A row for every operator, and where the elements of a pair differ.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "comparators/measure/samples.h"
#include "tests/comparators/cause/cause_traces.h"

namespace repro_check::comparators::trail_test {
namespace {

CompareOptions with_trail() {
  CompareOptions options = tolerance(1e-2, 1e-5);
  options.keep_trail = true;
  return options;
}

/// A chain whose n-th result is 1 in the baseline and 1 + errors[n] in the candidate.
Report chain_with(const std::vector<double>& errors, const CompareOptions& options) {
  const std::vector<std::string> names(errors.size(), "aten::mul");
  Trace baseline = chain("baseline", names);
  Trace candidate = chain("candidate", names);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const std::string name = numbered("t", i);
    baseline.json()["tensors"][name] = tensor_of("float64", {1.0, 1.0});
    candidate.json()["tensors"][name] = tensor_of("float64", {1.0, 1.0 + errors[i]});
  }
  return compare_traces(baseline, candidate, options);
}

std::uint64_t count(const OpTrail& trail, OpState state) {
  return static_cast<std::uint64_t>(std::ranges::count(trail.rows, state, &TrailRow::state));
}

TEST_CASE("without keep_trail there is none") {
  CHECK(chain_with({0, 1, 2}, tolerance(1e-2, 1e-5)).trail == nullptr);
}

TEST_CASE("every operator has its row, in order, with its state and its errors") {
  const Report report = chain_with({0, 1e-4, 0.5, 0.25, 0}, with_trail());
  REQUIRE(report.trail != nullptr);
  const OpTrail& trail = *report.trail;
  REQUIRE(trail.rows.size() == 5);
  CHECK(trail.rows_total == 5);
  const std::array expected{
      OpState::kEqual, OpState::kWithin, OpState::kOrigin, OpState::kPropagated, OpState::kEqual};
  for (std::uint32_t i = 0; i < 5; ++i) {
    const TrailRow& row = trail.rows[i];
    CHECK(row.baseline == i);
    CHECK(row.candidate == i);
    CHECK(row.shown() == i);
    CHECK(trail.operators.at(row.op) == "aten::mul");
    CHECK(trail.types.at(row.type) == "float64 [2]");
  }
  CHECK(trail.rows[0].state == expected[0]);
  CHECK(trail.rows[1].state == expected[1]);
  CHECK(trail.rows[4].state == expected[4]);
  CHECK(trail.rows[0].errors == TrailRow::kNone);
  REQUIRE(trail.rows[2].errors != TrailRow::kNone);
  const OpErrors& errors = trail.errors.at(trail.rows[2].errors);
  CHECK(errors.max_abs == doctest::Approx(0.5));
  CHECK(errors.differing == 1);
  CHECK(errors.elements == 2);
  CHECK(errors.nan_candidate == 0);
}

TEST_CASE("the states of the rows add up to the coverage") {
  std::mt19937 generator(20240611);
  for (int round = 0; round < 40; ++round) {
    std::vector<double> errors(12);
    for (double& error : errors) {
      error = std::array{0.0, 1e-5, 0.5, 0.0}.at(generator() % 4);
    }
    const Report report = chain_with(errors, with_trail());
    REQUIRE(report.trail != nullptr);
    const OpTrail& trail = *report.trail;
    CHECK(trail.rows.size() == report.coverage.baseline_ops);
    CHECK(count(trail, OpState::kEqual) == report.coverage.equal);
    CHECK(count(trail, OpState::kWithin) == report.coverage.within_policy);
    CHECK(count(trail, OpState::kOrigin) + count(trail, OpState::kPropagated) ==
          report.coverage.diverged);
  }
}

TEST_CASE("what one side alone has stands in a row of its own") {
  Trace baseline = chain("baseline", {"aten::mul", "aten::relu", "aten::add"});
  Trace candidate = chain("candidate", {"aten::mul", "aten::tanh", "aten::add"});
  const Report report = compare_traces(baseline, candidate, with_trail());
  REQUIRE(report.trail != nullptr);
  const OpTrail& trail = *report.trail;
  CHECK(trail.rows_total == 4);
  CHECK(count(trail, OpState::kBaselineOnly) == report.coverage.missing_in_candidate);
  CHECK(count(trail, OpState::kCandidateOnly) == report.coverage.missing_in_baseline);
  const auto only = std::ranges::find(trail.rows, OpState::kCandidateOnly, &TrailRow::state);
  REQUIRE(only != trail.rows.end());
  CHECK(only->baseline == TrailRow::kNone);
  CHECK(only->candidate == 1);
  CHECK(trail.operators.at(only->op) == "aten::tanh");
}

TEST_CASE("an origin has a map of where it differs") {
  const Report report = chain_with({0, 0.5}, with_trail());
  REQUIRE(report.trail != nullptr);
  REQUIRE(report.trail->maps.size() == 1);
  const DifferenceMap& map = report.trail->maps.front();
  CHECK(map.op == 1);
  CHECK(map.slot == "0");
  CHECK(map.differing == std::vector<std::uint64_t>{0, 1});
}

std::span<const std::byte> bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

TEST_CASE("a map counts every differing element once, in the block it lies in") {
  std::mt19937 generator(7);
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{
           {}, {5}, {200}, {3, 4}, {100, 130}, {2, 3, 70, 65}, {64, 1}, {1, 64}}) {
    std::size_t elements = 1;
    for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
    std::vector<float> left(elements, 1.0F);
    std::vector<float> right = left;
    std::uint64_t differing = 0;
    for (float& value : right) {
      if (generator() % 5 != 0) continue;
      value = -1.0F;
      ++differing;
    }
    const DifferenceMap map =
        map_differences(shape, sizeof(float), bytes_of(left), bytes_of(right));
    std::uint64_t counted = 0;
    for (const std::uint64_t block : map.differing) counted += block;
    CHECK(counted == differing);
    CHECK(map.differing.size() == std::size_t{map.row_blocks} * map.column_blocks);
    CHECK(map.leading * map.rows * map.columns == elements);
    CHECK(map.row_blocks <= kMapBlocks);
  }
}

TEST_CASE("a map puts an element where it is, and takes NaN for what its bits are") {
  std::vector<float> left(std::size_t{128} * 128, std::nanf(""));
  std::vector<float> right = left;
  right[std::size_t{127} * 128 + 2] = 0.0F;
  const DifferenceMap map =
      map_differences(std::vector<std::int64_t>{128, 128}, 4, bytes_of(left), bytes_of(right));
  CHECK(map.differing.at(std::size_t{63} * 64 + 1) == 1);
  CHECK(std::ranges::count(map.differing, 0U) == 64 * 64 - 1);
}

}  // namespace
}  // namespace repro_check::comparators::trail_test
