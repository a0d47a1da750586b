// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comparators/detail/pairing.h"
#include "comparators/report.h"

namespace repro_check::comparators::detail {

/// Puts what is not fine into a report: the first one apart, the others up to a limit.
class DivergenceList {
 public:
  /// @param max_items  kept beside the first one
  /// Both references are borrowed.
  DivergenceList(const Pairing& pairing, std::size_t max_items, Report& report);

  [[nodiscard]] bool empty() const noexcept { return !report_.first_divergence; }

  /// The first divergence, for those that come after it: `op 3 aten::relu (m)`; empty while all is
  /// fine.
  [[nodiscard]] std::string first_text() const;

  /// How many more would be kept.
  [[nodiscard]] std::size_t room() const noexcept;

  /// Counts how many earlier records share its key, and keeps it where there is room.
  void keep(OpDivergence item);

 private:
  /// How often each key is in the records of a side before `end`.
  struct Seen {
    std::vector<std::uint32_t> counts;
    std::size_t end = 0;
  };

  void count_occurrence(OpDivergence& item);

  const Pairing& pairing_;
  std::size_t max_items_;
  Report& report_;
  Seen baseline_;
  Seen candidate_;
};

}  // namespace repro_check::comparators::detail
