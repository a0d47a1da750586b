// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comparators/compare.h"
#include "comparators/detail/pairing.h"

namespace repro_check::comparators::detail {

/// Tells CompareOptions::observer of operators; nothing at all where there is none.
class OpTeller {
 public:
  /// Both are borrowed.
  OpTeller(const OpObserver& observer, const Pairing& pairing)
      : observer_(observer), pairing_(pairing) {}

  [[nodiscard]] bool wanted() const { return static_cast<bool>(observer_.see); }
  [[nodiscard]] bool wants_fine() const { return static_cast<bool>(observer_.see_fine); }

  void see(OpDivergence& item);
  /// @param item  of a matched pair
  void see_fine(OpDivergence item, OpState state);

 private:
  void count_occurrence(OpDivergence& item);

  const OpObserver& observer_;
  const Pairing& pairing_;
  // By record, how many earlier ones share its key; filled when first asked for. Operators are met
  // in the order in which calls ended, and an outer one would else count its side from the start.
  std::vector<std::uint32_t> baseline_;
  std::vector<std::uint32_t> candidate_;
};

}  // namespace repro_check::comparators::detail
