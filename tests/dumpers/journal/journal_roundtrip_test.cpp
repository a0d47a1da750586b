// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

#include "core/error.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/journal/journal_writer.h"
#include "tests/dumpers/journal/random_record.h"
#include "tests/dumpers/journal/same_record.h"
#include "tests/support/temp_directory.h"

namespace repro_check::journal {
namespace {

using test_support::next_record;
using test_support::RandomRecords;
using test_support::same_record;
using test_support::small_record;
using test_support::TempDirectory;

TEST_CASE("every member of a record survives, whatever its value") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const TempDirectory directory;
    const auto file = directory / "journal.bin";
    RandomRecords random(seed);
    std::vector<core::OpRecord> written;
    {
      JournalWriter writer(file);
      for (std::uint64_t i = 0; i < 400; ++i) {
        written.push_back(random.next(i));
        const core::OpRecord& record = written.back();
        writer.enter(record);
        writer.append(record);
      }
      writer.close();
    }
    JournalReader reader(file);
    for (const core::OpRecord& expected : written) {
      const auto read = next_record(reader);
      REQUIRE(read.has_value());
      CHECK(same_record(*read, expected));
    }
    CHECK_FALSE(next_record(reader).has_value());
  }
}

TEST_CASE("operators and sites are objects shared by the records that are read") {
  const TempDirectory directory;
  const auto file = directory / "journal.bin";
  {
    JournalWriter writer(file);
    for (std::uint64_t i = 0; i < 3; ++i) {
      core::OpRecord record = small_record(i);
      // Equal objects at other addresses are the same operator and the same place.
      record.op = std::make_shared<core::OperatorInfo>(*record.op);
      record.site = std::make_shared<core::CallSite>(*record.site);
      writer.append(record);
    }
  }
  JournalReader reader(file);
  const auto first = next_record(reader);
  const auto second = next_record(reader);
  REQUIRE((first && second));
  CHECK(first->op == second->op);
  CHECK(first->site == second->site);
}

TEST_CASE("what records have in common is written once") {
  const TempDirectory directory;
  const auto file = directory / "journal.bin";
  constexpr std::uint64_t kCalls = 1000;
  {
    JournalWriter writer(file);
    for (std::uint64_t i = 0; i < kCalls; ++i) {
      const core::OpRecord record = small_record(i);
      writer.enter(record);
      writer.append(record);
    }
  }
  CHECK(std::filesystem::file_size(file) < 160 * kCalls);
}

TEST_CASE("a trace in which everything changes all the time is read back") {
  constexpr std::int64_t kShapes = 70'000;  // more than there are forms
  const TempDirectory directory;
  const auto file = directory / "journal.bin";
  const auto shaped = [](std::int64_t size) {
    core::OpRecord record = small_record(static_cast<std::uint64_t>(size));
    record.tensors[1].shape = {size};
    record.lane = static_cast<std::uint32_t>(size);
    return record;
  };
  {
    JournalWriter writer(file);
    for (std::int64_t size = 0; size < kShapes; ++size) writer.append(shaped(size));
  }
  JournalReader reader(file);
  for (std::int64_t size = 0; size < kShapes; ++size) {
    REQUIRE(same_record(next_record(reader).value(), shaped(size)));
  }
}

TEST_CASE("a record larger than a window of the mapping is written whole") {
  const TempDirectory directory;
  const auto file = directory / "journal.bin";
  core::OpRecord huge = small_record(0);
  huge.arguments.push_back({"text", {std::string(std::size_t{9} << 20U, 'y')}});
  {
    JournalWriter writer(file);
    writer.append(huge);
    writer.append(small_record(1));
  }
  JournalReader reader(file);
  CHECK(same_record(next_record(reader).value(), huge));
  CHECK(same_record(next_record(reader).value(), small_record(1)));
}

TEST_CASE("lists nested deeper than the format holds become opaque, and are read back") {
  const TempDirectory directory;
  const auto file = directory / "journal.bin";
  core::Value nested{std::int64_t{1}};
  for (int i = 0; i < 200; ++i) {
    core::ValueList list;
    list.items.push_back(std::move(nested));
    nested = core::Value{std::move(list)};
  }
  core::OpRecord record = small_record(0);
  record.arguments.push_back({"deep", nested});
  JournalWriter(file).append(record);
  const auto read = next_record(JournalReader(file));
  REQUIRE(read.has_value());
  const core::Value* inner = &read->arguments.back().value;
  int depth = 0;
  while (const auto* list = std::get_if<core::ValueList>(&inner->data)) {
    inner = &list->items.at(0);
    ++depth;
  }
  CHECK(depth == 64);
  CHECK(std::holds_alternative<core::Opaque>(inner->data));
}

TEST_CASE("the summary names what was reached") {
  const TempDirectory directory;
  const auto file = directory / "journal.bin";
  JournalWriter writer(file);
  const core::OpRecord outer = small_record(0);
  const core::OperatorInfo conv{"aten::conv2d", "", false};
  const core::CallSite site{"backbone.conv1", "Conv2d", {{"/src/model.py", 40, "forward"}}};
  writer.enter({0, outer.op, outer.site});
  writer.append(outer);
  writer.enter({1, outer.op, nullptr});
  writer.enter(
      {2, std::make_shared<core::OperatorInfo>(conv), std::make_shared<core::CallSite>(site)});

  JournalSummary summary = summarise(file);
  CHECK(summary.completed == 1);
  CHECK(summary.last == 0);
  CHECK(summary.last_operator == "aten::add.Tensor (encoder.layers.3.linear1, model.py:123)");
  CHECK(summary.entered == 2);
  CHECK(summary.entered_operator == "aten::conv2d (backbone.conv1, model.py:40)");
  CHECK(summary.failure.empty());

  writer.fail("the model gave up");
  CHECK(summarise(file).failure == "the model gave up");
}

TEST_CASE("a journal is held while it is written, and never overwritten") {
  const TempDirectory directory;
  const auto file = directory / "journal.bin";
  CHECK_FALSE(is_being_written(file));
  {
    const JournalWriter writer(file);
    CHECK(is_being_written(file));
  }
  CHECK_FALSE(is_being_written(file));
  try {
    const JournalWriter again(file);
    FAIL("an existing journal was opened");
  } catch (const core::Error& error) {
    CHECK(error.kind() == core::ErrorKind::kIo);
    CHECK(std::string(error.what()).find(file.string()) != std::string::npos);
  }
}

TEST_CASE("closing cuts the file to what was written") {
  const TempDirectory directory;
  const auto file = directory / "journal.bin";
  JournalWriter writer(file);
  writer.append(small_record(0));
  CHECK(std::filesystem::file_size(file) >= (std::size_t{256} << 10U));
  writer.close();
  CHECK(std::filesystem::file_size(file) < 4096);
  CHECK_THROWS_AS(writer.append(small_record(1)), core::Error);
}

}  // namespace
}  // namespace repro_check::journal
