// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "core/error.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/journal/journal_writer.h"
#include "tests/dumpers/journal/random_record.h"
#include "tests/dumpers/journal/same_record.h"
#include "tests/support/temp_directory.h"

namespace repro_check::journal {
namespace {

const core::ContentKey kKey{core::Dtype::kInt16, {2, 3}, {11, 12}};

TEST_CASE("contents come back with their bytes, or with the place where these are") {
  const test_support::TempDirectory directory;
  const auto file = directory / "journal.bin";
  const std::vector<std::byte> bytes(12, std::byte{5});
  const core::ContentKey scalar{core::Dtype::kFloat64, {}, {1, 2}};
  const core::ContentKey empty{core::Dtype::kBool, {3, 0}, {3, 4}};
  {
    JournalWriter writer(file);
    writer.content(kKey, bytes);
    writer.content(scalar, ContentPlace::kContents, std::uint64_t{1} << 40U);
    writer.append(test_support::small_record(0));
    writer.content(empty, std::span<const std::byte>{});
    writer.content(kKey, ContentPlace::kTrace, 4096);
    writer.finished("the manifest");
  }
  JournalReader reader(file);
  const auto next = [&]<typename T>(T* /*kind*/) {
    return std::get<T>(reader.next_event().value());
  };
  StoredContent* const content = nullptr;

  const StoredContent first = next(content);
  CHECK(first.key == kKey);
  CHECK(first.place == ContentPlace::kInline);
  CHECK(first.size == bytes.size());
  CHECK(std::vector<std::byte>(first.bytes.begin(), first.bytes.end()) == bytes);

  const StoredContent second = next(content);
  CHECK(second.key == scalar);
  CHECK(second.place == ContentPlace::kContents);
  CHECK(second.offset == std::uint64_t{1} << 40U);
  CHECK(second.size == 8);

  const auto record = next(static_cast<core::OpRecord*>(nullptr));
  CHECK(test_support::same_record(record, test_support::small_record(0)));
  CHECK(next(content).key == empty);
  CHECK(next(content).place == ContentPlace::kTrace);
  CHECK(next(static_cast<Finished*>(nullptr)).manifest == "the manifest");
  CHECK_FALSE(reader.next_event().has_value());
}

TEST_CASE("reading records passes over what lies between them") {
  const test_support::TempDirectory directory;
  const auto file = directory / "journal.bin";
  {
    JournalWriter writer(file);
    writer.content(kKey, ContentPlace::kContents, 0);
    writer.append(test_support::small_record(0));
    writer.finished("{}");
  }
  JournalReader reader(file);
  CHECK(test_support::next_record(reader).has_value());
  CHECK_FALSE(test_support::next_record(reader).has_value());
  CHECK(summarise(file).completed == 1);
}

TEST_CASE("bytes that are not what the key says are refused before they are written") {
  const test_support::TempDirectory directory;
  JournalWriter writer(directory / "journal.bin");
  const std::vector<std::byte> bytes(kLargestInline + 2);
  const core::ContentKey large{
      core::Dtype::kInt16, {static_cast<std::int64_t>(bytes.size() / 2)}, {}};
  CHECK_THROWS_AS(writer.content(kKey, std::span(bytes).first(11)), core::Error);
  CHECK_THROWS_AS(writer.content(large, bytes), core::Error);
  writer.close();
  CHECK_FALSE(JournalReader(directory / "journal.bin").next_event().has_value());
}

}  // namespace
}  // namespace repro_check::journal
