// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "dumpers/journal/entry.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/journal/journal_writer.h"
#include "tests/dumpers/journal/random_record.h"
#include "tests/dumpers/journal/same_record.h"
#include "tests/support/temp_directory.h"

namespace repro_check::journal {
namespace {

using test_support::next_record;
using test_support::same_record;
using test_support::TempDirectory;

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

std::vector<core::OpRecord> write_sample(const std::filesystem::path& file, std::size_t count) {
  test_support::RandomRecords random(7);
  std::vector<core::OpRecord> records;
  JournalWriter writer(file);
  for (std::size_t i = 0; i < count; ++i) {
    // The generator's long texts would only make the file long, not the test better.
    records.push_back(i % 2 == 0 ? test_support::small_record(i) : random.next(i));
    writer.enter(records.back());
    const std::vector<std::byte> bytes(4 * i, std::byte{7});
    const core::ContentKey key{core::Dtype::kInt16, {2, static_cast<std::int64_t>(i)}, {i, i}};
    writer.content(key, bytes);
    writer.content(key, ContentPlace::kContents, 4096 * i);
    writer.append(records.back());
  }
  writer.finished("{}");
  return records;
}

/// Number of records read, which must be the first ones of `expected`.
std::size_t read_prefix(const std::filesystem::path& file,
                        const std::vector<core::OpRecord>& expected) {
  JournalReader reader(file);
  std::size_t count = 0;
  while (const auto record = next_record(reader)) {
    REQUIRE(count < expected.size());
    REQUIRE(same_record(*record, expected[count]));
    ++count;
  }
  return count;
}

TEST_CASE("cut at any byte, a journal gives a prefix of its records") {
  const TempDirectory directory;
  const auto whole = directory / "whole.bin";
  const auto cut = directory / "cut.bin";
  const auto records = write_sample(whole, 6);
  const std::string bytes = read_file(whole);
  write_file(cut, bytes);
  std::size_t last = records.size();
  REQUIRE(read_prefix(cut, records) == last);
  for (std::size_t size = bytes.size(); size-- > 0;) {
    std::filesystem::resize_file(cut, size);
    const std::size_t count = read_prefix(cut, records);
    REQUIRE(count <= last);
    last = count;
    REQUIRE(summarise(cut).completed == count);
  }
  CHECK(last == 0);
}

TEST_CASE("with any byte changed, a journal gives a prefix of its records or is refused") {
  const TempDirectory directory;
  const auto whole = directory / "whole.bin";
  const auto flipped = directory / "flipped.bin";
  const auto records = write_sample(whole, 6);
  const std::string bytes = read_file(whole);
  std::mt19937_64 random(3);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ static_cast<char>(1U << (random() % 8)));
    write_file(flipped, changed);
    try {
      read_prefix(flipped, records);
    } catch (const core::Error& error) {
      REQUIRE(error.kind() == core::ErrorKind::kDumpUnknown);
      REQUIRE(at < sizeof(FileHeader));
    }
  }
}

TEST_CASE("entries that are whole but make no sense are an error, never a crash") {
  const TempDirectory directory;
  const auto whole = directory / "whole.bin";
  const auto forged = directory / "forged.bin";
  write_sample(whole, 8);
  const std::string bytes = read_file(whole);
  std::mt19937_64 random(11);
  int refused = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::string changed = bytes.substr(0, sizeof(FileHeader));
    std::size_t at = sizeof(FileHeader);
    while (at < bytes.size()) {
      EntryHeader header;
      std::memcpy(&header, bytes.data() + at, sizeof(header));
      std::string payload = bytes.substr(at + sizeof(header), header.length);
      if (random() % 6 == 0 && !payload.empty()) {
        const std::size_t victim = random() % payload.size();
        payload[victim] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
        if (random() % 4 == 0) payload.resize(victim);
      }
      EntryBuffer entry;
      entry.begin(static_cast<EntryKind>(header.kind));
      entry.put_bytes(payload);
      for (const std::byte byte : entry.finish()) changed += static_cast<char>(byte);
      at += padded(sizeof(header) + header.length);
    }
    write_file(forged, changed);
    try {
      JournalReader reader(forged);
      while (next_record(reader)) {
      }
    } catch (const core::Error& error) {
      REQUIRE(error.kind() == core::ErrorKind::kDumpDamaged);
      REQUIRE(std::string(error.what()).find("forged.bin: the entry at byte") != std::string::npos);
      ++refused;
    }
  }
  CHECK(refused > 100);
}

std::string error_of(const std::filesystem::path& file, core::ErrorKind kind) {
  try {
    JournalReader reader(file);
    next_record(reader);
  } catch (const core::Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  FAIL("no error");
  return {};
}

TEST_CASE("other files are told apart from journals") {
  const TempDirectory directory;
  const auto file = directory / "journal.bin";
  write_file(file, "this is a text file, longer than a header\n");
  CHECK(error_of(file, core::ErrorKind::kDumpUnknown).find("not a journal") != std::string::npos);
  write_file(file, "short");
  CHECK(error_of(file, core::ErrorKind::kDumpUnknown).find("not a journal") != std::string::npos);
  for (const int version : {1, 2, 3, 4, 5, 6, 8}) {
    write_file(file, std::string("RCJOURN\n") + static_cast<char>(version) + std::string(7, '\0'));
    CHECK(error_of(file, core::ErrorKind::kDumpUnknown)
              .find(fmt::format("journal version {} cannot be read: this repro-check reads "
                                "version 7",
                                version)) != std::string::npos);
  }
  CHECK_FALSE(error_of(directory / "missing", core::ErrorKind::kIo).empty());
  CHECK_FALSE(error_of(directory.path(), core::ErrorKind::kIo).empty());
}

TEST_CASE("a file that never got its header is an empty journal") {
  const TempDirectory directory;
  const auto file = directory / "journal.bin";
  for (const std::string& bytes : {std::string(), std::string("RCJ"), std::string(262144, '\0')}) {
    write_file(file, bytes);
    CHECK_FALSE(next_record(JournalReader(file)).has_value());
    CHECK(summarise(file).completed == 0);
  }
}

}  // namespace
}  // namespace repro_check::journal
