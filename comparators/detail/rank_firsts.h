// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "comparators/report.h"
#include "core/op_record.h"

namespace repro_check::comparators::detail {

/// The first record of each rank that is not fine. A dump may say that every record has a rank of
/// its own: that must cost no more than other nonsense.
class RankFirsts {
 public:
  void see(const core::OpRecord& record, bool in_baseline);

  /// By rank. The object is empty afterwards.
  std::vector<RankDivergence> take();

 private:
  std::map<std::uint32_t, RankDivergence> firsts_;
};

}  // namespace repro_check::comparators::detail
