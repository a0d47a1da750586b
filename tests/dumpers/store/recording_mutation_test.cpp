// SPDX-License-Identifier: Apache-2.0
// Recordings that went bad, given to everything that reads them: import, recover, and a look at
// what there is.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/tensor/content.h"
#include "core/trace/dump.h"
#include "dumpers/journal/entry.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/journal/journal_writer.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/recovery/recovery.h"
#include "tests/dumpers/store/mutate.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/fuzz_budget.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using journal::EntryBuffer;
using journal::EntryHeader;
using journal::EntryKind;
using journal::FileHeader;

/// The journal with its entries' payloads mutated, and checksums that hold all the same.
std::string forge(const std::string& journal, std::mt19937_64& random) {
  std::string forged = journal.substr(0, sizeof(FileHeader));
  std::size_t at = sizeof(FileHeader);
  const std::uint64_t rarity = 1 + random() % 60;
  while (at + sizeof(EntryHeader) <= journal.size()) {
    EntryHeader header;
    std::memcpy(&header, journal.data() + at, sizeof(header));
    if (header.kind == 0) break;
    std::string payload = journal.substr(at + sizeof(header), header.length);
    const bool changed = random() % rarity == 0 && !payload.empty();
    if (changed) payload = test_support::mutate(payload, random);
    const std::uint64_t copies = random() % 200 == 0 ? random() % 3 : 1;  // lost, or there twice
    for (std::uint64_t copy = 0; copy < copies; ++copy) {
      EntryBuffer entry;
      entry.begin(static_cast<EntryKind>(random() % 400 == 0 ? random() % 14 : header.kind));
      entry.put_bytes(std::string_view(payload));
      for (const std::byte byte : entry.finish()) forged += static_cast<char>(byte);
    }
    at += journal::padded(sizeof(header) + header.length);
  }
  return forged;
}

/// Everything that can be read of `dump`.
void read_all(const core::DumpSource& dump) {
  std::vector<std::byte> bytes;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    static_cast<void>(dump.op_head(i));
    for (const core::TensorRecord& tensor : dump.op(i).tensors) {
      const core::ContentKey key = tensor.content_key();
      if (tensor.stored && dump.has_content(key)) dump.read_content(key, bytes);
      const auto slice = dump.find_slice(key);
      if (slice && dump.has_content(core::slice_key(key, *slice))) {
        dump.read_content(core::slice_key(key, *slice), bytes);
      }
    }
  }
  core::verify_contents(dump);
}

/// Runs `action`, which may only succeed or say that the recording is bad.
template <typename Action>
bool refuses(Action action) {
  try {
    action();
    return false;
  } catch (const core::Error& error) {
    INFO(error.what());
    CHECK((error.kind() == ErrorKind::kDumpDamaged || error.kind() == ErrorKind::kDumpUnknown ||
           error.kind() == ErrorKind::kDumpIncomplete));
    return true;
  }
}

struct Recording {
  std::string journal;
  std::string contents;
};

/// What the sample has not: names of roots, a reference, a content that lies there, and a slice.
/// @param sizes  that the journal holds before
std::string further_entries(const test_support::Sample& sample, std::uint64_t sizes) {
  std::string bytes;
  EntryBuffer entry;
  const auto add = [&](EntryKind kind, const auto& row, std::string_view more = {}) {
    entry.begin(kind);
    entry.put_bytes(journal::bytes_of(row));
    entry.put_bytes(more);
    for (const std::byte byte : entry.finish()) bytes += static_cast<char>(byte);
  };
  add(EntryKind::kRoots, std::array{'N', '@', '1', '\0', 'N', '@', '0', '\0'});
  add(EntryKind::kReference, core::Digest{1, 2}, "baseline");
  add(EntryKind::kSizes, std::int64_t{3});
  const auto dtype = [](core::Dtype of) { return static_cast<std::uint32_t>(of); };
  const auto place = static_cast<std::uint64_t>(journal::ContentPlace::kReference);
  add(EntryKind::kContent,
      journal::ContentEntry{{{3, 4}, sizes++, 3, 1, dtype(core::Dtype::kInt8)}, 0, place});
  // As large as some content is: it has no bytes yet, and is lost until it has.
  for (const auto& [key, content] : sample.contents) {
    if (key.shape.size() != 1 || key.shape[0] < 1) continue;
    add(EntryKind::kSizes, 2 * key.shape[0]);
    add(EntryKind::kSlice,
        journal::SliceRow{
            {5, 6}, key.digest, std::uint64_t(key.shape[0]), 1, sizes++, 1, dtype(key.dtype)});
  }
  return bytes;
}

std::uint64_t sizes_in(const fs::path& journal) {
  journal::JournalReader reader(journal);
  while (reader.next_event()) {
  }
  return reader.tables().dims.size();
}

Recording make_recording(const fs::path& place) {
  auto sample = test_support::make_sample(21, 12);
  journal::JournalSink sink(place);
  test_support::play(sink, sample);
  sink.finish(sample.manifest);
  std::string journal = test_support::read_bytes(place / "journal.bin");
  journal += further_entries(sample, sizes_in(place / "journal.bin"));
  return {std::move(journal), test_support::read_bytes(place / "contents.bin")};
}

TEST_CASE("a recording with any mutation is refused, or what is made of it is a dump that holds") {
  const test_support::TempDirectory directory;
  const Recording clean = make_recording(directory / "clean");
  const fs::path place = directory / "place";
  fs::create_directory(place);
  test_support::FuzzBudget budget("recording", 2121, 250);
  std::mt19937_64& random = budget.random();
  int refused = 0;
  int made = 0;
  while (budget.next()) {
    CAPTURE(budget.done());
    const bool other_file = random() % 8 == 0;
    std::string journal = clean.journal;
    if (!other_file) {
      journal = random() % 3 == 0 ? test_support::mutate(journal, random) : forge(journal, random);
    }
    test_support::write_bytes(place / "journal.bin", journal);
    test_support::write_bytes(
        place / "contents.bin",
        other_file ? test_support::mutate(clean.contents, random) : clean.contents);
    refuses([&] { read_all(*open_partial(place)); });
    for (const bool whole : {true, false}) {
      fs::remove_all(directory / "dump");
      const bool bad = refuses([&] {
        if (whole) {
          import_journal(place, directory / "dump", {});
        } else {
          recover_dump(place, directory / "dump", {});
        }
      });
      ++(bad ? refused : made);
      if (bad) continue;
      read_all(*open_dump(directory / "dump"));  // what was made must be good
    }
  }
  MESSAGE("refused ", refused, ", made ", made);
  CHECK(refused > 10);
  CHECK(made > 10);
}

}  // namespace
}  // namespace repro_check::store
