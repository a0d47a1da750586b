// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/content/content.h"
#include "core/digest/digest.h"
#include "core/system/large_memory.h"
#include "core/trace/op_record.h"
#include "dumpers/store/contents/content_writer.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/index/tables.h"

namespace repro_check::store {

/// How many rows the records of a trace take in the tables that are written front to back.
struct RowCounts {
  std::uint64_t ops = 0;
  std::uint64_t values = 0;
  std::uint64_t tensors = 0;
  std::uint64_t stats = 0;
  std::uint64_t non_finite = 0;
  std::uint64_t substitutions = 0;
  std::uint64_t generators = 0;

  void add(const core::OpRecord& record);
};

/// Numbers byte strings as they first appear and keeps them one behind the other.
struct BytePool {
  std::vector<char> bytes;
  std::vector<std::uint64_t> offsets{0};  ///< where each begins, and the end of the last

  /// @return position among the distinct strings
  std::uint32_t number(std::string_view text);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
};

/// Folds records into the packed index. What there is one of per record goes to the file at once;
/// what records share, and the operators themselves (they come in order of completion), is kept
/// until the end.
class IndexWriter {
 public:
  /// @param group  `/index`, borrowed
  IndexWriter(hid_t group, const RowCounts& counts, const Blame& blame);

  /// @param record  its index is below counts.ops and has not come before
  void add(const core::OpRecord& record);

  /// @param contents  all that is stored
  /// @param packed    whether those from the journal lie in `/packed`
  /// @param slices    by the contents of which no more is stored
  core::Digest finish(std::span<const KeptContent> contents, bool packed, const Slices& slices);

 private:
  struct ToRow;

  template <typename Row, typename Object>
  Row row_of(const Object& object);
  std::uint32_t op(const std::shared_ptr<const core::OperatorInfo>& op);
  std::uint32_t site(const std::shared_ptr<const core::CallSite>& site);
  void add_value(const core::Value& value, std::uint32_t name, std::uint16_t level);
  void add_tensor(const core::TensorRecord& tensor);
  void add_values(const core::OpRecord& record, OpRow& row);
  template <typename Rows>
  TableDigest write_whole(const TableLayout& layout, const Rows& rows);

  hid_t group_;
  Blame blame_;
  TableWriter values_;
  TableWriter tensors_;
  TableWriter stats_;
  std::optional<TableWriter> non_finite_;  ///< where there are any
  TableWriter substitutions_;
  TableWriter generators_;
  std::vector<OpRow> ops_;
  std::vector<bool> present_;
  BytePool texts_;
  BytePool dims_;  ///< shapes and strides, as the bytes of their numbers
  std::unordered_map<const core::OperatorInfo*, std::uint32_t> op_ids_;
  std::unordered_map<const core::CallSite*, std::uint32_t> site_ids_;
  std::vector<std::shared_ptr<const void>> kept_;  ///< so that no address above comes twice
  std::vector<OperatorRow> operators_;
  std::vector<SiteRow> sites_;
  std::vector<FrameRow> frames_;
};

/// What was made of rows of a table, handed out again: direct-mapped and bounded in bytes, so that
/// a dump in which every operator has a place of its own takes no more memory than another.
template <typename Object>
class RowCache {
 public:
  explicit RowCache(std::uint64_t rows)
      : slots_(std::bit_ceil(
            static_cast<std::size_t>(std::clamp<std::uint64_t>(rows, 1, kMostSlots)))) {}

  /// Null where it is not kept, or not any more.
  [[nodiscard]] std::shared_ptr<const Object> find(std::uint32_t row) const {
    const Slot& slot = slots_[row & (slots_.size() - 1)];
    return slot.row == row ? slot.object : nullptr;
  }

  /// @param bytes  that the object takes, about
  void keep(std::uint32_t row, std::shared_ptr<const Object> object, std::size_t bytes) {
    if (bytes > kMostBytes) return;
    if (bytes_ + bytes > kMostBytes) {
      std::ranges::fill(slots_, Slot{});
      bytes_ = 0;
    }
    Slot& slot = slots_[row & (slots_.size() - 1)];
    bytes_ += bytes - slot.bytes;
    slot = {row, bytes, std::move(object)};
  }

 private:
  static constexpr std::uint64_t kMostSlots = 65'536;
  static constexpr std::size_t kMostBytes = std::size_t{8} << 20U;

  struct Slot {
    std::uint32_t row = 0;
    std::size_t bytes = 0;
    std::shared_ptr<const Object> object;
  };

  std::vector<Slot> slots_;
  std::size_t bytes_ = 0;
};

/// The packed index, read. Every number in it is checked before it is used.
class IndexReader {
 public:
  /// @throws core::Error{kDumpDamaged} when it does not have `digest`, or is not laid out as
  ///         docs/DUMP_FORMAT.md says
  IndexReader(const TraceFile& file, const core::Digest& digest);

  [[nodiscard]] std::uint64_t op_count() const noexcept { return ops_.rows(); }
  [[nodiscard]] std::uint64_t tensor_count() const noexcept { return tensors_.rows(); }
  [[nodiscard]] std::uint64_t content_count() const noexcept { return contents_.rows(); }

  /// @param whole  arguments, results, tensors, substitutions and generator too
  [[nodiscard]] core::OpRecord op(std::uint64_t index, bool whole) const;

  /// A content, and where in `/packed` it is; kOwnDataset or kInReference where it is not there.
  [[nodiscard]] std::pair<core::ContentKey, std::int64_t> content(std::uint64_t index) const;

  [[nodiscard]] std::uint64_t slice_count() const noexcept { return slices_ ? slices_->rows() : 0; }
  /// A content of which only a slice is stored, and that slice, which it can have.
  [[nodiscard]] std::pair<core::ContentKey, core::ContentSlice> slice(std::uint64_t index) const;

 private:
  struct FromRow;

  template <typename Row, typename Object>
  void read(const TableReader& table, Row& row, Object& object) const;
  [[nodiscard]] std::string text(std::uint64_t id) const;
  [[nodiscard]] std::vector<std::int64_t> dims(std::uint64_t begin, std::uint64_t count) const;
  [[nodiscard]] std::shared_ptr<const core::OperatorInfo> operator_info(std::uint32_t id) const;
  [[nodiscard]] std::shared_ptr<const core::CallSite> site(std::uint32_t id) const;
  void read_values(const OpRow& row, core::OpRecord& record) const;
  core::Value value(std::uint64_t& at, std::uint64_t end, int level, std::size_t tensors) const;
  [[nodiscard]] core::TensorRecord tensor(std::uint64_t index) const;
  [[nodiscard]] core::NonFinite non_finite(std::uint64_t tensor) const;

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
  TableReader operators_;
  TableReader sites_;
  TableReader frames_;
  core::LargeVector<std::int64_t> dims_;
  core::LargeVector<std::uint8_t> text_bytes_;
  core::LargeVector<std::uint64_t> text_offsets_;
  mutable RowCache<core::OperatorInfo> operator_cache_;
  mutable RowCache<core::CallSite> site_cache_;
};

}  // namespace repro_check::store
