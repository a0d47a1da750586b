// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/trace/dump.h"
#include "dumpers/store/dump_reader.h"
#include "tests/dumpers/store/error_of.h"
#include "tests/dumpers/store/forge.h"
#include "tests/dumpers/store/index_tables.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using test_support::contains;
using test_support::error_of;
using test_support::Sample;
using test_support::TempDirectory;

/// A dump of its own for every kind of damage.
struct Victim {
  Sample sample = test_support::make_sample(1, 40);
  TempDirectory directory;
  fs::path dump = directory / "dump";

  Victim() { test_support::write_dump(dump, sample); }

  [[nodiscard]] std::string opening(ErrorKind kind) const {
    return error_of(kind, [&] { open_dump(dump); });
  }
  [[nodiscard]] std::string reading(ErrorKind kind) const {
    return error_of(kind, [&] {
      const auto opened = open_dump(dump);
      test_support::reads_back(*opened, sample);
    });
  }
  [[nodiscard]] const core::ContentKey& some_content() const {
    for (const auto& [key, bytes] : sample.contents) {
      if (bytes.size() > 100) return key;
    }
    return sample.contents.begin()->first;
  }
};

void flip(const fs::path& file, std::uint64_t offset) {
  std::string bytes = test_support::read_bytes(file);
  bytes.at(offset) = static_cast<char>(bytes.at(offset) ^ 1);
  test_support::write_bytes(file, bytes);
}

TEST_CASE("one flipped byte of a stored tensor is a damaged dump, and names the tensor") {
  const Victim victim;
  const std::string name = core::content_name(victim.some_content());
  flip(victim.dump / "trace.h5", test_support::content_extent(victim.dump, name).offset + 50);
  const auto dump = open_dump(victim.dump);
  std::vector<std::byte> bytes;
  const std::string refusal =
      error_of(ErrorKind::kDumpDamaged, [&] { dump->read_content(victim.some_content(), bytes); });
  CHECK(contains(refusal, (victim.dump / "trace.h5").string() + ": /content/" + name));
  CHECK(contains(refusal, "do not match their digest"));
  error_of(ErrorKind::kDumpDamaged, [&] { core::verify_contents(*dump); });
}

TEST_CASE("one flipped byte of the index is a damaged dump") {
  const Victim victim;
  const fs::path file = victim.dump / "trace.h5";
  for (const TableLayout* table : kIndexTables) {
    const Extent extent = test_support::index_extent(victim.dump, table->name);
    for (const std::uint64_t at : {std::uint64_t{0}, extent.bytes / 2, extent.bytes - 1}) {
      CAPTURE(table->name);
      REQUIRE(extent.bytes > 0);
      flip(file, extent.offset + at);
      CHECK(contains(victim.opening(ErrorKind::kDumpDamaged), "does not match the digest"));
      flip(file, extent.offset + at);
    }
  }
  CHECK(test_support::reads_back(*open_dump(victim.dump), victim.sample));
}

TEST_CASE("a truncated trace is a damaged dump, wherever it was cut") {
  const Victim victim;
  const fs::path file = victim.dump / "trace.h5";
  const std::string whole = test_support::read_bytes(file);
  for (std::size_t part = 0; part < 40; ++part) {
    test_support::write_bytes(file, whole.substr(0, whole.size() * part / 40));
    CHECK_FALSE(victim.opening(ErrorKind::kDumpDamaged).empty());
  }
  test_support::write_bytes(file, whole.substr(0, whole.size() - 1));
  CHECK_FALSE(victim.opening(ErrorKind::kDumpDamaged).empty());
  fs::remove(file);
  CHECK(contains(victim.opening(ErrorKind::kDumpDamaged), "trace.h5: is missing"));
}

