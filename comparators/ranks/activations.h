// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comparators/ranks/rank_roots.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// A value that goes into a tensor which lies on several ranks, or comes out of one.
struct Crossing {
  std::string part;  ///< `|0,1`, the ranks that hold the same; of one that holds its part alone
                     ///< which part that is: `@1:0/2`
  ReplicaItem item;  ///< by the way it goes, its module, its line, and how often that was before
};

/// Names what crosses in a step alike on all ranks. Records of one rank, in their order.
class CrossingReader {
 public:
  /// @param record  a core::kPlacedRecord
  /// @param unread  counted up by tensors without a digest
  std::vector<Crossing> read(const core::OpRecord& record, std::uint64_t& unread);

 private:
  std::uint32_t step_ = 0;
  std::map<std::pair<std::string, std::string>, std::size_t> seen_;  ///< in this step, by part
};

/// All that crosses in the step of a record and that these ranks hold alike, in their order.
/// @param first  op index of the first of that step
ReplicaItems crossings_of(const core::DumpSource& dump,
                          std::uint64_t first,
                          const std::string& part);

}  // namespace repro_check::comparators
