// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/space.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "configs/parser/config_parser.h"
#include "core/system/file_descriptor.h"
#include "dumpers/store/dump_writer.h"
#include "tests/support/dump_fixture.h"
#include "tests/support/temp_directory.h"
#include "tests/support/writer_options.h"

namespace repro_check::cmd {
namespace {

RecordingJob job_named(const std::string& name) {
  RecordingJob job;
  job.run.name = name;
  job.dump = "out/" + name;
  return job;
}

/// Two operators on three distinct contents of 4,000 bytes each.
constexpr const char* kRecording = R"({
  "tensors": {"x": {"dtype": "float32", "shape": [1000], "fill": 1},
              "w": {"dtype": "float32", "shape": [10, 100], "fill": 2},
              "h": {"dtype": "float32", "shape": [1000], "fill": 3},
              "y": {"dtype": "float32", "shape": [1000], "fill": 3}},
  "ops": [{"operator": "aten::mul", "inputs": {"self": "x", "other": "w"}, "outputs": ["h"]},
          {"operator": "aten::relu", "inputs": {"self": "h"}, "outputs": ["y"]}]})";
constexpr std::uint64_t kContents = 12'000;
constexpr std::uint64_t kContentsOfRelu = 4'000;

void write_recording(const std::filesystem::path& place,
                     const configs::RunSpec& run,
                     const store::DumpWriterOptions& options = {}) {
  test_support::DumpFixture fixture = test_support::parse_dump_fixture(kRecording);
  fixture.manifest.configuration = configs::to_json_text(run);
  fixture.manifest.trace.level = core::name_of(run.dump.level);
  store::DumpWriter writer(place, options);
  if (run.dump.level == core::DumpLevel::kTensor) {
    test_support::put_contents(fixture, writer);
  } else {
    for (core::OpRecord& op : fixture.ops) {
      for (core::TensorRecord& tensor : op.tensors) tensor.stored = false;
    }
  }
  for (const core::OpRecord& op : fixture.ops) {
    writer.enter(op);
    writer.append(op);
  }
  writer.finish(fixture.manifest);
}

std::uint64_t size_of(const std::filesystem::path& dump) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dump)) bytes += entry.file_size();
  return bytes;
}

/// A job of a model that is there, recorded into `directory`.
RecordingJob job_in(const test_support::TempDirectory& directory, core::DumpLevel level) {
  RecordingJob job = job_named("baseline");
  job.dump = directory / "baseline";
  job.run.model.path = directory / "m.pt";
  job.run.dump.level = level;
  std::ofstream(job.run.model.path) << "model";
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
  next.seed = done.seed.value() + 1;
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
  RecordingJob next = job_named("candidate");
  CHECK_FALSE(estimate_values(directory / "missing", next, {{0, 3}}));
  next.run.dump.slice.emplace();
  CHECK_FALSE(estimate_values(directory.path(), next, {{0, 3}}));
}

