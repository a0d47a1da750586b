// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "comparators/report/report.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// The first record of each rank that is not fine, for the kMostRanks ranks that part first. A dump
/// may say that every record has a rank of its own: that must cost no more than other nonsense.
class RankFirsts {
 public:
  static constexpr std::size_t kMostRanks = 1024;

  /// @param ranks  of the dumps, distinct and sorted; borrowed
  explicit RankFirsts(std::span<const std::uint32_t> ranks) : ranks_(ranks) {}

  void see(const core::OpRecord& record, bool in_baseline);

  /// Fills Report::ranks and rank_divergences, with a warning where that is not all. The object is
  /// empty afterwards.
  void finish(Report& report);

 private:
  std::span<const std::uint32_t> ranks_;
  std::map<std::uint32_t, RankDivergence> firsts_;
};

}  // namespace repro_check::comparators::detail
