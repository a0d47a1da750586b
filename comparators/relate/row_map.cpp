// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/row_map.h"

#include <algorithm>
#include <map>

namespace repro_check::comparators {
namespace {

/// Rows with the same key hold the same numbers.
std::vector<std::size_t> keys_of(const RowContents& side,
                                 std::map<std::vector<std::int64_t>, std::size_t>& known) {
  std::vector<std::size_t> keys;
  for (std::size_t row = 0; row < side.rows(); ++row) {
    std::vector<std::int64_t> numbers;
    for (const auto& table : side.numbers) numbers.push_back(table[row]);
    keys.push_back(known.try_emplace(std::move(numbers), known.size()).first->second);
  }
  return keys;
}

struct Run {
  std::size_t b = 0;
  std::size_t a = 0;
  std::size_t rows = 0;
};

class RowRelator {
 public:
  RowRelator(const RowContents& a, const RowContents& b)
      : keys_a_(keys_of(a, known_)), keys_b_(keys_of(b, known_)), used_(keys_a_.size()) {
    for (std::size_t row = 0; row < keys_a_.size(); ++row) places_[keys_a_[row]].push_back(row);
  }

  RowMap relate() {
    RowMap map;
    map.rows_a = keys_a_.size();
    map.of_b.resize(keys_b_.size());
    map.next.resize(keys_b_.size());
    for (std::size_t row = 0; row < keys_b_.size();) {
      const Run run = longest(row);
      for (std::size_t k = 0; k < run.rows; ++k) {
        map.of_b[row + k] = run.a + k;
        if (k + 1 < run.rows) map.next[row + k] = run.a + k + 1;
        used_[run.a + k] = true;
      }
      if (run.rows > 0) ++map.runs;
      map.related += run.rows;
      row += std::max<std::size_t>(run.rows, 1);
    }
    return map;
  }

 private:
  [[nodiscard]] Run longest(std::size_t b) const {
    Run best{b, 0, 0};
    const auto places = places_.find(keys_b_[b]);
    if (places == places_.end()) return best;
    for (const std::size_t a : places->second) {
      std::size_t rows = 0;
      while (b + rows < keys_b_.size() && a + rows < keys_a_.size() && !used_[a + rows] &&
             keys_a_[a + rows] == keys_b_[b + rows]) {
        ++rows;
      }
      if (rows > best.rows) best = {b, a, rows};
    }
    return best;
  }

  std::map<std::vector<std::int64_t>, std::size_t> known_;
  std::vector<std::size_t> keys_a_;
  std::vector<std::size_t> keys_b_;
  std::vector<bool> used_;
  std::map<std::size_t, std::vector<std::size_t>> places_;
};

/// Rows of one sequence follow each other, those of two do not.
void end_sequences(std::uint64_t sequences, RowMap& map) {
  if (sequences < 2 || map.of_b.size() % sequences != 0) return;
  const std::uint64_t length = map.of_b.size() / sequences;
  for (std::uint64_t end = length; end <= map.of_b.size(); end += length) map.next[end - 1].reset();
}

}  // namespace

bool RowMap::is_identity() const {
  for (std::size_t row = 0; row < of_b.size(); ++row) {
    if (of_b[row] != row) return false;
  }
  return of_b.size() == rows_a;
}

RowMap same_rows(std::uint64_t rows) {
  RowMap map;
  map.rows_a = map.related = rows;
  map.runs = 1;
  for (std::uint64_t row = 0; row < rows; ++row) map.of_b.emplace_back(row);
  map.next.resize(rows);
  return map;
}

std::optional<RowMap> relate_rows(const RowContents& a, const RowContents& b) {
  if (a.rows() == 0 || b.rows() == 0) return std::nullopt;
  if (a.numbers == b.numbers) {
    RowMap map = same_rows(a.rows());
    for (std::uint64_t row = 0; row + 1 < a.rows(); ++row) map.next[row] = row + 1;
    end_sequences(std::max(a.sequences, b.sequences), map);
    return map;
  }
  RowMap map = RowRelator(a, b).relate();
  end_sequences(b.sequences, map);
  const bool all = map.related == b.rows() || map.related == a.rows();
  // Single rows that are found here and there are no proof.
  if (!all || map.runs > 2 * std::max(a.sequences, b.sequences)) return std::nullopt;
  return map;
}

}  // namespace repro_check::comparators
