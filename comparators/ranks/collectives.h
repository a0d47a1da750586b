// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// One that a rank entered.
struct CollectiveCall {
  std::string op;     ///< `c10d::allreduce_`
  std::string sizes;  ///< ` float32 [244]`: what all ranks must put in alike; empty where need not
  std::string place;  ///< ` (train.py:40)`

  /// Whether it can be the same one, on another rank.
  [[nodiscard]] bool meets(const CollectiveCall& other) const {
    return op == other.op && sizes == other.sizes;
  }
};

/// @param record  of core::kCollectiveRecord
CollectiveCall collective_of(const core::OpRecord& record);

/// Those of one step, in the order in which the rank entered them.
/// @throws core::Error{kDumpDamaged}
std::vector<CollectiveCall> collectives_of(const core::DumpSource& dump, std::uint32_t step);

/// The collectives of each step by one digest: what a rank keeps of them.
class CollectiveRoots {
 public:
  void add(std::uint32_t step, const CollectiveCall& call);
  /// Empty where the rank made none in that step.
  [[nodiscard]] core::Digest at(std::uint32_t step) const;
  [[nodiscard]] std::uint32_t last_step() const;
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  std::map<std::uint32_t, core::Digest> roots_;
  std::uint64_t count_ = 0;
};

}  // namespace repro_check::comparators
