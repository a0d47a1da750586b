// SPDX-License-Identifier: Apache-2.0
// Packs that nobody of ours has made.
#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/pack.h"
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
using test_support::tar_archive;
using test_support::TarMember;
using test_support::write_bytes;
using test_support::zstd_frame;

struct Forger {
  test_support::Sample sample = test_support::make_sample(5, 10);
  test_support::TempDirectory directory;
  fs::path pack = directory / "x.tar.zst";
  std::string manifest;
  std::string trace;

  Forger() {
    test_support::write_dump(directory / "dump", sample);
    manifest = read_bytes(directory / "dump" / "manifest.json");
    trace = read_bytes(directory / "dump" / "trace.h5");
  }

  void make(const std::vector<TarMember>& members) const {
    write_bytes(pack, zstd_frame(tar_archive(members)));
  }
  [[nodiscard]] bool reads() const { return test_support::reads_back(*open_dump(pack), sample); }
  /// What is said of it, which must be the same whatever is done with it.
  std::string refusal(ErrorKind kind) const {
    const std::string said = error_of(kind, [&] { open_dump(pack); });
    CHECK(error_of(kind, [&] { unpack_dump(pack, directory / "out", false); }) == said);
    CHECK(!fs::exists(directory / "out"));
    CHECK(std::distance(fs::directory_iterator(directory.path()), {}) == 2);
    CHECK(contains(said, pack.string() + ": "));
    return said;
  }
  [[nodiscard]] std::string refusal(const std::vector<TarMember>& members) const {
    make(members);
    return refusal(ErrorKind::kDumpUnknown);
  }
};

