// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/digest/digest.h"
#include "core/system/large_memory.h"
#include "dumpers/store/file/hdf5.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/index/index_rows.h"

namespace repro_check::store {

/// What the index digest covers of one dataset of /index.
struct TableDigest {
  std::string name;
  std::uint64_t rows = 0;
  std::uint64_t row_size = 0;
  core::Digest digest;  ///< core::digest_bytes of its raw bytes
};

/// Digest of the whole index: of the text with one line `name rows row_size digest` a dataset, in
/// ascending byte order of name.
core::Digest index_digest(std::vector<TableDigest> tables);

/// The HDF5 type of a row.
TypeHandle row_type(const TableLayout& layout, const Blame& blame);

/// Writes one table of the index, front to back. The number of rows is given first, because a
/// contiguous dataset cannot grow, and only such a one is read without trusting a chunk index.
class TableWriter {
 public:
  TableWriter(hid_t group, const TableLayout& layout, std::uint64_t rows, Blame blame);

  /// @param rows  whole rows
  void append(std::span<const std::byte> rows);

  template <typename Row>
  void append_row(const Row& row) {
    append(std::as_bytes(std::span<const Row, 1>(&row, 1)));
  }

  /// Rows appended so far.
  [[nodiscard]] std::uint64_t written() const noexcept { return flushed_ + pending_rows(); }

  /// @throws core::Error{kInternal} when fewer rows came than were announced
  TableDigest finish();

 private:
  [[nodiscard]] std::uint64_t pending_rows() const noexcept {
    return pending_.size() / layout_.row_size;
  }
  void flush();

  const TableLayout& layout_;
  std::uint64_t rows_;
  Blame blame_;
  TypeHandle type_;
  DatasetHandle dataset_;
  std::vector<std::byte> pending_;
  std::uint64_t flushed_ = 0;
  core::DigestStream hasher_;
};

/// Rows of one dataset of /index, read in blocks as they are asked for. A dump of a later minor
/// version may have longer rows, of which the known members come first; one of an earlier version
/// shorter ones, and what they lack keeps its default.
class TableReader {
 public:
  /// Any dataset of one dimension; row(i) is for those with a layout of ours.
  TableReader(const TraceFile& file, hid_t group, const std::string& name);

  /// @throws core::Error{kDumpDamaged} when the rows are not laid out so
  void expect_layout(const TableLayout& layout) const;

  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }

  /// @throws core::Error{kDumpDamaged} when there is no such row
  template <typename Row>
  [[nodiscard]] Row row(std::uint64_t index) const {
    static_assert(std::is_trivially_copyable_v<Row>);
    Row value{};
    std::memcpy(&value, row_bytes(index), std::min<std::uint64_t>(sizeof(Row), row_size_));
    return value;
  }

  /// @throws core::Error{kDumpDamaged} unless rows [begin, begin + count) exist
  void expect_range(std::uint64_t begin, std::uint64_t count, const char* whose) const;

  /// Every row at once, for tables of scalars.
  template <typename Scalar>
  [[nodiscard]] core::LargeVector<Scalar> all() const {
    core::LargeVector<Scalar> values(rows_);
    file_.read(extent_, 0, std::as_writable_bytes(std::span<Scalar>(values)));
    return values;
  }

  /// Reads the whole table through.
  [[nodiscard]] TableDigest digest() const;

  [[nodiscard]] const Blame& blame() const noexcept { return blame_; }

 private:
  struct Block {
    std::uint64_t number = UINT64_MAX;
    std::vector<std::byte> bytes;
  };

  [[nodiscard]] const std::byte* row_bytes(std::uint64_t index) const;

  const TraceFile& file_;
  std::string name_;
  Blame blame_;
  TypeHandle type_;
  std::uint64_t rows_ = 0;
  std::uint64_t row_size_ = 1;
  Extent extent_;
  std::uint64_t rows_per_block_ = 1;
  mutable std::vector<Block> blocks_;  ///< direct-mapped by block number
};

}  // namespace repro_check::store
