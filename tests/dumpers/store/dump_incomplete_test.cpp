// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "core/error.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/dump_writer.h"
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
using test_support::TempDirectory;

TEST_CASE("an incomplete recording is refused, and says how far it came") {
  const TempDirectory directory;
  const fs::path dump = directory / "candidate";
  {
    DumpWriter writer(dump, {});
    for (std::uint64_t i = 0; i < 57; ++i) {
      const core::OpRecord record = test_support::small_record(i);
      writer.enter(record);
      writer.append(record);
    }
    const std::string running = error_of(ErrorKind::kDumpIncomplete, [&] { open_dump(dump); });
    CHECK(contains(running,
                   "57 operators whole; the last was op 56 aten::add.Tensor "
                   "(encoder.layers.3.linear1, model.py:123)"));
    CHECK(contains(running, "still being recorded"));
    const core::OperatorInfo conv{"aten::conv2d", "", false};
    const core::CallSite site{"backbone.conv1", "Conv2d", {{"/src/model.py", 40, "forward"}}};
    writer.enter(
        {57, std::make_shared<core::OperatorInfo>(conv), std::make_shared<core::CallSite>(site)});
    writer.fail("out of memory");
  }
  for (const fs::path& path : {dump, dump / "trace.h5"}) {
    CHECK(contains(error_of(ErrorKind::kDumpIncomplete, [&] { open_dump(path); }),
                   path.string() + ": incomplete recording: 57 operators whole; op 57 aten::conv2d "
                                   "(backbone.conv1, model.py:40) did not return; out of memory"));
  }
  CHECK(summarise_incomplete(dump)->completed == 57);
  fs::remove(dump / "journal.bin");
  CHECK(contains(error_of(ErrorKind::kDumpIncomplete, [&] { open_dump(dump); }),
                 "incomplete recording"));
  CHECK_FALSE(summarise_incomplete(dump).has_value());
}

TEST_CASE("what is no dump is told what it is instead") {
  const TempDirectory directory;
  CHECK(contains(error_of(ErrorKind::kDumpUnknown, [&] { open_dump(directory / "nowhere"); }),
                 "nowhere: no such directory"));
  CHECK(contains(error_of(ErrorKind::kDumpUnknown, [&] { open_dump(directory.path()); }),
                 "there is no dump in this directory"));
  test_support::write_bytes(directory / "notes.txt", "hello");
  CHECK(contains(error_of(ErrorKind::kDumpUnknown, [&] { open_dump(directory / "notes.txt"); }),
                 "is a file, not a dump"));
  const auto sample = test_support::make_sample(1, 0);
  test_support::write_dump(directory / "baseline", sample);
  test_support::write_dump(directory / "candidate", sample);
  const std::string hint = error_of(ErrorKind::kDumpUnknown, [&] { open_dump(directory.path()); });
  CHECK(contains(hint, "did you mean"));
  CHECK(contains(hint, "baseline or "));
}

TEST_CASE("a pipe in the place of a file does not hang the reader") {
  const TempDirectory directory;
  const fs::path dump = directory / "dump";
  test_support::write_dump(dump, test_support::make_sample(1, 0));
  fs::remove(dump / "trace.h5");
  REQUIRE(::mkfifo((dump / "trace.h5").c_str(), 0600) == 0);
  CHECK(contains(error_of(ErrorKind::kDumpDamaged, [&] { open_dump(dump); }), "is not a file"));
  fs::remove(dump / "manifest.json");
  REQUIRE(::mkfifo((dump / "manifest.json").c_str(), 0600) == 0);
  error_of(ErrorKind::kDumpDamaged, [&] { open_dump(dump); });
}

TEST_CASE("killed at any instant of recording or finishing, a dump is refused or whole") {
  const auto sample = test_support::make_sample(1, 300);
  using Clock = std::chrono::steady_clock;
  const TempDirectory unharmed;
  const auto begin = Clock::now();
  test_support::write_dump(unharmed / "dump", sample);
  const auto whole_time =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
  std::mt19937_64 random(99);
  int whole = 0;
  int refused = 0;
  for (int trial = 0; trial < 24; ++trial) {
    const TempDirectory directory;
    const fs::path dump = directory / "dump";
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      test_support::write_dump(dump, sample);
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(random() % static_cast<std::uint64_t>(whole_time * 5 / 4)));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    try {
      const bool same = test_support::reads_back(*open_dump(dump), sample);
      CHECK(same);
      ++whole;
    } catch (const core::Error& error) {
      INFO(error.what());
      CHECK(
          (error.kind() == ErrorKind::kDumpIncomplete || error.kind() == ErrorKind::kDumpUnknown));
      ++refused;
    }
  }
  MESSAGE("whole ", whole, ", refused ", refused);
  CHECK(refused + whole == 24);
}

TEST_CASE("killed at any instant of replacing a dump, the old or the new one is there, whole") {
  const auto old = test_support::make_sample(1, 10);
  const auto fresh = test_support::make_sample(2, 60);
  std::mt19937_64 random(100);
  for (int trial = 0; trial < 12; ++trial) {
    const TempDirectory directory;
    const fs::path dump = directory / "dump";
    test_support::write_dump(dump, old);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      test_support::write_dump(dump, fresh, {.replace_existing = true});
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(random() % 150'000));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    const auto opened = open_dump(dump);
    const bool same =
        test_support::reads_back(*opened, opened->op_count() == old.ops.size() ? old : fresh);
    CHECK(same);
    // Whatever was left beside it does not stand in the way of the next one.
    test_support::write_dump(dump, fresh, {.replace_existing = true});
    CHECK(test_support::reads_back(*open_dump(dump), fresh));
    CHECK_FALSE(fs::exists(directory / "dump.recording"));
  }
}

constexpr int kRefusedAsAgreed = 42;

/// Runs in a child: a file size limit stands in for a full disk.
int record_until_refused(const fs::path& dump, rlim_t limit, std::size_t elements) {
  const rlimit size{limit, limit};
  std::signal(SIGXFSZ, SIG_DFL);
  if (::setrlimit(RLIMIT_FSIZE, &size) != 0) return 1;
  try {
    DumpWriter writer(dump, {});
    try {
      for (std::uint64_t i = 0; i < 10'000; ++i) {
        const auto [key, bytes] = test_support::make_content(
            core::Dtype::kFloat32, {static_cast<std::int64_t>(elements)}, i);
        writer.put_content(key, bytes);
      }
      core::RunManifest manifest;
      writer.finish(manifest);
    } catch (const core::Error& error) {
      const bool right = error.kind() == ErrorKind::kIo && !error.hint().empty() &&
                         contains(error.what(), elements > 8192 ? "trace.h5" : "journal.bin");
      writer.fail(error.what());
      if (!right) return 2;
    }
  } catch (...) {
    return 3;
  }
  return kRefusedAsAgreed;
}

TEST_CASE("when the disk is full, an error says so and the dump stays incomplete") {
  // Large tensors fail in the thread that writes them, small ones in the journal.
  for (const std::size_t elements : {std::size_t{100'000}, std::size_t{1000}}) {
    const TempDirectory directory;
    const fs::path dump = directory / "dump";
    std::fflush(nullptr);  // the child ends by exit(), so that HDF5 may try to clean up
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) std::exit(record_until_refused(dump, rlim_t{3} << 20U, elements));
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == kRefusedAsAgreed);
    const std::string refusal = error_of(ErrorKind::kDumpIncomplete, [&] { open_dump(dump); });
    CHECK(contains(refusal, elements > 8192 ? "trace.h5" : "journal.bin"));
  }
}

}  // namespace
}  // namespace repro_check::store
