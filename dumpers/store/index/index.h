// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/system/memory.h"
#include "core/tensor/content.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/journal/row_decoder.h"
#include "dumpers/journal/rows.h"
#include "dumpers/store/contents/content_writer.h"
#include "dumpers/store/file/hdf5.h"
#include "dumpers/store/file/trace_file.h"

namespace repro_check::store {

// What rows hold is in dumpers/journal/rows.h.

using journal::TableLayout;

/// `/packed`, beside the index: the bytes of small contents, one behind the other.
inline constexpr TableLayout kPackedTable = journal::table<std::uint8_t>("packed", "u1");

using journal::kDimsTable;
using journal::kTextBytesTable;
using journal::kTextOffsetsTable;

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

/// Writes one table of the index, front to back. The number of rows is given first, because a
/// contiguous dataset cannot grow, and only such a one is read without trusting a chunk index.
class TableWriter {
 public:
  TableWriter(hid_t group, const TableLayout& layout, std::uint64_t rows, Blame blame);

  /// @param rows  whole rows
  void append(std::span<const std::byte> rows);

  template <typename Row>
  void append_row(const Row& row) {
    append(journal::bytes_of(row));
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
    std::memcpy(&value, rows_from(index).data(), std::min<std::uint64_t>(sizeof(Row), row_size_));
    return value;
  }

  /// @param into  gets rows [begin, begin + count)
  /// @throws core::Error{kDumpDamaged} unless these exist
  template <typename Rows>
  void read(std::uint64_t begin, std::uint64_t count, Rows& into) const {
    using Row = typename Rows::value_type;
    expect_range(begin, count);
    into.resize(count);
    if (row_size_ != sizeof(Row)) {
      for (std::uint64_t i = 0; i < count; ++i) into[i] = row<Row>(begin + i);
      return;
    }
    auto left = std::as_writable_bytes(std::span<Row>(into));
    while (!left.empty()) {
      auto rows = rows_from(begin + count - left.size() / sizeof(Row));
      rows = rows.first(std::min(rows.size(), left.size()));
      std::ranges::copy(rows, left.begin());
      left = left.subspan(rows.size());
    }
  }

  /// Every row at once.
  template <typename Row>
  [[nodiscard]] core::LargeVector<Row> all() const {
    core::LargeVector<Row> rows(rows_);
    if (row_size_ == sizeof(Row)) {
      file_.read(extent_, 0, std::as_writable_bytes(std::span<Row>(rows)));
    } else {
      read(0, rows_, rows);
    }
    return rows;
  }

  /// Reads the whole table through.
  [[nodiscard]] TableDigest digest() const;

  [[nodiscard]] const Blame& blame() const noexcept { return blame_; }

 private:
  struct Block {
    std::uint64_t number = UINT64_MAX;
    std::vector<std::byte> bytes;
  };

  /// That row and those behind it in its block.
  [[nodiscard]] std::span<const std::byte> rows_from(std::uint64_t index) const;
  void expect_range(std::uint64_t begin, std::uint64_t count) const;

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

/// Puts the rows of a journal into the packed index. What there is one of per record goes to the
/// file at once; the operators themselves (they come in order of completion), and contents, are
/// kept until the end.
class IndexWriter {
 public:
  /// @param group   `/index`, borrowed
  /// @param counts  of the journal
  IndexWriter(hid_t group, const journal::RowCounts& counts, const Blame& blame);

  /// @param call  its index is below counts.ops and has not come before
  void add(const journal::CallRows& call);
  void add(const journal::ContentRow& content) { contents_.push_back(content); }
  void add(const journal::SliceRow& slice) { slices_.push_back(slice); }
  void add(const journal::BlockLine& block) { blocks_.value().append_row(block); }
  void add(const journal::ParameterLine& read) { parameters_.value().append_row(read); }

  /// @param shared  all that the rows refer to
  core::Digest finish(const journal::SharedTables& shared);

 private:
  template <typename Rows>
  TableDigest write_whole(const TableLayout& layout, const Rows& rows);

  TableWriter values_;
  TableWriter tensors_;
  TableWriter stats_;
  TableWriter substitutions_;
  TableWriter generators_;
  // Where there are any.
  std::optional<TableWriter> non_finite_;
  std::optional<TableWriter> blocks_;
  std::optional<TableWriter> parameters_;
  hid_t group_;
  std::vector<journal::OpRow> ops_;
  std::vector<journal::ContentRow> contents_;
  std::vector<journal::SliceRow> slices_;
  std::vector<bool> present_;
  Blame blame_;
};

/// The packed index, read. Every number in it is checked before it is used.
class IndexReader final : private journal::RowDecoder {
 public:
  /// @throws core::Error{kDumpDamaged} when it does not have `digest`, or is not laid out as
  ///         docs/DUMP_FORMAT.md says
  IndexReader(const TraceFile& file, const core::Digest& digest);

