// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "core/digest/digest.h"
#include "core/error.h"
#include "dumpers/store/dump_reader.h"
#include "tests/dumpers/journal/random_record.h"
#include "tests/dumpers/journal/same_record.h"
#include "tests/dumpers/store/error_of.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

using test_support::contains;
using test_support::error_of;
using test_support::make_sample;
using test_support::Sample;
using test_support::TempDirectory;

TEST_CASE("every dtype, awkward shapes and random records survive") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const TempDirectory directory;
    const Sample sample = make_sample(seed, 200);
    test_support::write_dump(directory / "dump", sample);
    const auto dump = open_dump(directory / "dump");
    CHECK(dump->location() == (directory / "dump").string());
    CHECK(test_support::reads_back(*dump, sample));
    CHECK_FALSE(std::filesystem::exists(directory / "dump" / "journal.bin"));
  }
}

TEST_CASE("records may end in another order than they began") {
  const TempDirectory directory;
  Sample sample = make_sample(1, 30);
  std::swap(sample.ops[26], sample.ops[29]);
  std::swap(sample.ops[3], sample.ops[7]);
  test_support::write_dump(directory / "dump", sample);
  std::swap(sample.ops[26], sample.ops[29]);
  std::swap(sample.ops[3], sample.ops[7]);
  CHECK(test_support::reads_back(*open_dump(directory / "dump"), sample));
}

TEST_CASE("a trace larger than the reader's blocks is read in any order") {
  const TempDirectory directory;
  Sample sample = make_sample(1, 0);
  while (sample.ops.size() < 30'000) {
    sample.ops.push_back(test_support::small_record(sample.ops.size()));
    sample.manifest.trace.tensors += sample.ops.back().tensors.size();
  }
  sample.manifest.trace.operators = sample.ops.size();
  test_support::write_dump(
      directory / "dump", sample, {.browse = DumpWriterOptions::Browse::kNever});
  const auto dump = open_dump(directory / "dump");
  CHECK(test_support::reads_back(*dump, sample));
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t index = random() % sample.ops.size();
    REQUIRE(test_support::same_record(dump->op(index), sample.ops[index]));
  }
}

TEST_CASE("equal recordings give equal bytes") {
  const TempDirectory directory;
  const Sample sample = make_sample(2, 20);
  for (const char* name : {"a", "b"}) test_support::write_dump(directory / name, sample);
  for (const char* file : {"trace.h5", "manifest.json"}) {
    CHECK(test_support::read_bytes(directory / "a" / file) ==
          test_support::read_bytes(directory / "b" / file));
  }
}

TEST_CASE("the same dump can be open twice, and read from two threads in turn") {
  const TempDirectory directory;
  const Sample sample = make_sample(3, 20);
  test_support::write_dump(directory / "dump", sample);
  const auto first = open_dump(directory / "dump");
  const auto second = open_dump(directory / "dump" / "manifest.json");
  std::atomic<int> good = 0;
  std::thread other([&] { good += test_support::reads_back(*second, sample) ? 1 : 0; });
  good += test_support::reads_back(*first, sample) ? 1 : 0;
  other.join();
  CHECK(good == 2);
}

TEST_CASE(
    "content that is not stored is not comparable, and an unknown digest cannot be verified") {
  const TempDirectory directory;
  Sample sample = make_sample(4, 0);
  sample.manifest.trace.digest_algorithm = "sha-of-the-future";
  test_support::write_dump(directory / "dump", sample);
  const auto dump = open_dump(directory / "dump" / "trace.h5");
  std::vector<std::byte> bytes;
  const core::ContentKey absent{core::Dtype::kFloat32, {2}, {1, 2}};
  CHECK_FALSE(dump->has_content(absent));
  CHECK(contains(
      error_of(core::ErrorKind::kNotComparable, [&] { dump->read_content(absent, bytes); }),
      core::content_name(absent) + " is not stored"));
  CHECK(contains(error_of(core::ErrorKind::kNotComparable,
                          [&] { dump->read_content(sample.contents.begin()->first, bytes); }),
                 "sha-of-the-future"));
}

TEST_CASE("a trace without operators is a dump") {
  const TempDirectory directory;
  Sample sample;
  sample.manifest.trace.digest_algorithm = core::kDigestAlgorithm;
  test_support::write_dump(directory / "dump", sample);
  CHECK(open_dump(directory / "dump")->op_count() == 0);
}

TEST_CASE("the version of the library is known") { CHECK(contains(hdf5_version(), ".")); }

}  // namespace
}  // namespace repro_check::store
