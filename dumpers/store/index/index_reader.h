// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/content/content_slice.h"
#include "core/digest/digest.h"
#include "core/system/large_memory.h"
#include "core/trace/op_record.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/index/index_rows.h"
#include "dumpers/store/index/row_cache.h"
#include "dumpers/store/index/table_reader.h"

namespace repro_check::store {

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
