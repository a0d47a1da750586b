// SPDX-License-Identifier: Apache-2.0
// Writes the JSON report of every handmade report and of many random ones, one document a line:
// what the schema test validates.
#include <cstdio>

#include "cmd/render/render.h"
#include "tests/cmd/render_reports.h"

int main() {
  constexpr std::uint32_t kRandomReports = 100;
  for (const auto& each : repro_check::tests::handmade_reports()) {
    std::fputs(repro_check::cmd::render_json(each.report, each.options).c_str(), stdout);
  }
  for (std::uint32_t seed = 0; seed < kRandomReports; ++seed) {
    const auto report = repro_check::tests::random_report(seed);
    std::fputs(repro_check::cmd::render_json(report, {}).c_str(), stdout);
  }
  return 0;
}
