// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/pack.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/trace/dump.h"
#include "dumpers/journal/journal_writer.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/recovery/recovery.h"
#include "tests/dumpers/store/error_of.h"
#include "tests/dumpers/store/hand_made_pack.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using test_support::contains;
using test_support::error_of;
using test_support::read_bytes;
using test_support::TempDirectory;

/// Names in a directory, ascending.
std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

using Names = std::vector<std::string>;

/// A dump, and a place for packs of it.
struct Packed {
  test_support::Sample sample = test_support::make_sample(3, 30);
  TempDirectory directory;
  fs::path dump = directory / "dump";
  fs::path pack = directory / "dump.tar.zst";

  Packed() { test_support::write_dump(dump, sample); }
};

TEST_CASE("what comes out of a pack is what went in, byte for byte") {
  const Packed made;
  for (const int level : {1, kPackLevel, kHighestPackLevel}) {
    CAPTURE(level);
    const PackSummary packed = pack_dump(made.dump, made.pack, {level, true});
    CHECK(packed.packed_bytes == fs::file_size(made.pack));
    CHECK(packed.plain_bytes ==
          fs::file_size(made.dump / "manifest.json") + fs::file_size(made.dump / "trace.h5"));
    CHECK(packed.operators == made.sample.ops.size());
    const fs::path again = made.directory / "again";
    const PackSummary unpacked = unpack_dump(made.pack, again, true);
    CHECK(unpacked.plain_bytes == packed.plain_bytes);
    CHECK(unpacked.packed_bytes == packed.packed_bytes);
    CHECK(names_in(again) == Names{"manifest.json", "trace.h5"});
    for (const char* name : {"manifest.json", "trace.h5"}) {
      const bool same = read_bytes(again / name) == read_bytes(made.dump / name);
      CHECK_MESSAGE(same, name);
    }
  }
  CHECK(names_in(made.directory.path()) == Names{"again", "dump", "dump.tar.zst"});
}

TEST_CASE("two packs of one dump are equal, byte for byte") {
  const Packed made;
  pack_dump(made.dump, made.pack, {});
  fs::last_write_time(made.dump / "trace.h5", fs::file_time_type::clock::now());
  fs::permissions(made.dump / "trace.h5", fs::perms::owner_read);
  pack_dump(made.dump / "manifest.json", made.directory / "other.tar.zst", {});
  const bool same = read_bytes(made.pack) == read_bytes(made.directory / "other.tar.zst");
  CHECK(same);
}

TEST_CASE("a pack reads as its dump does, and leaves nothing behind") {
  const Packed made;
  pack_dump(made.dump, made.pack, {});
  fs::remove_all(made.dump);
  for (const auto& open : {&open_dump, &open_partial}) {
    const auto dump = open(made.pack, {});
    CHECK(dump->location() == made.pack.string());
    CHECK(test_support::reads_back(*dump, made.sample));
    core::verify_contents(*dump);
  }
  fs::rename(made.pack, made.directory / "by-another-name");
  CHECK(test_support::reads_back(*open_dump(made.directory / "by-another-name"), made.sample));
  CHECK(names_in(made.directory.path()) == Names{"by-another-name"});
}

TEST_CASE("two packs can be open at once") {
  const Packed made;
  pack_dump(made.dump, made.pack, {});
  const auto first = open_dump(made.pack);
  const auto second = open_dump(made.pack);
  CHECK(test_support::reads_back(*first, made.sample));
  CHECK(test_support::reads_back(*second, made.sample));
}

TEST_CASE("a partial dump stays one in a pack") {
  const TempDirectory directory;
  const auto sample = test_support::make_sample(9, 10);
  {
    journal::JournalSink sink(directory / "killed");
    test_support::play(sink, sample);
  }
  recover_dump(directory / "killed", std::nullopt, {});
  pack_dump(directory / "killed", directory / "killed.tar.zst", {});
  CHECK(open_dump(directory / "killed.tar.zst")->manifest().trace.partial.has_value());
  unpack_dump(directory / "killed.tar.zst", directory / "again", false);
  CHECK(open_dump(directory / "again")->manifest().trace.partial.has_value());
}

