// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comparators/detail/storage_table.h"
#include "core/op_record.h"

namespace repro_check::comparators::detail {

/// What was last written to each storage of one run, to notice a value that changed although no
/// operator wrote it. 40 bytes a storage.
class WriteTable {
 public:
  /// To be told every record, in the order in which calls ended.
  void see(const core::OpRecord& record);

  /// Whether `input` is seen through the view that its producer returned, and holds something else
  /// than it returned. False where that cannot be told.
  [[nodiscard]] bool contradicts(const core::TensorRecord& input) const;

 private:
  struct Write {
    std::int64_t producer = core::kNoProducer;
    std::uint64_t view = 0;  ///< dtype, shape, strides and offset
    core::Digest content;
  };
  StorageTable<Write> writes_;
};

}  // namespace repro_check::comparators::detail
