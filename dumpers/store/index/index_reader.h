// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/content/content.h"
#include "core/digest/digest.h"
#include "core/system/large_memory.h"
#include "core/trace/op_record.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/index/index_rows.h"
#include "dumpers/store/index/tables.h"

namespace repro_check::store {

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
  [[nodiscard]] std::string text(std::uint64_t id) const;
  [[nodiscard]] std::vector<std::int64_t> dims(std::uint64_t begin, std::uint64_t count) const;
  [[nodiscard]] std::shared_ptr<const core::OperatorInfo> operator_info(std::uint32_t id) const;
  [[nodiscard]] std::shared_ptr<const core::CallSite> site(std::uint32_t id) const;
  void read_values(const OpRow& row, core::OpRecord& record) const;
  core::Value value(std::uint64_t& at, std::uint64_t end, int level, std::size_t tensors) const;
  [[nodiscard]] core::TensorRecord tensor(std::uint64_t index) const;
  [[nodiscard]] core::NonFinite non_finite(std::uint64_t tensor) const;
  [[nodiscard]] core::GeneratorUse generator(std::uint64_t index) const;
  [[nodiscard]] core::Dtype dtype(std::uint64_t number, const TableReader& table) const;

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
