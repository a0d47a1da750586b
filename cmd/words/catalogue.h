// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "comparators/report/finding.h"

namespace repro_check::cmd {

/// The table of the documentation in which a row of the catalogue stands.
enum class FindingTable : std::uint8_t {
  kReplicas,   ///< RANKS.md, what must be equal
  kExchanges,  ///< RANKS.md, what ranks exchange
  kData,       ///< RANKS.md, what ranks read
  kRanks,      ///< RANKS.md, what is said without a difference
  kRecording,  ///< REPORTS.md, what one recording shows by itself
};

/// All words of one finding. Texts are templates as say() takes them, over the fields and the place
/// of the finding.
struct FindingRow {
  comparators::FindingId id;
  std::string_view name;  ///< `gradients-not-reduced`: stable, in JSON and in expectations
  FindingTable table;
  std::string_view weight;    ///< proof, suspicion or note, as the documentation says it
  std::string_view title;     ///< a headline
  std::string_view evidence;  ///< what was seen
  std::string_view advice;    ///< what to do
  std::string_view when;      ///< when it is said, for the documentation
};

/// A row for each FindingId, in its order.
std::span<const FindingRow> finding_catalogue() noexcept;
const FindingRow& row_of(comparators::FindingId id) noexcept;

}  // namespace repro_check::cmd
