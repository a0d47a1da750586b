// SPDX-License-Identifier: Apache-2.0
// Indexes whose digests hold and whose content does not: what a hostile or a broken writer makes.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <string>

#include "core/error.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/index/index.h"
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
using test_support::forge_member;

struct Forged {
  test_support::Sample sample = test_support::make_sample(6, 40);
  test_support::TempDirectory directory;
  fs::path dump = directory / "dump";

  Forged() { test_support::write_dump(dump, sample); }

  /// What reading all of it says, once its digests hold again.
  [[nodiscard]] std::string refusal() const {
    test_support::resign(dump);
    return error_of(ErrorKind::kDumpDamaged, [&] {
      const auto opened = open_dump(dump);
      test_support::reads_back(*opened, sample);
    });
  }
};

#define FORGE(table, Row, member, row, value, expected)               \
  SUBCASE(#table " " #member " " #value) {                            \
    forge_member(forged.dump,                                         \
                 journal::k##table##Table,                            \
                 row,                                                 \
                 offsetof(journal::Row, member),                      \
                 static_cast<decltype(journal::Row::member)>(value)); \
    CHECK(contains(forged.refusal(), expected));                      \
  }

TEST_CASE("numbers that are out of range are a damaged dump") {
  const Forged forged;
  FORGE(Ops, OpRow, op, 3, 100'000, "/index/operators: has no row 100000")
  FORGE(Ops, OpRow, site, 3, 99'999, "/index/sites: has no row 99999")
  FORGE(Ops, OpRow, parent, 3, 3, "impossible parent 3")
  FORGE(Ops, OpRow, parent, 3, 60, "impossible parent 60")
  FORGE(Ops, OpRow, parent, 3, -2, "impossible parent -2")
  FORGE(Ops, OpRow, phase, 3, 9, "unknown phase 9")
  FORGE(Ops, OpRow, tensors_begin, 3, UINT64_MAX, "/index/tensors: has")
  FORGE(Ops, OpRow, tensor_count, 3, UINT32_MAX, "/index/tensors: has")
  FORGE(Ops, OpRow, values_begin, 30, UINT64_MAX - 1, "/index/values: has")
  FORGE(Ops, OpRow, argument_rows, 30, UINT32_MAX, "/index/values: has")
  FORGE(Ops, OpRow, substitutions_begin, 30, 1U << 30U, "/index/substitutions: has")
  FORGE(Ops, OpRow, substitution_count, 30, UINT32_MAX, "/index/substitutions: has")
  FORGE(Ops, OpRow, generator, 30, INT64_MAX, "/index/generators: has no row")
  FORGE(Tensors, TensorRow, role, 5, 2, "unknown role 2")
  FORGE(Tensors, TensorRow, state, 5, 6, "unknown state 6")
  FORGE(Tensors, TensorRow, dtype, 5, 26, "unknown dtype 26")
  FORGE(Tensors, TensorRow, producer, 5, 65, "produced by an operator that is not there")
  FORGE(Tensors, TensorRow, producer, 5, -2, "produced by an operator that is not there")
  FORGE(Tensors, TensorRow, stats, 5, 1U << 20U, "/index/stats: has no row")
  FORGE(Tensors, TensorRow, shape_begin, 5, UINT64_MAX, "/index/dims: has no")
  FORGE(Tensors, TensorRow, shape_count, 5, UINT32_MAX, "/index/dims: has no")
  FORGE(Tensors, TensorRow, strides_count, 5, 5000, "/index/dims: has no")
  FORGE(Tensors, TensorRow, slot, 5, UINT32_MAX, "has no text")
  FORGE(Tensors, TensorRow, digest.high, 5, 1, "which the index does not list")
  FORGE(Contents, ContentRow, digest.high, 2, 1, "which the index does not list")
  FORGE(Contents, ContentRow, dtype, 2, 0, "row 2 is no tensor")
  FORGE(Contents, ContentRow, dtype, 2, 77, "unknown dtype 77")
  FORGE(Contents, ContentRow, bytes, 2, 77, "row 2 is no tensor of 77 bytes")
  FORGE(Contents, ContentRow, shape_count, 2, 1000, "")
  FORGE(Contents, ContentRow, packed, 2, -3, "row 2 lies nowhere")
  FORGE(Contents, ContentRow, packed, 2, -2, "1 contents of another dump, the manifest says 0")
  FORGE(Contents, ContentRow, packed, 0, 0, "/packed: ends before content")
  FORGE(Contents, ContentRow, packed, 2, INT64_MAX, "/packed: ends before content")
  FORGE(Operators, OperatorRow, name, 0, 1U << 31U, "has no text")
  FORGE(Sites, SiteRow, frames_begin, 0, UINT32_MAX, "/index/frames: has")
  FORGE(Sites, SiteRow, frame_count, 0, UINT32_MAX, "/index/frames: has")
  FORGE(Frames, FrameRow, file, 0, UINT32_MAX, "has no text")
  FORGE(Values, ValueRow, kind, 0, 10, "unknown kind 10")
  FORGE(Values, ValueRow, level, 0, 1, "wrong level")
  FORGE(Values, ValueRow, name, 0, UINT32_MAX - 1, "has no text")
  SUBCASE("texts that are not in order") {
    forge_member(forged.dump, kTextOffsetsTable, 1, 0, std::uint64_t{1} << 40U);
    CHECK(contains(forged.refusal(), "does not cut text_bytes"));
  }
  SUBCASE("a negative size") {
    forge_member(forged.dump, kDimsTable, 1, 0, std::int64_t{-5});
    CHECK(contains(forged.refusal(), "impossible shape"));
  }
}

TEST_CASE("lists that never end or go too deep are a damaged dump") {
  const Forged forged;
  const Extent values = test_support::index_extent(forged.dump, "values");
  const std::uint64_t rows = values.bytes / sizeof(journal::ValueRow);
  REQUIRE(rows > 70);
  for (std::uint64_t row = 0; row < rows; ++row) {
    journal::ValueRow forgery;
    forgery.name = 0;
    forgery.kind = 9;
    forgery.integer = INT64_MAX;
    forgery.level = static_cast<std::uint16_t>(row % 70);
    forge_member(forged.dump, journal::kValuesTable, row, 0, forgery);
  }
  forge_member(forged.dump,
               journal::kOpsTable,
               30,
               offsetof(journal::OpRow, values_begin),
               std::uint64_t{0});
  forge_member(forged.dump,
               journal::kOpsTable,
               30,
               offsetof(journal::OpRow, argument_rows),
               static_cast<std::uint32_t>(rows));
  forge_member(
      forged.dump, journal::kOpsTable, 30, offsetof(journal::OpRow, result_rows), std::uint32_t{0});
  test_support::resign(forged.dump);
  const auto dump = open_dump(forged.dump);
  CHECK(contains(error_of(ErrorKind::kDumpDamaged, [&] { dump->op(30); }), "too deep"));
}

TEST_CASE("an index that is rewritten at random and signed again never crashes the reader") {
  const Forged forged;
  const fs::path file = forged.dump / "trace.h5";
  const std::string clean = test_support::read_bytes(file);
  std::mt19937_64 random(77);
  int refused = 0;
  for (int trial = 0; trial < 300; ++trial) {
    test_support::write_bytes(file, clean);
    const auto& tables = kIndexTables;
    for (int change = 0; change < 4; ++change) {
      const TableLayout& table = *tables[random() % tables.size()];
      const Extent extent = test_support::index_extent(forged.dump, table.name);
      const auto value = static_cast<std::byte>(random() % 2 == 0 ? 0xff : random());
      test_support::overwrite(file, extent.offset + random() % extent.bytes, {&value, 1});
    }
    test_support::resign(forged.dump);
    try {
      const auto dump = open_dump(forged.dump);
      test_support::reads_back(*dump, forged.sample);
    } catch (const core::Error& error) {
      REQUIRE(
          (error.kind() == ErrorKind::kDumpDamaged || error.kind() == ErrorKind::kNotComparable));
      ++refused;
    }
  }
  CHECK(refused > 50);
}

/// Writes /index/contents again with rows of `row_size` bytes, of which version 1.0 knows 40.
void shorten_content_rows(const fs::path& dump, std::size_t row_size) {
  const Extent extent = test_support::index_extent(dump, "contents");
  const std::string trace = test_support::read_bytes(dump / "trace.h5");
  const std::uint64_t rows = extent.bytes / journal::kContentsTable.row_size;
  const std::string_view members = journal::kContentsTable.members;
  const TableLayout layout{"contents", row_size, members.substr(0, members.rfind(' '))};
  test_support::edit_trace(dump, [&](hid_t file) {
    const Blame blame(ErrorKind::kInternal, "the forger");
    blame.ok(H5Ldelete(file, "index/contents", H5P_DEFAULT), "cannot remove");
    const GroupHandle group(blame.id(H5Gopen2(file, "index", H5P_DEFAULT), "cannot open"));
    TableWriter writer(group.get(), layout, rows, blame);
    for (std::uint64_t row = 0; row < rows; ++row) {
      const std::string bytes =
          trace.substr(extent.offset + row * journal::kContentsTable.row_size, row_size);
      writer.append(std::as_bytes(std::span<const char>(bytes)));
    }
    writer.finish();
  });
}

TEST_CASE("the shorter rows of version 1.0 are read") {
  const Forged forged;
  shorten_content_rows(forged.dump, 40);
  test_support::resign(forged.dump);
  CHECK(test_support::reads_back(*open_dump(forged.dump), forged.sample));
}

TEST_CASE("rows that are neither those of version 1.0 nor of a later one are not") {
  const Forged forged;
  shorten_content_rows(forged.dump, 44);
  CHECK(contains(forged.refusal(), "/index/contents: has no member \"packed\""));
}

}  // namespace
}  // namespace repro_check::store
