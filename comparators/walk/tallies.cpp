// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/tallies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "comparators/report/op_text.h"

namespace repro_check::comparators::detail {

DivergenceList::DivergenceList(std::size_t max_items, Report& report)
    : max_items_(max_items), report_(report) {}

std::string DivergenceList::first_text() const {
  if (!report_.first_divergence) return {};
  return op_text(shown_record(*report_.first_divergence));
}

std::size_t DivergenceList::room() const noexcept {
  const std::size_t used = report_.divergences.size();
  const std::size_t free = used < max_items_ ? max_items_ - used : 0;
  // The first one comes on top; without a limit there is nothing above.
  const bool is_first = !report_.first_divergence && free < SIZE_MAX;
  return free + (is_first ? 1U : 0U);
}

void DivergenceList::keep(OpDivergence item) {
  if (room() == 0) return;
  if (!report_.first_divergence) {
    report_.first_divergence = std::move(item);
  } else {
    report_.divergences.push_back(std::move(item));
  }
}

std::size_t ModuleCounter::find_or_add(const std::string& path) {
  const auto found = place_of_.find(path);
  if (found != place_of_.end()) return found->second;
  if (place_of_.size() == kMostModules || bytes_ + path.size() > kMostBytes) return kNowhere;
  bytes_ += path.size();
  place_of_.emplace(path, report_.modules.size());
  report_.modules.emplace_back().path = path;
  return report_.modules.size() - 1;
}

void ModuleCounter::see(const core::OpRecord& record, ModuleOutcome outcome) {
  static const std::string root;
  const std::size_t place = known_.of(
      record.site, [&] { return find_or_add(record.site ? record.site->module_path : root); });
  if (place == kNowhere) return;
  ModuleTally& tally = report_.modules[place];
  ++tally.operators;
  if (outcome == ModuleOutcome::kNotFine) ++tally.not_fine;
  if (outcome == ModuleOutcome::kNotJudged) ++tally.not_judged;
}

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

namespace {

core::LargeVector<std::uint32_t> earlier_alike(const core::LargeVector<std::uint32_t>& keys) {
  core::LargeVector<std::uint32_t> seen(keys.empty() ? 0 : std::size_t{1} + std::ranges::max(keys),
                                        0);
  core::LargeVector<std::uint32_t> earlier;
  earlier.reserve(keys.size());
  for (const std::uint32_t key : keys) earlier.push_back(seen[key]++);
  return earlier;
}

}  // namespace

void Occurrences::fill(OpDivergence& item) {
  const bool in_baseline = item.baseline_index.has_value();
  core::LargeVector<std::uint32_t>& earlier = in_baseline ? baseline_ : candidate_;
  if (earlier.empty()) {
    earlier = earlier_alike((in_baseline ? pairing_.baseline : pairing_.candidate).keys);
  }
  item.occurrence = earlier[in_baseline ? *item.baseline_index : *item.candidate_index];
}

}  // namespace repro_check::comparators::detail
