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

#include "core/system/large_memory.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/index/index_digest.h"
#include "dumpers/store/index/index_rows.h"

namespace repro_check::store {

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
