// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators {
namespace {

ordered_json in_module(const std::string& path) { return {{"module", path}}; }

TEST_CASE("operators are counted by module, fine or not, on either side") {
  Trace baseline("baseline");
  baseline.tensor("x", {1, 2, 3}).tensor("y", {4, 5, 6});
  baseline.op("aten::a", {"x"}, {"x"}, in_module("first"))
      .op("aten::b", {"x"}, {"y"}, in_module("second"))
      .op("aten::c", {"x"}, {"x"}, in_module("first"))
      .op("aten::d", {"x"}, {"x"}, in_module("left"));
  Trace candidate("candidate");
  candidate.tensor("x", {1, 2, 3}).tensor("y", {4, 5, 7});
  candidate.op("aten::a", {"x"}, {"x"}, in_module("first"))
      .op("aten::b", {"x"}, {"y"}, in_module("second"))
      .op("aten::c", {"x"}, {"x"}, in_module("first"));
  const Report report = compare_traces(baseline, candidate);
  REQUIRE(report.modules.size() == 3);
  CHECK(report.modules[0].path == "first");
  CHECK(report.modules[0].operators == 2);
  CHECK(report.modules[0].not_fine == 0);
  CHECK(report.modules[1].path == "second");
  CHECK(report.modules[1].operators == 1);
  CHECK(report.modules[1].not_fine == 1);
  CHECK(report.modules[2].path == "left");
  CHECK(report.modules[2].not_fine == 1);
  CHECK(report.modules[2].not_judged == 0);
}

TEST_CASE("names of modules are bounded in bytes, and every operator is judged all the same") {
  constexpr int kModules = 3000;
  const std::string long_name(2000, 'm');
  Trace trace("baseline");
  trace.tensor("x", {1});
  for (int i = 0; i < kModules; ++i) {
    trace.op("aten::a", {"x"}, {"x"}, in_module(long_name + std::to_string(i)));
  }
  const Report report = compare_traces(trace, trace);
  CHECK(report.coverage.equal == kModules);
  std::size_t bytes = 0;
  for (const ModuleTally& module : report.modules) bytes += module.path.size();
  CHECK(bytes <= std::size_t{4} << 20U);
  CHECK(bytes > std::size_t{4'000} << 10U);
}

}  // namespace
}  // namespace repro_check::comparators
