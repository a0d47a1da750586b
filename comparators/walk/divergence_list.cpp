// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/divergence_list.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "comparators/report/op_text.h"

namespace repro_check::comparators::detail {

DivergenceList::DivergenceList(std::size_t max_items, Report& report)
    : max_items_(max_items), report_(report) {}

std::string DivergenceList::first_text() const {
  if (!report_.first_divergence) return {};
  return op_text(record_of(*report_.first_divergence));
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

}  // namespace repro_check::comparators::detail
