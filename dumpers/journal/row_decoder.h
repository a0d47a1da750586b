// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/memory.h"
#include "core/system/pinned.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/block_row.h"
#include "core/trace/op_record.h"
#include "dumpers/journal/entry.h"
#include "dumpers/journal/rows.h"

namespace repro_check::journal {

/// Lists in lists in an argument are kept this deep; a deeper one becomes core::Opaque.
inline constexpr int kMaxListDepth = 64;

/// Dimensions of a tensor that are believed; LibTorch has 64 at most.
inline constexpr std::size_t kMostDims = 1024;

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

/// The tables of the index that records share.
struct SharedTables {
  core::LargeVector<char> text_bytes;
  core::LargeVector<std::uint64_t> text_offsets{0, 0};  ///< where each begins, and the end
  core::LargeVector<std::int64_t> dims;                 ///< shapes and strides
  core::LargeVector<OperatorRow> operators;
  core::LargeVector<SiteRow> sites;
  core::LargeVector<FrameRow> frames;
};

/// Makes records and contents of rows, of which it believes nothing.
class RowDecoder : core::Pinned {
 public:
  /// A call by its rows.
  /// @param whole  arguments, results, tensors, substitutions and generator too
  /// @param into   its memory is used again; of one that is not whole these are left as they are
  /// @throws core::Error{kDumpDamaged}, by fail(), where the rows make no record
  void read_record(const CallRows& call, bool whole, core::OpRecord& into) const;

  /// @throws as read_record(), where the row is of no tensor of so many bytes
  /// @param number  of the row, for messages
  [[nodiscard]] core::ContentKey content_key(ContentRow row, std::uint64_t number) const;

  /// A content of which only a slice is stored, and that slice, which it can have.
  /// @throws as read_record()
  [[nodiscard]] SlicedContent slice(SliceRow row, std::uint64_t number) const;

  /// @throws as read_record()
  [[nodiscard]] core::BlockRow block(BlockLine row) const;
  [[nodiscard]] core::ParameterRow parameter(ParameterLine row) const;

 protected:
  RowDecoder() = default;
  ~RowDecoder() = default;

  /// @throws core::Error as fail()
  [[nodiscard]] std::string_view text(std::uint64_t number) const;
  /// So many operators and sites, about, that records share.
  void expect_shared(std::uint64_t operators, std::uint64_t sites) {
    operator_cache_ = RowCache<core::OperatorInfo>(operators);
    site_cache_ = RowCache<core::CallSite>(sites);
  }

  /// One more than the highest op index there can be.
  [[nodiscard]] virtual std::uint64_t op_limit() const = 0;
  [[noreturn]] virtual void fail(const TableLayout& table, const std::string& what) const = 0;

  SharedTables tables_;

 private:
  struct FromRow;
  /// The values of a call that are still to be read.
  struct ValueRun;

  template <typename Row, typename Object>
  void read(const TableLayout& table, Row& row, Object& object) const;
  // Each throws by fail() where there is no such row.
  template <typename Row>
  Row row_of(const TableLayout& table,
             const core::LargeVector<Row>& rows,
             std::uint64_t number) const;
  [[nodiscard]] std::span<const std::int64_t> sizes(std::uint64_t begin, std::uint64_t count) const;
  [[nodiscard]] std::shared_ptr<const core::OperatorInfo> operator_info(std::uint32_t row) const;
  [[nodiscard]] std::shared_ptr<const core::CallSite> site(std::uint32_t row) const;
  void read_value(ValueRun& run, int level, core::Value& value) const;
  void read_values(const CallRows& call, core::OpRecord& record) const;
  void read_tensor(const CallRows& call, std::size_t number, core::TensorRecord& tensor) const;

  mutable RowCache<core::OperatorInfo> operator_cache_{1};
  mutable RowCache<core::CallSite> site_cache_{1};
};

}  // namespace repro_check::journal
