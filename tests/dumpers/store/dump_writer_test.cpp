// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/dump_writer.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "core/error.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/dump_reader.h"
#include "tests/dumpers/journal/random_record.h"
#include "tests/dumpers/store/error_of.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using test_support::contains;
using test_support::error_of;
using test_support::make_sample;
using test_support::Sample;
using test_support::TempDirectory;

constexpr DumpWriterOptions kReplace{.replace_existing = true};

TEST_CASE("what is there is not overwritten unasked") {
  const TempDirectory directory;
  const fs::path dump = directory / "dump";
  test_support::write_dump(dump, make_sample(1, 5));
  const std::string refusal =
      error_of(ErrorKind::kUsage, [&] { const DumpWriter writer(dump, {}); });
  CHECK(contains(refusal, "a dump is already there"));
  CHECK(contains(refusal, "--force"));

  fs::remove(dump / "manifest.json");
  CHECK(
      contains(error_of(ErrorKind::kUsage, [&] { const DumpWriter writer(dump, {}); }), "--force"));
}

TEST_CASE("a replaced dump stays until the new one is complete") {
  const TempDirectory directory;
  const fs::path dump = directory / "dump/";
  const Sample old = make_sample(1, 5);
  const Sample fresh = make_sample(2, 9);
  test_support::write_dump(dump, old);
  {
    DumpWriter writer(dump, kReplace);
    CHECK(test_support::reads_back(*open_dump(dump), old));
    CHECK(fs::exists(directory / "dump.recording" / "journal.bin"));
    test_support::record(writer, fresh);
  }
  CHECK(test_support::reads_back(*open_dump(dump), fresh));
  CHECK_FALSE(fs::exists(directory / "dump.recording"));
}

TEST_CASE("a replacement that fails leaves the old dump, and can be tried again") {
  const TempDirectory directory;
  const fs::path dump = directory / "dump";
  const Sample old = make_sample(1, 5);
  test_support::write_dump(dump, old);
  {
    DumpWriter writer(dump, kReplace);
    writer.append(test_support::small_record(0));
    writer.fail("the model gave up");
  }
  CHECK(test_support::reads_back(*open_dump(dump), old));
  const auto reached = summarise_incomplete(dump);
  REQUIRE(reached.has_value());
  CHECK(reached->failure == "the model gave up");

  const Sample fresh = make_sample(2, 9);
  test_support::write_dump(dump, fresh, kReplace);
  CHECK(test_support::reads_back(*open_dump(dump), fresh));
  CHECK_FALSE(summarise_incomplete(dump).has_value());
}

TEST_CASE("an unfinished recording is replaced, and one under way is not") {
  const TempDirectory directory;
  const fs::path dump = directory / "dump";
  auto first = std::make_unique<DumpWriter>(dump, DumpWriterOptions{});
  CHECK(contains(error_of(ErrorKind::kUsage, [&] { const DumpWriter second(dump, kReplace); }),
                 "another recording"));
  first.reset();
  const Sample sample = make_sample(1, 5);
  test_support::write_dump(dump, sample, kReplace);
  CHECK(test_support::reads_back(*open_dump(dump), sample));
}

TEST_CASE("a directory with anything else in it is left alone, whatever was asked") {
  const TempDirectory directory;
  test_support::write_bytes(directory / "thesis.tex", "years of work");
  for (const DumpWriterOptions& options : {DumpWriterOptions{}, kReplace}) {
    CHECK(contains(
        error_of(ErrorKind::kUsage, [&] { const DumpWriter writer(directory.path(), options); }),
        "thesis.tex"));
  }
  CHECK(contains(error_of(ErrorKind::kUsage,
                          [&] { const DumpWriter writer(directory / "thesis.tex", kReplace); }),
                 "is a file"));
  CHECK(test_support::read_bytes(directory / "thesis.tex") == "years of work");
}

TEST_CASE("a link to a directory is followed, and stays a link") {
  const TempDirectory directory;
  fs::create_directory(directory / "real");
  fs::create_directory_symlink(directory / "real", directory / "link");
  const Sample sample = make_sample(1, 5);
  test_support::write_dump(directory / "link", sample);
  test_support::write_dump(directory / "link", sample, kReplace);
  CHECK(fs::is_symlink(directory / "link"));
  CHECK(test_support::reads_back(*open_dump(directory / "real"), sample));
}

