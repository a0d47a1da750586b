// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/digest/digest_stream.h"
#include "dumpers/store/file/hdf5_handle.h"
#include "dumpers/store/file/hdf5_scope.h"
#include "dumpers/store/index/index_digest.h"
#include "dumpers/store/index/index_rows.h"

namespace repro_check::store {

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

}  // namespace repro_check::store
