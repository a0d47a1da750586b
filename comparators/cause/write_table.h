// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comparators/cause/storage_table.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// What was last written to each storage of one run, to notice a value that changed although no
/// operator wrote it. 40 bytes a storage, twice that of those that came to differ.
class WriteTable {
 public:
  /// To be told every record, in the order in which calls ended.
  /// @param differs  whether some output is not that of the other run
  void see(const core::OpRecord& record, bool differs);

  /// Whether `input` is seen through the view that its producer returned, and holds something else
  /// than it returned. False where that cannot be told.
  [[nodiscard]] bool contradicts(const core::TensorRecord& input) const;
  /// The last operator that wrote something else into the storage than its counterpart, and whose
  /// view of it no other has written since; kNoProducer where there is none.
  [[nodiscard]] std::int64_t differing_writer(const core::TensorRecord& tensor) const;

 private:
  struct Write {
    std::int64_t producer = core::kNoProducer;
    std::uint64_t view = 0;  ///< dtype, shape, strides and offset
    core::Digest content;
  };
  StorageTable<Write> writes_;
  StorageTable<Write> differing_;
};

}  // namespace repro_check::comparators::detail
