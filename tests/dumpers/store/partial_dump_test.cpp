// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/trace/dump.h"
#include "dumpers/journal/journal_writer.h"
#include "dumpers/store/recovery/recovery.h"
#include "tests/dumpers/journal/same_record.h"
#include "tests/dumpers/store/error_of.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using test_support::error_of;
using test_support::same_record;
using test_support::TempDirectory;

TEST_CASE("an unfinished recording is read where it lies, also while it is being written") {
  const TempDirectory directory;
  const fs::path place = directory / "place";
  const auto sample = test_support::make_sample(9, 30);
  {
    journal::JournalSink sink(place);
    test_support::play(sink, sample);
    const auto dump = open_partial(place);
    CHECK(test_support::reads_back(*dump, sample));
    CHECK(dump->manifest().trace.partial.has_value());
  }
  for (const fs::path& path : {place, place / "journal.bin"}) {
    const auto dump = open_partial(path);
    CHECK(test_support::reads_back(*dump, sample));
    CHECK(dump->op_head(2).tensors.empty());
    const bool backwards =
        same_record(dump->op(30), sample.ops[30]) && same_record(dump->op(1), sample.ops[1]);
    CHECK(backwards);
  }
}

TEST_CASE("it says the same as the dump that is recovered from it") {
  const TempDirectory directory;
  const fs::path place = directory / "place";
  const auto sample = test_support::make_sample(10, 10);
  {
    journal::JournalSink sink(place);
    test_support::play(sink, sample);
  }
  fs::resize_file(place / "contents.bin", fs::file_size(place / "contents.bin") / 2);
  recover_dump(place, directory / "dump", {});
  const auto before = open_partial(place);
  const auto after = open_partial(directory / "dump");
  REQUIRE(before->op_count() == after->op_count());
  bool same = true;
  for (std::uint64_t i = 0; i < after->op_count(); ++i) {
    same = same && same_record(before->op(i), after->op(i));
  }
  CHECK(same);
  CHECK(before->manifest().trace.partial->last == after->manifest().trace.partial->last);
  CHECK(before->manifest().run_name == after->manifest().run_name);
  core::verify_contents(*before);
  for (const auto& [key, bytes] : sample.contents) {
    CHECK(before->has_content(key) == after->has_content(key));
    if (before->has_content(key)) continue;
    std::vector<std::byte> none;
    error_of(ErrorKind::kNotComparable, [&] { before->read_content(key, none); });
  }
}

TEST_CASE("where there is nothing to read, it says so") {
  const TempDirectory directory;
  error_of(ErrorKind::kDumpUnknown, [&] { open_partial(directory.path()); });
  error_of(ErrorKind::kDumpUnknown, [&] { open_partial(directory / "nowhere"); });
  fs::create_directory(directory / "empty");
  test_support::write_bytes(directory / "empty" / "journal.bin", "");
  const auto empty = open_partial(directory / "empty");
  CHECK(empty->op_count() == 0);
  CHECK(empty->manifest().trace.partial->reason == "stopped before its first operator");
}

}  // namespace
}  // namespace repro_check::store
