// SPDX-License-Identifier: Apache-2.0
// Two releases of LibTorch, of which one does something by other operators.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators {
namespace {

/// A sum of x by way of `operators`, the last of which gives `y`; what is between has the bits of
/// x.
Trace by_way_of(const std::string& release,
                const std::vector<std::string>& operators,
                const ordered_json& y = {1, 2, 3}) {
  Trace trace(release);
  trace.manifest()["environment"] = {{"libtorch.version", release}};
  trace.tensor("x", {1, 2, 3}).tensor("y", y).tensor("sum", {6});
  trace.op("aten::relu", {"x"}, {"x"});
  std::string last = "x";
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const bool is_last = i + 1 == operators.size();
    const std::string next = is_last ? "y" : numbered("between", i);
    if (!is_last) trace.tensor(next, {1, 2, 3});
    trace.op(operators[i], {last}, {next});
    last = next;
  }
  trace.op("aten::sum", {last}, {"sum"});
  return trace;
}

TEST_CASE("what another release does by other operators with equal results is no divergence") {
  Trace older = by_way_of("2.4.0", {"aten::contiguous", "aten::view"});
  Trace newer = by_way_of("2.13.0", {"aten::reshape"});
  const Report report = compare_traces(older, newer);
  CHECK(report.status == Status::kReproducible);
  CHECK(report.coverage.replaced_baseline == 2);
  CHECK(report.coverage.replaced_candidate == 1);
  CHECK(report.coverage.missing_in_baseline + report.coverage.missing_in_candidate == 0);
  CHECK(std::ranges::any_of(said(report.warnings), [](const std::string& text) {
    return text.find("another release") != std::string::npos &&
           text.find("aten::reshape") != std::string::npos;
  }));
}

TEST_CASE("within one release it stays a divergence") {
  Trace one = by_way_of("2.13.0", {"aten::contiguous", "aten::view"});
  Trace other = by_way_of("2.13.0", {"aten::reshape"});
  const Report report = compare_traces(one, other);
  CHECK(report.status == Status::kDiverged);
  CHECK(report.coverage.replaced_baseline + report.coverage.replaced_candidate == 0);
}

TEST_CASE("an operator that one release has alone may leave nothing new") {
  Trace older = by_way_of("2.4.0", {"aten::view"});
  Trace newer = by_way_of("2.13.0", {"aten::contiguous", "aten::view"});
  CHECK(compare_traces(older, newer).status == Status::kReproducible);
  CHECK(compare_traces(newer, older).coverage.replaced_baseline == 1);
  newer.tensor("between0", {1, 2, 4});
  CHECK(compare_traces(older, newer).status == Status::kDiverged);
}

TEST_CASE("other results are a divergence between releases too") {
  Trace older = by_way_of("2.4.0", {"aten::mul", "aten::add"});
  Trace newer = by_way_of("2.13.0", {"aten::addcmul"}, {1, 2, 4});
  CHECK(compare_traces(older, newer).status == Status::kDiverged);
  // Nor is one that draws: what it leaves behind is seen in no tensor.
  Trace drawing = by_way_of("2.13.0", {"aten::reshape"});
  drawing.json()["ops"][1]["generator"] = {
      {"device", "cpu"}, {"seed", 0}, {"before", 0}, {"after", 4}, {"drawn", 4}};
  CHECK(compare_traces(older, drawing).status == Status::kDiverged);
}

}  // namespace
}  // namespace repro_check::comparators
