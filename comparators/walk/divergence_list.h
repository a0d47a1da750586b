// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "comparators/report/report.h"

namespace repro_check::comparators::detail {

/// Puts what is not fine into a report: the first one apart, the others up to a limit.
class DivergenceList {
 public:
  /// @param max_items  kept beside the first one
  /// @param report     borrowed
  DivergenceList(std::size_t max_items, Report& report);

  [[nodiscard]] bool empty() const noexcept { return !report_.first_divergence; }

  /// The first divergence, for those that come after it: `op 3 aten::relu (m)`; empty while all is
  /// fine.
  [[nodiscard]] std::string first_text() const;

  /// How many more would be kept.
  [[nodiscard]] std::size_t room() const noexcept;

  /// Where there is room.
  void keep(OpDivergence item);

 private:
  std::size_t max_items_;
  Report& report_;
};

}  // namespace repro_check::comparators::detail
