// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/rank_firsts.h"

#include <utility>

#include "comparators/detail/op_text.h"

namespace repro_check::comparators::detail {

void RankFirsts::see(const core::OpRecord& record, bool in_baseline) {
  const auto [place, is_first] = firsts_.try_emplace(record.rank);
  if (!is_first) return;
  RankDivergence& first = place->second;
  first.rank = record.rank;
  first.in_baseline = in_baseline;
  first.op_index = record.index;
  first.op = head_of(record);
}

std::vector<RankDivergence> RankFirsts::take() {
  std::vector<RankDivergence> taken;
  taken.reserve(firsts_.size());
  for (auto& [rank, first] : firsts_) taken.push_back(std::move(first));
  firsts_.clear();
  return taken;
}

}  // namespace repro_check::comparators::detail