TEST_CASE("nothing is replaced unasked, and what fails leaves nothing") {
  const Packed made;
  pack_dump(made.dump, made.pack, {});
  const std::string before = read_bytes(made.pack);
  const Names names = names_in(made.directory.path());
  CHECK(contains(error_of(ErrorKind::kUsage, [&] { pack_dump(made.dump, made.pack, {}); }),
                 "already exists | add --force"));
  error_of(ErrorKind::kUsage, [&] { pack_dump(made.dump, made.dump, {kPackLevel, true}); });
  error_of(ErrorKind::kUsage, [&] { pack_dump(made.pack, made.directory / "x.tar.zst", {}); });
  error_of(ErrorKind::kUsage, [&] { unpack_dump(made.pack, made.dump, false); });
  error_of(ErrorKind::kUsage, [&] { unpack_dump(made.dump, made.directory / "x", false); });
  error_of(ErrorKind::kUsage, [&] { unpack_dump(made.pack, made.directory / "x.tar.zst", false); });
  error_of(ErrorKind::kDumpUnknown,
           [&] { pack_dump(made.directory / "none", made.directory / "x.tar.zst", {}); });
  error_of(ErrorKind::kDumpUnknown,
           [&] { unpack_dump(made.directory / "none", made.directory / "x", false); });
  CHECK(read_bytes(made.pack) == before);
  CHECK(names_in(made.directory.path()) == names);
}

TEST_CASE("a directory with something else in it is not unpacked into, even with force") {
  const Packed made;
  pack_dump(made.dump, made.pack, {});
  fs::create_directory(made.directory / "full");
  test_support::write_bytes(made.directory / "full" / "letter", "dear");
  CHECK(contains(
      error_of(ErrorKind::kUsage, [&] { unpack_dump(made.pack, made.directory / "full", true); }),
      "letter"));
  fs::create_directory(made.directory / "empty");
  unpack_dump(made.pack, made.directory / "empty", false);
  CHECK(test_support::reads_back(*open_dump(made.directory / "empty"), made.sample));
}

TEST_CASE("a damaged dump is not packed, and a damaged pack is not unpacked") {
  const Packed made;
  pack_dump(made.dump, made.pack, {});
  const auto flip = [](const fs::path& file, std::size_t at) {
    std::string bytes = read_bytes(file);
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
    test_support::write_bytes(file, bytes);
  };
  flip(made.pack, fs::file_size(made.pack) / 2);
  CHECK(contains(error_of(ErrorKind::kDumpDamaged,
                          [&] { unpack_dump(made.pack, made.directory / "again", false); }),
                 made.pack.string()));
  flip(made.dump / "manifest.json", 100);
  error_of(ErrorKind::kDumpDamaged, [&] { pack_dump(made.dump, made.pack, {kPackLevel, true}); });
  CHECK(names_in(made.directory.path()) == Names{"dump", "dump.tar.zst"});
}

TEST_CASE("a replaced dump is whole at any time, and nothing of the old one stays") {
  const Packed made;
  pack_dump(made.dump, made.pack, {});
  const auto other = test_support::make_sample(4, 5);
  test_support::write_dump(made.directory / "other", other);
  unpack_dump(made.pack, made.directory / "other", true);
  CHECK(test_support::reads_back(*open_dump(made.directory / "other"), made.sample));
  CHECK(names_in(made.directory.path()) == Names{"dump", "dump.tar.zst", "other"});
}

/// A directory with a dump a rank, and a place for packs of it.
struct PackedRanks {
  test_support::Sample sample = test_support::make_sample(3, 30);
  TempDirectory directory;
  fs::path run = directory / "run";
  fs::path pack = directory / "run.tar.zst";

