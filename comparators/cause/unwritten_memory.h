// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "comparators/cause/storage_table.h"
#include "core/trace/dump_source.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// The first argument that is memory of which not all has been written, and that the operator
/// reads; null where there is none. What only takes its shape, shows it otherwise or writes it does
/// not read it, and neither is it known of what picks elements (`index_select`).
const core::TensorRecord* unwritten_argument(const core::OpRecord& record);

/// Whether an argument is such memory, and the operator reads it or picks elements of it.
bool may_read_unwritten(const core::OpRecord& record);

/// Who allocated memory that nobody had written yet, in one run.
class Allocations {
 public:
  /// To be told every record, in the order in which they ended.
  void see(const core::OpRecord& record);

  /// `` `self` is memory that op 3 aten::empty allocated and that no operator has written since``;
  /// empty where a call inside an operator allocated it, or nobody did.
  /// @param dump  of the run
  [[nodiscard]] std::string describe(const core::TensorRecord& tensor,
                                     const core::DumpSource& dump) const;

 private:
  StorageTable<std::int64_t> allocators_;  ///< op indices
};

}  // namespace repro_check::comparators::detail
