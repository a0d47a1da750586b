// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comparators/cause/storage_table.h"
#include "core/system/large_memory.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// Finds the operators whose values no later operator of the trace reads: what the model returned,
/// and state that it wrote. Views are followed through their storage. A bit an operator and 16
/// bytes a storage.
class FinalValues {
 public:
  /// To be told every record of one run, in the order in which calls ended.
  void see(const core::OpRecord& record);

  /// Op indices, ascending.
  [[nodiscard]] core::LargeVector<std::uint64_t> ops() const;

 private:
  void mark_read(std::uint64_t op);

  StorageTable<std::uint64_t> holder_;  ///< who returned it last
  core::LargeVector<bool> read_;        ///< by op
};

}  // namespace repro_check::comparators::detail
