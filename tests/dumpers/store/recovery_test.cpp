// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/recovery/recovery.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "core/error.h"
#include "core/trace/dump.h"
#include "dumpers/journal/journal_writer.h"
#include "dumpers/store/dump_reader.h"
#include "tests/dumpers/journal/random_record.h"
#include "tests/dumpers/journal/same_record.h"
#include "tests/dumpers/store/error_of.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using test_support::contains;
using test_support::error_of;
using test_support::read_bytes;
using test_support::same_record;
using test_support::TempDirectory;

/// Records `sample` without HDF5.
void write_journal(const fs::path& directory, const test_support::Sample& sample, bool finish) {
  journal::JournalSink sink(directory);
  test_support::play(sink, sample);
  if (finish) sink.finish(sample.manifest);
}

TEST_CASE("an imported journal is the dump that a direct recording would have made") {
  const TempDirectory directory;
  const auto sample = test_support::make_sample(3, 40);
  test_support::write_dump(directory / "direct", sample);
  write_journal(directory / "recording", sample, true);
  CHECK(fs::exists(directory / "recording" / "contents.bin"));
  CHECK_FALSE(fs::exists(directory / "recording" / "trace.h5"));

  import_journal(directory / "recording", directory / "imported", {});
  const auto direct = open_dump(directory / "direct");
  const auto imported = open_dump(directory / "imported");
  CHECK(imported->manifest().trace.index_digest == direct->manifest().trace.index_digest);
  CHECK(test_support::reads_back(*imported, sample));
  CHECK_FALSE(imported->manifest().trace.partial.has_value());
  CHECK(read_bytes(directory / "imported" / "manifest.json") ==
        read_bytes(directory / "direct" / "manifest.json"));
  const bool same_trace = read_bytes(directory / "imported" / "trace.h5") ==
                          read_bytes(directory / "direct" / "trace.h5");
  CHECK(same_trace);
  CHECK_FALSE(fs::exists(directory / "imported" / "journal.bin"));

  SUBCASE("the journal can be named itself, and a dump is replaced when that is asked for") {
    const fs::path journal = directory / "recording" / "journal.bin";
    CHECK(contains(
        error_of(ErrorKind::kUsage, [&] { import_journal(journal, directory / "imported", {}); }),
        "already there"));
    import_journal(journal, directory / "imported", {.replace_existing = true});
    CHECK(test_support::reads_back(*open_dump(directory / "imported"), sample));
  }
}

TEST_CASE("roots of modules have the names in a dump that the recording gave them in its end") {
  const TempDirectory directory;
  auto sample = test_support::make_sample(3, 40);
  for (core::OpRecord& record : sample.ops) {
    auto site = std::make_shared<core::CallSite>();
    site->module_path = record.index % 2 == 0 ? "Net@main:1.head" : "Net@main:0.head";
    record.site = std::move(site);
  }
  {
    journal::JournalSink sink(directory / "recording");
    test_support::play(sink, sample);
    sink.name_roots({{"Net@main:1", "Net@main:0"}, {"Net@main:0", ""}});
    sink.finish(sample.manifest);
  }
  import_journal(directory / "recording", directory / "imported", {});
  for (const char* place : {"recording", "imported"}) {
    const auto source = open_partial(directory / place);
    for (const core::OpRecord& record : sample.ops) {
      CHECK(source->op(record.index).site->module_path ==
            (record.index % 2 == 0 ? "Net@main:0.head" : "head"));
    }
  }
}

TEST_CASE("a journal that never finished, or is damaged, is not imported") {
  const TempDirectory directory;
  const auto sample = test_support::make_sample(4, 5);
  write_journal(directory / "cut", sample, false);
  CHECK(contains(error_of(ErrorKind::kDumpIncomplete,
                          [&] { import_journal(directory / "cut", directory / "dump", {}); }),
                 "repro-check recover"));
  CHECK_FALSE(fs::exists(directory / "dump"));

  write_journal(directory / "damaged", sample, true);
  std::string bytes = read_bytes(directory / "damaged" / "contents.bin");
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  test_support::write_bytes(directory / "damaged" / "contents.bin", bytes);
  CHECK(contains(error_of(ErrorKind::kDumpDamaged,
                          [&] { import_journal(directory / "damaged", directory / "dump", {}); }),
                 "the bytes of 1 tensors do not match"));
  error_of(ErrorKind::kDumpIncomplete, [&] { open_dump(directory / "dump"); });
  CHECK(contains(error_of(ErrorKind::kDumpUnknown,
                          [&] { import_journal(directory / "no", directory / "dump", {}); }),
                 "no journal"));
}

TEST_CASE("what was recorded is recovered, in place or elsewhere, and marked partial") {
  const TempDirectory directory;
  const auto sample = test_support::make_sample(5, 20);
  const fs::path killed = directory / "killed";
  write_journal(killed, sample, false);
  const std::string before = read_bytes(killed / "journal.bin");

  const core::TraceSummary summary = recover_dump(killed, directory / "copy", {});
  CHECK(summary.operators == sample.ops.size());
  CHECK(read_bytes(killed / "journal.bin") == before);
  recover_dump(killed, std::nullopt, {});
  CHECK_FALSE(fs::exists(directory / "killed.recording"));
  for (const fs::path& place : {directory / "copy", killed}) {
    const auto dump = open_dump(place);
    CHECK(test_support::reads_back(*dump, sample));
    const auto& partial = dump->manifest().trace.partial;
    REQUIRE(partial.has_value());
    CHECK(partial->reason.starts_with("stopped after op 44"));
    CHECK(partial->last == sample.ops.back().index);
    CHECK(partial->unfinished.empty());
    CHECK(partial->lost_contents == 0);
  }
  CHECK(contains(error_of(ErrorKind::kUsage, [&] { recover_dump(killed, std::nullopt, {}); }),
                 "a complete dump: there is nothing to do"));
}

