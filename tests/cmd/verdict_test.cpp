// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/verdict.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cmd/words/report_words.h"
#include "tests/support/temp_directory.h"

namespace repro_check::cmd {
namespace {

using comparators::Report;
using comparators::Status;

Report with(Status status) {
  Report report;
  report.status = status;
  return report;
}

core::ExitCode worst(std::initializer_list<Status> statuses) {
  std::vector<Report> reports;
  for (const Status status : statuses) reports.push_back(with(status));
  return worst_exit(reports);
}

}  // namespace

TEST_CASE("the worst of several verdicts decides: 5, 3, 1, 4, 0") {
  CHECK(worst({Status::kReproducible, Status::kReproducible}) == core::ExitCode::kReproducible);
  CHECK(worst({Status::kReproducible, Status::kNotComparable}) == core::ExitCode::kNotComparable);
  CHECK(worst({Status::kNothingCompared, Status::kDiverged}) == core::ExitCode::kDivergence);
  CHECK(worst({Status::kDiverged, Status::kIncomplete}) == core::ExitCode::kDumpUnusable);
  CHECK(worst({Status::kDamaged, Status::kDiverged}) == core::ExitCode::kDumpUnusable);
  CHECK(worst({Status::kRunFailed, Status::kDamaged}) == core::ExitCode::kRunFailed);
}

TEST_CASE("several reports are one JSON document, and one report is one object") {
  const std::vector<Report> one{with(Status::kDiverged)};
  const std::vector<Report> two{with(Status::kDiverged), with(Status::kReproducible)};
  ReportStyle style;
  style.format = "json";
  CHECK(nlohmann::json::parse(render_reports(one, style)).is_object());
  const auto array = nlohmann::json::parse(render_reports(two, style));
  REQUIRE(array.is_array());
  CHECK(array.size() == 2);
  style.format = "text";
  style.options.verbosity = -1;
  const std::string quiet = render_reports(two, style);
  CHECK(std::count(quiet.begin(), quiet.end(), '\n') == 2);
}

TEST_CASE("only trouble with a dump becomes a report") {
  CHECK(unreadable_dump("d", core::Error(core::ErrorKind::kDumpIncomplete, "x"))->status ==
        Status::kIncomplete);
  CHECK(unreadable_dump("d", core::Error(core::ErrorKind::kDumpUnknown, "x"))->status ==
        Status::kDamaged);
  CHECK_FALSE(unreadable_dump("d", core::Error(core::ErrorKind::kNotComparable, "x")));
  CHECK_FALSE(unreadable_dump("d", core::Error(core::ErrorKind::kUsage, "x")));
}

TEST_CASE("a folder without a recording is a mistake of who named it, a damaged dump is none") {
  const test_support::TempDirectory folder;
  CHECK_THROWS_AS(judge(folder.path(), folder.path(), {}, {.named = true}), core::Error);
  CHECK(judge(folder.path(), folder.path(), {}).status == Status::kDamaged);
  std::ofstream(folder / "journal.bin").close();
  CHECK(judge(folder.path(), folder.path(), {}, {.named = true}).status == Status::kIncomplete);
}

TEST_CASE("two unreadable dumps are both named") {
  const test_support::TempDirectory folder;
  const Report report = judge(folder / "none", folder / "neither", {});
  CHECK(report.status == Status::kDamaged);
  CHECK(report.reasons.size() == 2);
  CHECK(report.runs.size() == 2);
  CHECK(report.runs[0].name == "none");
  CHECK_FALSE(mend_of(report).empty());
}

}  // namespace repro_check::cmd