TEST_CASE("digests tell what the values take: each content once, none that the reference holds") {
  const test_support::TempDirectory directory;
  RecordingJob digests = job_in(directory, core::DumpLevel::kDigest);
  write_recording(digests.dump, digests.run);
  const std::uint64_t records = size_of(digests.dump);
  RecordingJob next = job_in(directory, core::DumpLevel::kTensor);
  const auto bytes = [&](const core::OpRanges& operators) {
    const auto estimate = estimate_values(digests.dump, next, operators);
    REQUIRE(estimate);
    return estimate->bytes - records;
  };
  CHECK(bytes({}) == kContents);
  CHECK(bytes({{0, 1}}) == kContents);
  CHECK(bytes({{1, 1}}) == kContentsOfRelu);
  CHECK(bytes({{1, 7}}) == kContentsOfRelu);
  CHECK(estimate_values(digests.dump, next, {})->reason == "the values of every op");
  CHECK(estimate_values(digests.dump, next, {{1, 1}})->reason == "the values of op 1");

  // A recording may well be measured that takes what the estimate says.
  const RecordingJob whole = job_in(directory, core::DumpLevel::kTensor);
  write_recording(directory / "whole", whole.run);
  CHECK(static_cast<double>(size_of(directory / "whole")) <=
        1.5 * static_cast<double>(kContents + records));
  CHECK(size_of(directory / "whole") >= kContents);

  next.run.dump.max_bytes = 5'000;
  CHECK(bytes({}) == 5'000);
  next.run.dump.max_bytes.reset();
  // Its own dump is no reference.
  next.run.dump.reference = next.dump;
  CHECK(bytes({}) == kContents);
  next.run.dump.reference = directory / "whole";
  CHECK(bytes({}) == 0);
  next.run.dump.reference = directory / "missing";
  CHECK_FALSE(estimate_values(digests.dump, next, {}));
}

TEST_CASE("an earlier dump of the same configuration tells the size, as long as nothing changed") {
  const test_support::TempDirectory directory;
  const RecordingJob job = job_in(directory, core::DumpLevel::kTensor);
  CHECK_FALSE(estimate_from_earlier(job));
  write_recording(job.dump, job.run);
  const auto estimate = estimate_from_earlier(job);
  REQUIRE(estimate);
  CHECK(estimate->bytes == size_of(job.dump));
  CHECK(estimate->reason == "as " + job.dump.string() + " took");

  RecordingJob other = job;
  other.run.seed = 5;
  CHECK_FALSE(estimate_from_earlier(other));
  other = job;
  other.run.dump.level = core::DumpLevel::kDigest;
  CHECK_FALSE(estimate_from_earlier(other));

  const auto finished = std::filesystem::last_write_time(job.dump / "manifest.json");
  std::filesystem::last_write_time(job.run.model.path, finished + std::chrono::seconds(1));
  CHECK_FALSE(estimate_from_earlier(job));
}

TEST_CASE("digests set aside tell what a recording of tensors of the same configuration takes") {
  const test_support::TempDirectory directory;
  RecordingJob job = job_in(directory, core::DumpLevel::kDigest);
  const std::filesystem::path aside = digest_directory(job.dump);
  write_recording(aside, job.run);
  const auto alike = estimate_from_earlier(job);
  REQUIRE(alike);
  CHECK(alike->bytes == size_of(aside));

  job.run.dump.level = core::DumpLevel::kTensor;
  const auto values = estimate_from_earlier(job);
  REQUIRE(values);
  CHECK(values->bytes == size_of(aside) + kContents);
  CHECK(values->reason == "the tensors whose digests " + aside.string() + " holds");
  job.run.dump.keep_ops = {{1, 1}};
  REQUIRE(estimate_from_earlier(job));
  CHECK(estimate_from_earlier(job)->bytes == size_of(aside) + kContentsOfRelu);
  job.run.dump.exclude = {"aten::relu"};
  CHECK_FALSE(estimate_from_earlier(job));

  std::ofstream(aside / "trace.h5", std::ios::trunc) << "damaged";
  job.run.dump.exclude.clear();
  CHECK_FALSE(estimate_from_earlier(job));
}

TEST_CASE("what a run is given: its files, and the inputs that are made, however deep") {
  const test_support::TempDirectory directory;
  std::ofstream(directory / "m.pt") << std::string(1000, 'm');
  std::ofstream(directory / "x.npy") << std::string(200, 'x');
  configs::RunSpec run;
  run.model.path = directory / "m.pt";
  CHECK(given_bytes(run) == 1000);
  configs::GeneratedInput made;
  made.shape = {2, 3};
  made.dtype = core::Dtype::kFloat64;
  const configs::InputSpec leaf{"", "", made};
  using File = configs::FileInput;
  using Container = configs::ContainerInput;
  const configs::InputSpec file{"", "", File{File::Kind::kNpy, directory / "x.npy"}};
  const configs::InputSpec missing{"", "", File{File::Kind::kTorch, directory / "missing.pt"}};
  const configs::InputSpec tuple{"k", "", Container{Container::Kind::kTuple, {leaf}}};
  run.calls = {{leaf},
               {{"", "", Container{Container::Kind::kList, {leaf, file}}},
                {"", "", Container{Container::Kind::kDict, {tuple}}},
                missing}};
  CHECK(given_bytes(run) == 1000 + 3 * 48 + 200);
  std::ofstream(directory / "other.pt") << std::string(200, 'w');
  run.model.weights_from = directory / "other.pt";
  CHECK(given_bytes(run) == 1000 + 3 * 48 + 2 * 200);

  made.shape = {std::int64_t{1} << 40U, std::int64_t{1} << 40U};
  run.calls = {{{"", "", made}}};
  CHECK(given_bytes(run) == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("room is scarce below 50 times what the run is given, and always below 1 GiB") {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
  CHECK(is_scarce(kGiB - 1, 0));
  CHECK_FALSE(is_scarce(kGiB, 0));
  CHECK_FALSE(is_scarce(50 * kGiB, kGiB));
  CHECK(is_scarce(50 * kGiB - 1, kGiB));
  CHECK(is_scarce(kGiB, std::numeric_limits<std::uint64_t>::max()));
}

TEST_CASE("free space is asked of the nearest directory that is there") {
  const test_support::TempDirectory directory;
  const auto here = core::free_space(directory.path());
  const auto below = core::free_space(directory / "not" / "yet");
  REQUIRE(here.has_value() == below.has_value());
}

}  // namespace
}  // namespace repro_check::cmd