  [[nodiscard]] std::uint64_t op_count() const noexcept { return ops_.rows(); }
  [[nodiscard]] std::uint64_t tensor_count() const noexcept { return tensors_.rows(); }
  [[nodiscard]] std::uint64_t content_count() const noexcept { return contents_.rows(); }
  [[nodiscard]] std::uint64_t slice_count() const noexcept { return slices_ ? slices_->rows() : 0; }

  [[nodiscard]] std::uint64_t block_count() const noexcept { return blocks_ ? blocks_->rows() : 0; }
  [[nodiscard]] std::uint64_t parameter_count() const noexcept {
    return parameters_ ? parameters_->rows() : 0;
  }
  [[nodiscard]] core::BlockRow block(std::uint64_t index) const;
  [[nodiscard]] core::ParameterRow parameter(std::uint64_t index) const;

  /// @param whole  arguments, results, tensors, substitutions and generator too
  /// @param into   its memory is used again
  void read_op(std::uint64_t index, bool whole, core::OpRecord& into) const;
  /// A content, and where in `/packed` it is; kOwnDataset or kInReference where it is not there.
  [[nodiscard]] std::pair<core::ContentKey, std::int64_t> content(std::uint64_t index) const;
  /// A content of which only a slice is stored, and that slice, which it can have.
  [[nodiscard]] journal::SlicedContent slice(std::uint64_t index) const;

 private:
  /// The rows of a call, counted from its first, until those of the next are asked for.
  struct Rows {
    std::vector<journal::ValueRow> values;
    std::vector<journal::TensorRow> tensors;
    std::vector<core::TensorStats> stats;
    std::vector<journal::NonFiniteRow> non_finite;
    std::vector<journal::SubstitutionRow> substitutions;
    std::vector<journal::GeneratorRow> generators;
  };

  void read_rows(const journal::OpRow& row) const;
  [[nodiscard]] std::optional<journal::NonFiniteRow> non_finite(std::uint64_t tensor) const;

  [[nodiscard]] std::uint64_t op_limit() const override { return ops_.rows(); }
  [[noreturn]] void fail(const TableLayout& table, const std::string& what) const override;

  const TraceFile& file_;
  GroupHandle group_;
  TableReader ops_;
  TableReader values_;
  TableReader tensors_;
  TableReader stats_;
  std::optional<TableReader> non_finite_;
  TableReader substitutions_;
  TableReader generators_;
  TableReader contents_;
  std::optional<TableReader> slices_;
  std::optional<TableReader> blocks_;
  std::optional<TableReader> parameters_;
  mutable Rows rows_;
};

/// Where each content of a dump lies, in 32 bytes a content and a few more for its shape: there is
/// one for every tensor of a dump, at worst.
class ContentTable {
 public:
  /// @param place  as ContentRow::packed says it
  /// @return false for a content that is there already, whose first place holds
  bool add(const core::ContentKey& key, std::int64_t place) {
    const auto known = static_cast<std::uint32_t>(entries_.size());
    const std::uint32_t id = slots_.find_or_add(
        hash_of(key),
        known,
        [&](std::uint32_t other) { return is(entries_[other], key); },
        [&](std::uint32_t other) { return hash_of(entries_[other]); });
    if (id != known) return false;
    Entry entry{key.digest, place, 0, static_cast<std::uint16_t>(key.shape.size()), key.dtype};
    // Neighbours often have one shape.
    if (!entries_.empty() && std::ranges::equal(shape_of(entries_.back()), key.shape)) {
      entry.shape_begin = entries_.back().shape_begin;
    } else {
      entry.shape_begin = static_cast<std::uint32_t>(dims_.size());
      dims_.insert(dims_.end(), key.shape.begin(), key.shape.end());
    }
    entries_.push_back(entry);
    return true;
  }

  /// @param wanted  a key, or the record of a tensor, which has to be copied for nothing here
  template <typename Content>
  [[nodiscard]] std::optional<std::int64_t> find(const Content& wanted) const {
    const auto id = slots_.find(hash_of(wanted),
                                [&](std::uint32_t other) { return is(entries_[other], wanted); });
    return id ? std::optional(entries_[*id].place) : std::nullopt;
  }

 private:
  struct Entry {
    core::Digest digest;
    std::int64_t place = 0;
    std::uint32_t shape_begin = 0;
    std::uint16_t shape_count = 0;
    core::Dtype dtype = core::Dtype::kUnknown;
  };

  template <typename Content>
  static std::size_t hash_of(const Content& content) noexcept {
    return static_cast<std::size_t>(content.digest.low ^ static_cast<std::uint64_t>(content.dtype));
  }
  template <typename Content>
  [[nodiscard]] bool is(const Entry& entry, const Content& wanted) const {
    return entry.digest == wanted.digest && entry.dtype == wanted.dtype &&
           std::ranges::equal(shape_of(entry), wanted.shape);
  }
  [[nodiscard]] std::span<const std::int64_t> shape_of(const Entry& entry) const {
    return std::span(dims_).subspan(entry.shape_begin, entry.shape_count);
  }

  core::IdSlots slots_;
  core::LargeVector<Entry> entries_;
  core::LargeVector<std::int64_t> dims_;
};

}  // namespace repro_check::store