TEST_CASE("a foreign HDF5 file in the place of the trace is refused") {
  const Victim victim;
  fs::remove(victim.dump / "trace.h5");
  {
    const Hdf5Scope scope;
    const FileHandle file(
        H5Fcreate((victim.dump / "trace.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  }
  CHECK(contains(victim.opening(ErrorKind::kDumpDamaged), "not the trace of a dump"));
}

TEST_CASE("a dump of a newer major version is unknown") {
  const Victim victim;
  const fs::path file = victim.dump / "manifest.json";
  const std::string text = test_support::read_bytes(file);
  const auto with_version = [&](const std::string& version) {
    std::string changed = text;
    changed.replace(changed.find("\"1.5\""), 5, "\"" + version + "\"");
    test_support::write_bytes(file, changed);
  };
  with_version("2.0");
  const std::string refusal = victim.opening(ErrorKind::kDumpUnknown);
  CHECK(contains(refusal, "dump format 2.0"));
  CHECK(contains(refusal, "this repro-check reads 1.x"));
  with_version("1.9");  // the digest of the manifest no longer holds: that is what is refused
  CHECK(contains(victim.opening(ErrorKind::kDumpDamaged), "/manifest_digest"));
}

TEST_CASE("a damaged manifest is a damaged dump") {
  const Victim victim;
  const fs::path file = victim.dump / "manifest.json";
  const std::string text = test_support::read_bytes(file);
  test_support::write_bytes(file, text.substr(0, text.size() / 2));
  CHECK(contains(victim.opening(ErrorKind::kDumpDamaged), "manifest.json: not valid JSON"));
  test_support::write_bytes(file, "");
  CHECK_FALSE(victim.opening(ErrorKind::kDumpDamaged).empty());
  test_support::write_bytes(file, "{\"format\": \"something-else\"}");
  CHECK(contains(victim.opening(ErrorKind::kDumpUnknown), "not the manifest of a dump"));
  test_support::write_bytes(file, text);
  test_support::forge_manifest(victim.dump, [](core::RunManifest& m) { ++m.trace.operators; });
  CHECK(contains(victim.opening(ErrorKind::kDumpDamaged), "operators, the manifest says"));
}

TEST_CASE("links that lead out of the trace are not followed") {
  const Victim victim;
  const std::string name = core::content_name(victim.some_content());
  fs::copy_file(victim.dump / "trace.h5", victim.dump / "other.h5");
  SUBCASE("soft link to a content") {
    test_support::edit_trace(victim.dump, [&](hid_t file) {
      const std::string path = "/content/" + name;
      REQUIRE(H5Lmove(file, path.c_str(), file, "/moved", H5P_DEFAULT, H5P_DEFAULT) >= 0);
      REQUIRE(H5Lcreate_soft("/moved", file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT) >= 0);
    });
  }
  SUBCASE("external link to a content") {
    test_support::edit_trace(victim.dump, [&](hid_t file) {
      const std::string path = "/content/" + name;
      REQUIRE(H5Ldelete(file, path.c_str(), H5P_DEFAULT) >= 0);
      REQUIRE(H5Lcreate_external(
                  "other.h5", path.c_str(), file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT) >= 0);
    });
  }
  SUBCASE("external link to the index") {
    test_support::edit_trace(victim.dump, [&](hid_t file) {
      REQUIRE(H5Ldelete(file, "/index", H5P_DEFAULT) >= 0);
      REQUIRE(H5Lcreate_external("other.h5", "/index", file, "/index", H5P_DEFAULT, H5P_DEFAULT) >=
              0);
    });
  }
  CHECK(contains(victim.reading(ErrorKind::kDumpDamaged), "is a link"));
}

/// Replaces a content's dataset by one that `make` creates in the open file under `path`.
void replace_content(const Victim& victim,
                     const std::function<hid_t(hid_t file, const char* path)>& make) {
  const std::string path = "/content/" + core::content_name(victim.some_content());
  test_support::edit_trace(victim.dump, [&](hid_t file) {
    REQUIRE(H5Ldelete(file, path.c_str(), H5P_DEFAULT) >= 0);
    const DatasetHandle made(make(file, path.c_str()));
    REQUIRE(made.get() >= 0);
  });
}

TEST_CASE("no file of a dump may be a link to somewhere else") {
  for (const char* name : {"manifest.json", "trace.h5"}) {
    const TempDirectory directory;
    const fs::path dump = directory / "dump";
    test_support::write_dump(dump, test_support::make_sample(1, 0));
    fs::rename(dump / name, directory / "elsewhere");
    fs::create_symlink(directory / "elsewhere", dump / name);
    CHECK(contains(error_of(ErrorKind::kDumpDamaged, [&] { open_dump(dump); }),
                   std::string(name) + ": is a link"));
  }
}

TEST_CASE("a content must be stored as the format says") {
  const Victim victim;
  const hsize_t dims = 64;
  const SpaceHandle space(H5Screate_simple(1, &dims, nullptr));
  const PropertyHandle list(H5Pcreate(H5P_DATASET_CREATE));
  std::string expected;
  SUBCASE("missing") {
    const std::string path = "/content/" + core::content_name(victim.some_content());
    test_support::edit_trace(
        victim.dump, [&](hid_t file) { REQUIRE(H5Ldelete(file, path.c_str(), H5P_DEFAULT) >= 0); });
    expected = "is missing";
  }
  SUBCASE("in another file") {
    REQUIRE(H5Pset_external(list.get(), "/etc/hostname", 0, dims) >= 0);
    replace_content(victim, [&](hid_t file, const char* path) {
      return H5Dcreate2(
          file, path, H5T_STD_U8LE, space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT);
    });
    expected = "is stored in another file";
  }
  SUBCASE("in chunks") {
    REQUIRE(H5Pset_chunk(list.get(), 1, &dims) >= 0);
    replace_content(victim, [&](hid_t file, const char* path) {
      return H5Dcreate2(
          file, path, H5T_STD_U8LE, space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT);
    });
    expected = "has no bytes";
  }
  SUBCASE("of another type") {
    REQUIRE(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY) >= 0);
    replace_content(victim, [&](hid_t file, const char* path) {
      return H5Dcreate2(
          file, path, H5T_STD_U64BE, space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT);
    });
    expected = "is not of dtype";
  }
  SUBCASE("of an impossible size") {
    const hsize_t huge = hsize_t{1} << 50U;
    const SpaceHandle room(H5Screate_simple(1, &huge, nullptr));
    replace_content(victim, [&](hid_t file, const char* path) {
      return H5Dcreate2(file, path, H5T_STD_U8LE, room.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT);
    });
    expected = "has no bytes";
  }
  SUBCASE("a group") {
    const std::string path = "/content/" + core::content_name(victim.some_content());
    test_support::edit_trace(victim.dump, [&](hid_t file) {
      REQUIRE(H5Ldelete(file, path.c_str(), H5P_DEFAULT) >= 0);
      const GroupHandle group(
          H5Gcreate2(file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    });
    expected = "is not a dataset";
  }
  CHECK(contains(victim.reading(ErrorKind::kDumpDamaged), expected));
}

}  // namespace
}  // namespace repro_check::store