  PackedRanks() {
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      test_support::write_dump(rank_directory(run, rank), sample);
    }
    write_rank_count(run, 3);
  }
};

TEST_CASE("a pack of ranks gives them back, byte for byte, and reads as none of them") {
  const PackedRanks made;
  const PackSummary packed = pack_dump(made.run, made.pack, {});
  CHECK(packed.operators == 3 * made.sample.ops.size());
  for (const auto& open : {&open_dump, &open_partial}) {
    CHECK(contains(error_of(ErrorKind::kUsage, [&] { open(made.pack, {}); }),
                   "run.tar.zst: holds the dumps of several ranks | unpack it first: repro-check"));
  }
  const PackSummary unpacked = unpack_dump(made.pack, made.directory / "again", false);
  CHECK(unpacked.operators == packed.operators);
  CHECK(unpacked.plain_bytes == packed.plain_bytes);
  CHECK(names_in(made.directory / "again") == Names{"rank-0", "rank-1", "rank-2", "ranks.json"});
  for (const char* name : {"ranks.json", "rank-0/trace.h5", "rank-2/manifest.json"}) {
    const bool same = read_bytes(made.run / name) == read_bytes(made.directory / "again" / name);
    CHECK_MESSAGE(same, name);
  }
  CHECK(test_support::reads_back(*open_dump(made.directory / "again" / "rank-1"), made.sample));
  // One of them is a dump like any other.
  pack_dump(made.run / "rank-1", made.directory / "one.tar.zst", {});
  CHECK(test_support::reads_back(*open_dump(made.directory / "one.tar.zst"), made.sample));
  CHECK(names_in(made.directory.path()) == Names{"again", "one.tar.zst", "run", "run.tar.zst"});
}

TEST_CASE("a rank that is missing or damaged is in no pack, and of neither is anything left") {
  const PackedRanks made;
  fs::rename(made.run / "rank-2", made.directory / "elsewhere");
  CHECK(contains(
      error_of(ErrorKind::kDumpIncomplete, [&] { pack_dump(made.run, made.pack, {}); }),
      "run: rank 2 is missing of 3 | put the dumps of all ranks into one directory first"));
  fs::rename(made.directory / "elsewhere", made.run / "rank-2");
  fs::rename(made.run / "rank-0", made.directory / "elsewhere");
  fs::remove(made.run / "ranks.json");
  CHECK(contains(error_of(ErrorKind::kDumpIncomplete, [&] { pack_dump(made.run, made.pack, {}); }),
                 "rank 0 is missing | "));
  fs::rename(made.directory / "elsewhere", made.run / "rank-0");
  test_support::write_bytes(made.run / "rank-1" / "trace.h5", "");
  error_of(ErrorKind::kDumpDamaged, [&] { pack_dump(made.run, made.pack, {}); });
  fs::remove(made.run / "rank-1" / "manifest.json");
  error_of(ErrorKind::kDumpIncomplete, [&] { pack_dump(made.run, made.pack, {}); });
  CHECK(names_in(made.directory.path()) == Names{"run"});
}

TEST_CASE("names that nobody gives") {
  CHECK(default_pack("out/baseline") == "out/baseline.tar.zst");
  CHECK(default_pack("out/baseline/") == "out/baseline.tar.zst");
  CHECK(default_pack("out/baseline/manifest.json") == "out/baseline.tar.zst");
  CHECK(default_pack(".") == fs::current_path().string() + ".tar.zst");
  CHECK(default_dump("kept/v1.tar.zst") == "kept/v1");
  CHECK(default_dump("v1.tar.zst") == "v1");
  error_of(ErrorKind::kUsage, [] { default_dump("v1.zst"); });
  error_of(ErrorKind::kUsage, [] { default_dump(".tar.zst"); });
}

}  // namespace
}  // namespace repro_check::store
