// SPDX-License-Identifier: Apache-2.0
// A file system of our own that is full, or read-only. Where the system does not let us mount one,
// the cases say that nothing was tested, by which ctest knows that it was skipped.
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "core/error.h"
#include "core/trace/dump.h"
#include "dumpers/journal/journal_writer.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/dump_writer.h"
#include "dumpers/store/recovery/recovery.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;

constexpr int kRight = 42;
constexpr int kCannotMount = 43;

/// Runs `work` in a child that has 2 MiB of its own at `place`.
int on_small_disk(const fs::path& place, const std::function<int()>& work) {
  fs::create_directory(place);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", place.c_str(), "tmpfs", 0, "size=2m") != 0) {
      ::_exit(kCannotMount);
    }
    try {
      ::_exit(work());
    } catch (...) {
      ::_exit(1);
    }
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) != kCannotMount) return WEXITSTATUS(status);
  MESSAGE("no file system can be mounted here: nothing was tested");
  return kRight;
}

/// Records tensors until the sink refuses, which must say why and how to mend it.
template <typename Sink>
int record_until_full(Sink& sink, std::uint64_t& appended) {
  try {
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const auto [key, bytes] = test_support::make_content(core::Dtype::kFloat32, {100, 200}, i);
      core::OpRecord record = test_support::make_sample(1, 0).ops.front();
      record.index = i;
      record.tensors.resize(1);
      record.tensors[0].dtype = key.dtype;
      record.tensors[0].shape = key.shape;
      record.tensors[0].digest = key.digest;
      sink.enter(record);
      sink.put_content(key, bytes);
      sink.append(record);
      appended = i + 1;
    }
  } catch (const core::Error& error) {
    sink.fail(error.what());
    return error.kind() == ErrorKind::kIo && !error.hint().empty() ? kRight : 2;
  }
  return 3;
}

TEST_CASE("a full disk is told, and what was recorded before is recovered") {
  const test_support::TempDirectory directory;
  const fs::path small = directory / "small";
  const int code = on_small_disk(small, [&] {
    std::uint64_t appended = 0;
    {
      journal::JournalSink sink(small / "dump");
      if (const int wrong = record_until_full(sink, appended); wrong != kRight) return wrong;
    }
    const core::TraceSummary summary = recover_dump(small / "dump", directory / "copy", {});
    if (summary.operators != appended || appended < 10 || !summary.partial) return 4;
    core::verify_contents(*open_dump(directory / "copy"));
    // There is no room to recover in place: the recording stays as it is.
    try {
      recover_dump(small / "dump", std::nullopt, {});
      return 5;
    } catch (const core::Error& error) {
      if (error.kind() != ErrorKind::kIo) return 6;
    }
    return recover_dump(small / "dump", directory / "again", {}).operators == appended ? kRight : 7;
  });
  CHECK(code == kRight);
}

TEST_CASE("a full disk is told by a dump as well") {
  const test_support::TempDirectory directory;
  const fs::path small = directory / "small";
  const int code = on_small_disk(small, [&] {
    std::uint64_t appended = 0;
    DumpWriter writer(small / "dump", {});
    return record_until_full(writer, appended);
  });
  CHECK(code == kRight);
}

TEST_CASE("a read-only directory is told before anything is recorded") {
  const test_support::TempDirectory directory;
  const fs::path small = directory / "small";
  const int code = on_small_disk(small, [&] {
    if (::mount("none", small.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return 2;
    const auto refused = [](const std::function<void()>& make) {
      try {
        make();
      } catch (const core::Error& error) {
        return error.kind() == ErrorKind::kIo &&
               std::string(error.what()).find("Read-only") != std::string::npos;
      }
      return false;
    };
    const bool right = refused([&] { const DumpWriter writer(small / "dump", {}); }) &&
                       refused([&] { const journal::JournalSink sink(small / "dump"); });
    return right ? kRight : 3;
  });
  CHECK(code == kRight);
}

}  // namespace
}  // namespace repro_check::store
