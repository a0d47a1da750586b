// SPDX-License-Identifier: Apache-2.0
#include "cmd/space_estimate.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "tests/support/temp_directory.h"

namespace repro_check::cmd {
namespace {

RecordingJob job_named(const std::string& name) {
  RecordingJob job;
  job.run.name = name;
  job.dump = "out/" + name;
  return job;
}

TEST_CASE("a run is refused that needs more than is free, with the estimate and its reason") {
  const SpaceEstimate estimate{1'200'000'000, "as baseline took"};
  const auto refused = refuse_for_space(job_named("candidate"), estimate, 300'000'000);
  REQUIRE(refused);
  CHECK_FALSE(refused->totals);
  CHECK(refused->summary.name == "candidate");
  CHECK(refused->summary.status == "failed");
  CHECK(refused->summary.message ==
        "out/candidate: needs about 1.2 GB (as baseline took), 300 MB are free");
  CHECK(refused->hint.find("dump.directory") != std::string::npos);
  CHECK_FALSE(refuse_for_space(job_named("candidate"), estimate, estimate.bytes));
}

TEST_CASE("the next run of the same calls takes what the first took; another one is not guessed") {
  const test_support::TempDirectory directory;
  for (const char* name : {"a", "b"}) {
    std::ofstream(directory / name) << std::string(700, 'x');
  }
  configs::RunSpec done = job_named("baseline").run;
  configs::RunSpec next = job_named("candidate").run;
  next.seed = done.seed + 1;
  next.threads = 1;
  const auto estimate = estimate_from(done, directory.path(), next);
  REQUIRE(estimate);
  CHECK(estimate->bytes == 1400);
  CHECK(estimate->reason == "as baseline took");
  CHECK_FALSE(estimate_from(done, directory / "missing", next));

  configs::RunSpec other = next;
  other.dump.level = core::DumpLevel::kDigest;
  CHECK_FALSE(estimate_from(done, directory.path(), other));
  other = next;
  other.calls.resize(other.calls.size() + 1);
  CHECK_FALSE(estimate_from(done, directory.path(), other));
  other = next;
  other.dtype = core::Dtype::kFloat64;
  CHECK_FALSE(estimate_from(done, directory.path(), other));
}

TEST_CASE("no estimate where there is no dump, or a part of it is left out") {
  const test_support::TempDirectory directory;
  configs::RunSpec next = job_named("candidate").run;
  CHECK_FALSE(estimate_values(directory / "missing", next, {{0, 3}}));
  next.dump.slice.emplace();
  CHECK_FALSE(estimate_values(directory.path(), next, {{0, 3}}));
}

TEST_CASE("free space is asked of the nearest directory that is there") {
  const test_support::TempDirectory directory;
  const auto here = free_space(directory.path());
  const auto below = free_space(directory / "not" / "yet");
  REQUIRE(here.has_value() == below.has_value());
}

}  // namespace
}  // namespace repro_check::cmd