TEST_CASE("a recording that was killed when all was recorded is recovered as a whole one") {
  const TempDirectory directory;
  const auto sample = test_support::make_sample(6, 5);
  write_journal(directory / "killed", sample, true);
  recover_dump(directory / "killed", std::nullopt, {});
  const auto dump = open_dump(directory / "killed");
  CHECK(test_support::reads_back(*dump, sample));
  CHECK_FALSE(dump->manifest().trace.partial.has_value());
}

TEST_CASE("tensors whose bytes never arrived stay with their digest, and are counted") {
  const TempDirectory directory;
  const auto sample = test_support::make_sample(7, 5);
  const fs::path killed = directory / "killed";
  write_journal(killed, sample, true);
  fs::resize_file(killed / "contents.bin", fs::file_size(killed / "contents.bin") - 1);
  const core::TraceSummary summary = recover_dump(killed, std::nullopt, {});
  REQUIRE(summary.partial.has_value());
  CHECK(summary.partial->lost_contents == 1);
  CHECK(contains(summary.partial->reason, "the bytes of 1 tensor never reached the disk"));
  const auto dump = open_dump(killed);
  std::size_t missing = 0;
  for (const core::OpRecord& expected : sample.ops) {
    const core::OpRecord op = dump->op(expected.index);
    for (std::size_t i = 0; i < op.tensors.size(); ++i) {
      missing += expected.tensors[i].stored && !op.tensors[i].stored ? 1U : 0U;
      CHECK(op.tensors[i].digest == expected.tensors[i].digest);
    }
  }
  CHECK(missing == 1);
  core::verify_contents(*dump);
}

TEST_CASE("calls that were never left keep their place among those inside them") {
  const TempDirectory directory;
  const fs::path killed = directory / "killed";
  {
    journal::JournalSink sink(directory / "killed");
    for (std::uint64_t i = 0; i < 6; ++i) {
      core::OpRecord record = test_support::small_record(i);
      record.depth = i < 2 ? 0 : 1;
      record.parent = i < 2 ? -1 : 1;
      sink.enter(record);
      if (i != 1 && i != 5) sink.append(record);
    }
  }
  recover_dump(killed, std::nullopt, {});
  const auto dump = open_dump(killed);
  REQUIRE(dump->op_count() == 5);
  REQUIRE(dump->manifest().trace.partial.has_value());
  const core::PartialTrace& partial = *dump->manifest().trace.partial;
  CHECK(partial.unfinished == std::vector<std::uint64_t>{1});
  CHECK(partial.last == 5);
  CHECK(partial.reason.starts_with("stopped in op 5 aten::add.Tensor (encoder.layers.3.linear1"));
  const core::OpRecord unfinished = dump->op(1);
  CHECK(unfinished.op->name == "aten::add");
  CHECK(unfinished.tensors.empty());
  CHECK(dump->op(4).parent == 1);
  CHECK(dump->op(4).tensors.size() == 3);
}

TEST_CASE("a trace that holds more than the journal beside it is not replaced") {
  const TempDirectory directory;
  const auto sample = test_support::make_sample(9, 5);
  const fs::path dump = directory / "dump";
  test_support::write_dump(dump, sample);
  fs::remove(dump / "manifest.json");
  const std::string trace = read_bytes(dump / "trace.h5");
  std::string journal(std::size_t{1} << 16U, '\0');
  SUBCASE("zeros alone") {}
  SUBCASE("cut short") {
    auto less = sample;
    less.ops.resize(3);
    write_journal(directory / "less", less, false);
    journal = read_bytes(directory / "less" / "journal.bin");
  }
  test_support::write_bytes(dump / "journal.bin", journal);
  CHECK(contains(
      error_of(ErrorKind::kDumpDamaged, [&] { recover_dump(dump, std::nullopt, {}); }),
      fmt::format("trace.h5 beside it {}: that would be replaced by less", sample.ops.size())));
  CHECK(read_bytes(dump / "trace.h5") == trace);
  CHECK(read_bytes(dump / "journal.bin") == journal);
  CHECK_FALSE(fs::exists(directory / "dump.recording"));
  CHECK(recover_dump(dump, directory / "copy", {}).partial.has_value());
}

TEST_CASE("what is still being recorded, or is no recording, is not recovered") {
  const TempDirectory directory;
  {
    const journal::JournalSink sink(directory / "busy");
    CHECK(contains(
        error_of(ErrorKind::kUsage, [&] { recover_dump(directory / "busy", std::nullopt, {}); }),
        "still being recorded"));
    CHECK(contains(
        error_of(ErrorKind::kUsage, [&] { const journal::JournalSink again(directory / "busy"); }),
        "another recording is being written there"));
  }
  error_of(ErrorKind::kUsage, [&] { const journal::JournalSink again(directory / "busy"); });
  CHECK(contains(error_of(ErrorKind::kDumpUnknown,
                          [&] { recover_dump(directory / "nowhere", std::nullopt, {}); }),
                 "it holds no journal"));
}

TEST_CASE("contents are never read through a link that leads out of the directory") {
  const TempDirectory directory;
  const auto sample = test_support::make_sample(8, 0);
  const fs::path killed = directory / "killed";
  write_journal(killed, sample, false);
  fs::rename(killed / "contents.bin", directory / "elsewhere");
  fs::create_symlink(directory / "elsewhere", killed / "contents.bin");
  const core::TraceSummary summary = recover_dump(killed, directory / "dump", {});
  REQUIRE(summary.partial.has_value());
  CHECK(summary.partial->lost_contents == 2);
}

}  // namespace
}  // namespace repro_check::store