TEST_CASE("a link in the place where a replacement is made is not followed") {
  const TempDirectory directory;
  const fs::path dump = directory / "dump";
  test_support::write_dump(dump, make_sample(1, 5));
  test_support::write_dump(directory / "mine", make_sample(2, 5));
  fs::create_directory_symlink(directory / "mine", directory / "dump.recording");
  CHECK(contains(error_of(ErrorKind::kUsage, [&] { const DumpWriter writer(dump, kReplace); }),
                 "is a link"));
  CHECK(open_dump(directory / "mine")->op_count() > 0);
}

TEST_CASE("a dump that is exchanged while it is opened is read as the old or the new one") {
  const TempDirectory directory;
  const fs::path one = directory / "one";
  const fs::path other = directory / "other";
  test_support::write_dump(one, make_sample(1, 5));
  test_support::write_dump(other, make_sample(2, 9));
  std::atomic<bool> stop = false;
  std::thread exchanging([&] {
    // No faster than recordings could ever be made.
    while (!stop) {
      ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  int opened = 0;
  try {
    while (opened < 300) opened += open_dump(one)->op_count() > 0 ? 1 : 0;
  } catch (const core::Error& error) {
    MESSAGE(std::string(error.what()));
  }
  stop = true;
  exchanging.join();
  CHECK(opened == 300);
}

TEST_CASE("the digest that finish() gives is what a reader finds") {
  const TempDirectory directory;
  const Sample sample = make_sample(1, 5);
  DumpWriter writer(directory / "dump", {});
  test_support::play(writer, sample);
  const core::Digest written = writer.finish(sample.manifest);
  CHECK(open_dump(directory / "dump")->manifest().digest == written);
}

TEST_CASE("a recording that failed cannot be finished") {
  const TempDirectory directory;
  const fs::path dump = directory / "dump";
  {
    DumpWriter writer(dump, {});
    writer.fail("no");
    error_of(ErrorKind::kInternal, [&] { writer.finish({}); });
  }
  CHECK_FALSE(fs::exists(dump / "manifest.json"));
  CHECK(fs::exists(dump / "journal.bin"));
}

TEST_CASE("records that got lost are noticed") {
  const TempDirectory directory;
  Sample sample = make_sample(1, 5);
  ++sample.manifest.trace.operators;
  CHECK(contains(
      error_of(ErrorKind::kInternal, [&] { test_support::write_dump(directory / "a", sample); }),
      "counted 31 operators"));
  sample = make_sample(1, 5);
  sample.ops.back().index = 0;
  CHECK(contains(
      error_of(ErrorKind::kInternal, [&] { test_support::write_dump(directory / "b", sample); }),
      "op 0"));
  CHECK_FALSE(fs::exists(directory / "b" / "manifest.json"));

  const auto [key, bytes] = test_support::make_content(core::Dtype::kFloat32, {4}, 1);
  DumpWriter writer(directory / "c", {});
  error_of(ErrorKind::kInternal,
           [&] { writer.put_content(key, std::span<const std::byte>(bytes).first(15)); });
  writer.put_content(key, bytes);
  writer.put_content(key, bytes);
  CHECK(writer.stored_bytes() == 16);
}

TEST_CASE("a directory that cannot be made is named") {
  const std::string refusal =
      error_of(ErrorKind::kIo, [] { const DumpWriter writer("/proc/no-such-place/dump", {}); });
  CHECK(contains(refusal, "/proc/no-such-place/dump"));
}

TEST_CASE("a link in the way of a file that is written is not followed") {
  const TempDirectory directory;
  const auto text_of = [&](const char* name) {
    std::ifstream file(directory / name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::ofstream(directory / "mine") << "mine";
  fs::create_symlink(directory / "mine", directory / "file.tmp");
  write_file_atomically(directory / "file", "text");
  CHECK(text_of("mine") == "mine");
  CHECK(text_of("file") == "text");
  CHECK_FALSE(fs::is_symlink(directory / "file"));
}

}  // namespace
}  // namespace repro_check::store