TEST_CASE("a pack that somebody made with tar is read, whatever the order") {
  const Forger forger;
  forger.make(
      {{"d/", "", '5'}, {"d/trace.h5", forger.trace}, {"d/manifest.json", forger.manifest}});
  CHECK(forger.reads());
  forger.make(
      {{"./", "", '5'}, {"./manifest.json", forger.manifest}, {"./trace.h5", forger.trace}});
  CHECK(forger.reads());
  forger.make({{"trace.h5", forger.trace}, {"manifest.json", forger.manifest}});
  CHECK(forger.reads());
  // A few frames behind each other, as parallel compressors make them, padded as tar does it.
  const std::string tar =
      tar_archive({{"d/manifest.json", forger.manifest}, {"d/trace.h5", forger.trace}});
  write_bytes(forger.pack,
              zstd_frame(tar.substr(0, 1000)) + zstd_frame(tar.substr(1000)) +
                  zstd_frame(std::string(20'000, '\0')));
  CHECK(forger.reads());
}

TEST_CASE("a name that leads out of the dump is refused") {
  const Forger forger;
  const TarMember manifest{"d/manifest.json", forger.manifest};
  for (const char* name : {"/etc/trace.h5",
                           "/trace.h5",
                           "../trace.h5",
                           "d/../trace.h5",
                           "d//trace.h5",
                           "..",
                           "/",
                           "d/./trace.h5"}) {
    CAPTURE(name);
    CHECK(contains(forger.refusal({manifest, {name, forger.trace}}), "leads out of its directory"));
  }
  CHECK(!fs::exists(forger.directory / "trace.h5"));
}

TEST_CASE("anything but the two files of a dump is refused") {
  const Forger forger;
  const TarMember manifest{"d/manifest.json", forger.manifest};
  const TarMember trace{"d/trace.h5", forger.trace};
  const auto refused = [&](const std::vector<TarMember>& members, const char* why) {
    CAPTURE(why);
    CHECK(contains(forger.refusal(members), why));
  };
  refused({manifest, trace, {"d/journal.bin", "x"}}, "\"d/journal.bin\" belongs to no dump");
  refused({{"readme", "x"}, manifest, trace}, "\"readme\" belongs to no dump");
  refused({{"a/d/manifest.json", forger.manifest}, trace}, "belongs to no dump");
  refused({manifest, {"trace.h5", forger.trace}}, "is in another directory than the rest");
  refused({manifest, {"e/trace.h5", forger.trace}}, "is in another directory than the rest");
  refused({{"e", "", '5'}, manifest, trace}, "is in another directory than the rest");
  refused({{"d/e", "", '5'}, manifest, trace}, "is a directory inside another");
  refused({{"d", "", '5'}, {"d", "", '5'}, manifest, trace}, "is a second directory");
  refused({manifest, manifest, trace}, "is there twice");
  refused({manifest, trace, trace}, "is there twice");
  refused({trace}, "holds no manifest.json");
  refused({manifest}, "holds no trace.h5");
  for (const char type : {'1', '2', '3', '4', '6'}) {
    CAPTURE(type);
    refused({manifest, {"d/trace.h5", "", type, "/etc/passwd"}}, "is no plain file");
  }
  refused({manifest, {"d/evil\n\x1b[31m", "x"}}, "\"d/evil\\n\\x1b[31m\" belongs to no dump");
}

TEST_CASE("of ranks all must be there whole, and nothing else") {
  const Forger forger;
  const auto file = [&](const std::string& name) {
    return TarMember{name, name.ends_with(".h5") ? forger.trace : forger.manifest};
  };
  const std::string counts_two =
      R"({"format": "repro-check-rank-dumps", "version": "1.0", "ranks": 2})";
  const auto unpack = [&](const std::vector<std::string>& names, const std::string& count = {}) {
    std::vector<TarMember> members;
    for (const std::string& name : names) members.push_back(file(name));
    if (!count.empty()) members.push_back({"d/ranks.json", count});
    forger.make(members);
    unpack_dump(forger.pack, forger.directory / "out", false);
  };
  const auto refused = [&](ErrorKind kind,
                           const std::vector<std::string>& names,
                           const char* why,
                           const std::string& count = {}) {
    CAPTURE(why);
    CHECK(contains(error_of(kind, [&] { unpack(names, count); }), why));
    CHECK(std::distance(fs::directory_iterator(forger.directory.path()), {}) == 2);
  };
  const std::vector<std::string> first{"d/rank-0/manifest.json", "d/rank-0/trace.h5"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), first.begin(), first.end());
    return more;
  };
  constexpr ErrorKind kUnknown = ErrorKind::kDumpUnknown;
  refused(kUnknown, with({"d/rank-1/trace.h5"}), "it holds no rank-1/manifest.json");
  refused(kUnknown, with({"d/rank-01/trace.h5"}), "belongs to no dump");
  refused(kUnknown, with({"d/rank-1/ranks.json"}), "belongs to no dump");
  refused(kUnknown, with({"d/rank-1/rank-2/trace.h5"}), "belongs to no dump");
  refused(kUnknown, with({"d/manifest.json"}), "belongs to no dump");
  refused(kUnknown, {"d/manifest.json", "d/trace.h5"}, "belongs to no dump", counts_two);
  refused(kUnknown, with({"e/rank-1/trace.h5"}), "is in another directory than the rest");
  refused(kUnknown, with({"d/../rank-1/trace.h5"}), "leads out of its directory");
  refused(kUnknown, with({"d/rank-0/trace.h5"}), "is there twice");
  refused(ErrorKind::kDumpIncomplete, first, "rank 1 is missing of 2", counts_two);
  refused(ErrorKind::kDumpIncomplete,
          {"d/rank-1/manifest.json", "d/rank-1/trace.h5"},
          "rank 0 is missing");
  refused(ErrorKind::kDumpDamaged, first, "has no number of ranks", "{}");
  unpack(with({"d/rank-1/trace.h5", "d/rank-1/manifest.json"}), counts_two);
  CHECK(test_support::reads_back(*open_dump(forger.directory / "out" / "rank-1"), forger.sample));
}

TEST_CASE("a size that is not so is refused before anything is written") {
  const Forger forger;
  const TarMember manifest{"d/manifest.json", forger.manifest};
  const auto sized = [&](const std::string& size) {
    forger.make({manifest, {"d/trace.h5", forger.trace, '0', "", size}});
    CAPTURE(size);
    return forger.refusal(ErrorKind::kDumpDamaged);
  };
  const std::string sixteen_tebibytes("\x80\0\0\0\0\0\x10\0\0\0\0\0", 12);
  CHECK(contains(sized(sixteen_tebibytes), "trace.h5 would have 17592186044416 bytes"));
  sized(std::string("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12));
  sized("00100000000");  // more than there is
  sized("00000000001");  // less: the rest is no header
  forger.make({{"d/manifest.json", std::string(std::size_t{300} << 20U, ' ')},
               {"d/trace.h5", forger.trace}});
  CHECK(contains(forger.refusal(ErrorKind::kDumpDamaged), "manifest.json would have"));
}

TEST_CASE("a small pack is not unpacked to very much") {
  const Forger forger;
  std::mt19937 random(1);
  std::string noise(std::size_t{300} << 10U, '\0');
  for (char& c : noise) c = static_cast<char>(random() & 0xffU);
  const std::string eight_gibibytes("\x80\0\0\0\0\0\0\2\0\0\0\0", 12);
  forger.make(
      {{"d/manifest.json", forger.manifest}, {"d/trace.h5", noise, '0', "", eight_gibibytes}});
  CHECK(contains(forger.refusal(ErrorKind::kDumpDamaged),
                 "trace.h5 would have 8589934592 bytes, which is too much"));
}

TEST_CASE("what no compressor or no archiver made is refused") {
  const Forger forger;
  write_bytes(forger.pack, "");
  CHECK(contains(forger.refusal(ErrorKind::kDumpUnknown), "not compressed with zstd"));
  write_bytes(forger.pack, forger.manifest);
  CHECK(contains(forger.refusal(ErrorKind::kDumpUnknown), "not compressed with zstd"));
  write_bytes(forger.pack, "\x28\xb5\x2f\xfd");
  forger.refusal(ErrorKind::kDumpDamaged);
  write_bytes(forger.pack, zstd_frame(""));
  forger.refusal(ErrorKind::kDumpDamaged);
  write_bytes(forger.pack, zstd_frame("not a tar, but not short either" + std::string(2000, 'x')));
  CHECK(contains(forger.refusal(ErrorKind::kDumpDamaged), "is not a whole tar archive"));
  forger.make({});
  CHECK(contains(forger.refusal(ErrorKind::kDumpUnknown), "holds no manifest.json"));
}

TEST_CASE("a pack is read to its last byte") {
  const Forger forger;
  const std::string tar =
      tar_archive({{"d/manifest.json", forger.manifest}, {"d/trace.h5", forger.trace}});
  const std::string whole = zstd_frame(tar);
  for (std::size_t part = 1; part < 40; ++part) {
    write_bytes(forger.pack, whole.substr(0, whole.size() * part / 40));
    forger.refusal(ErrorKind::kDumpDamaged);
  }
  write_bytes(forger.pack, whole.substr(0, whole.size() - 1));
  CHECK(contains(forger.refusal(ErrorKind::kDumpDamaged), "ends too early"));
  std::string flipped = whole;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);  // the checksum itself
  write_bytes(forger.pack, flipped);
  CHECK(contains(forger.refusal(ErrorKind::kDumpDamaged), "cannot be decompressed"));
  write_bytes(forger.pack, whole + "x");
  forger.refusal(ErrorKind::kDumpDamaged);
  write_bytes(forger.pack, zstd_frame(tar + std::string(200'000, '\0') + "x"));
  CHECK(contains(forger.refusal(ErrorKind::kDumpDamaged), "has data after the end"));
  write_bytes(forger.pack, zstd_frame(tar + std::string(std::size_t{64} << 20U, '\0')));
  CHECK(contains(forger.refusal(ErrorKind::kDumpDamaged), "has data after the end"));
}

TEST_CASE("a pack of something else than a dump is refused as the dump would be") {
  const Forger forger;
  forger.make({{"d/manifest.json", "{}"}, {"d/trace.h5", forger.trace}});
  forger.refusal(ErrorKind::kDumpUnknown);
  forger.make({{"d/manifest.json", forger.manifest}, {"d/trace.h5", "no HDF5"}});
  CHECK(contains(forger.refusal(ErrorKind::kDumpDamaged),
                 forger.pack.string() + ": trace.h5: is not a whole HDF5 file"));
  forger.make({{"d/manifest.json", forger.manifest}, {"d/trace.h5", ""}});
  forger.refusal(ErrorKind::kDumpDamaged);
}

}  // namespace
}  // namespace repro_check::store
