// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/rank_firsts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comparators/report/op_text.h"

namespace repro_check::comparators::detail {

void RankFirsts::see(const core::OpRecord& record, bool in_baseline) {
  if (ranks_.size() < 2) return;
  if (firsts_.size() == kMostRanks && !firsts_.contains(record.rank)) return;
  const auto [place, is_first] = firsts_.try_emplace(record.rank);
  if (!is_first) return;
  RankDivergence& first = place->second;
  first.rank = record.rank;
  first.in_baseline = in_baseline;
  first.op_index = record.index;
  first.op = head_of(record);
}

void RankFirsts::finish(Report& report) {
  // Beside those that part the lowest of the others, as many as there is room for.
  std::size_t others = std::min(ranks_.size(), kMostRanks) - firsts_.size();
  for (const std::uint32_t rank : ranks_) {
    const bool parts = firsts_.contains(rank);
    if (parts || others != 0) report.ranks.push_back(rank);
    if (!parts && others != 0) --others;
  }
  for (auto& [rank, first] : firsts_) report.rank_divergences.push_back(std::move(first));
  firsts_.clear();
  if (ranks_.size() <= kMostRanks) return;
  report.warnings.push_back(fmt::format(
      "{} of {} ranks are listed, those that part first among them", kMostRanks, ranks_.size()));
}

}  // namespace repro_check::comparators::detail
