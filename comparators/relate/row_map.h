// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace repro_check::comparators {

/// What stands in each row of a side: the numbers that were looked up there, one of each table.
struct RowContents {
  std::vector<std::vector<std::int64_t>> numbers;  ///< by table; of one length
  std::uint64_t sequences = 1;                     ///< rows lie in so many pieces of one length

  [[nodiscard]] std::size_t rows() const { return numbers.empty() ? 0 : numbers.front().size(); }
};

/// Which row of A stands in each row of B.
struct RowMap {
  std::vector<std::optional<std::uint64_t>> of_b;
  /// Row of A, by row of B: the next one of the same sequence on both sides.
  std::vector<std::optional<std::uint64_t>> next;
  std::uint64_t rows_a = 0;
  std::uint64_t related = 0;
  std::uint64_t runs = 0;

  [[nodiscard]] bool is_identity() const;
};

/// Every row stands where it stood.
RowMap same_rows(std::uint64_t rows);

/// Finds B's rows among A's by what was looked up in them: runs of rows that are runs of A's, the
/// longest first, each row of A used once.
/// @return empty where it is not proved that both sides were given the same: where neither all of
///         A's rows nor all of B's were found, or in more pieces than there are sequences
std::optional<RowMap> relate_rows(const RowContents& a, const RowContents& b);

}  // namespace repro_check::comparators
