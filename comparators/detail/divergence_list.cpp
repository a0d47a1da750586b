// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/divergence_list.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "comparators/detail/op_text.h"

namespace repro_check::comparators::detail {

DivergenceList::DivergenceList(const Pairing& pairing, std::size_t max_items, Report& report)
    : pairing_(pairing), max_items_(max_items), report_(report) {}

std::string DivergenceList::first_text() const {
  if (!report_.first_divergence) return {};
  const OpDivergence& first = *report_.first_divergence;
  return op_text(first.baseline_index ? first.baseline : first.candidate);
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
  count_occurrence(item);
  if (!report_.first_divergence) {
    report_.first_divergence = std::move(item);
  } else {
    report_.divergences.push_back(std::move(item));
  }
}

/// Most items come in the order of their side, so that its keys are counted once in all.
void DivergenceList::count_occurrence(OpDivergence& item) {
  const bool in_baseline = item.baseline_index.has_value();
  const auto& keys = in_baseline ? pairing_.baseline.keys : pairing_.candidate.keys;
  const std::uint64_t place = in_baseline ? *item.baseline_index : *item.candidate_index;
  Seen& seen = in_baseline ? baseline_ : candidate_;
  if (place < seen.end) {
    const auto end = keys.begin() + static_cast<std::ptrdiff_t>(place);
    item.occurrence = static_cast<std::uint64_t>(std::count(keys.begin(), end, *end));
    return;
  }
  if (seen.counts.empty()) seen.counts.assign(std::size_t{1} + std::ranges::max(keys), 0);
  for (; seen.end < place; ++seen.end) ++seen.counts[keys[seen.end]];
  item.occurrence = seen.counts[keys[place]];
}

}  // namespace repro_check::comparators::detail
