// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/op_record.h"
#include "dumpers/store/contents/content_writer.h"
#include "dumpers/store/index/index_rows.h"
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
class BytePool {
 public:
  /// @return position among the distinct strings
  std::uint32_t number(std::string_view bytes);
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return std::as_bytes(std::span<const char>(bytes_));
  }
  /// Where each begins, and the end of the last.
  [[nodiscard]] std::span<const std::uint64_t> offsets() const noexcept { return offsets_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<char> bytes_;
  std::vector<std::uint64_t> offsets_{0};
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
  std::uint32_t text(std::string_view text) { return texts_.number(text); }
  std::uint64_t dims(std::span<const std::int64_t> sizes);
  std::uint32_t op(const std::shared_ptr<const core::OperatorInfo>& op);
  std::uint32_t site(const std::shared_ptr<const core::CallSite>& site);
  void add_value(const core::Value& value, std::uint32_t name, std::uint16_t level);
  void add_tensor(const core::TensorRecord& tensor);
  void add_values(const core::OpRecord& record, OpRow& row);
  [[nodiscard]] std::vector<SliceRow> slice_rows(const Slices& slices);
  TableDigest write_whole(const TableLayout& layout, std::span<const std::byte> bytes);

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

}  // namespace repro_check::store
