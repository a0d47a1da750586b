// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/myers.h"

#include <algorithm>
#include <cstddef>

namespace repro_check::comparators::detail {
namespace {

/// Furthest baseline position on each diagonal k = x - y after d differences, for every d so far:
/// what it takes to walk the path back. Row d holds k = -d, -d+2, ..., d.
class Trace {
 public:
  [[nodiscard]] std::int64_t at(std::int64_t d, std::int64_t k) const {
    return cells_[static_cast<std::size_t>(d * (d + 1) / 2 + (k + d) / 2)];
  }
  void push(std::int64_t x) { cells_.push_back(static_cast<std::uint32_t>(x)); }

 private:
  std::vector<std::uint32_t> cells_;
};

class Search {
 public:
  Search(std::span<const std::uint32_t> baseline, std::span<const std::uint32_t> candidate)
      : baseline_(baseline),
        candidate_(candidate),
        n_(static_cast<std::int64_t>(baseline.size())),
        m_(static_cast<std::int64_t>(candidate.size())) {}

  MyersResult run(std::int64_t max_differences, std::uint64_t max_steps) {
    MyersResult result;
    max_steps_ = max_steps;
    std::int64_t last = 0;
    for (std::int64_t d = 0; d <= max_differences; ++d) {
      const Row row = advance(d, result);
      if (row == Row::kArrived) {
        result.complete = true;
        walk_back(d, n_ - m_, result);
        return result;
      }
      if (row == Row::kCut) break;
      last = d;
    }
    walk_back(last, furthest(last), result);
    return result;
  }

 private:
  enum class Row {
    kWhole,
    kArrived,  ///< the end of both sequences was reached
    kCut,      ///< the steps are used up; the row is of no use
  };

  /// Where diagonal k starts in row d, before its snake: below (an insertion) or to the right (a
  /// deletion) of the better neighbour in row d - 1.
  [[nodiscard]] std::int64_t start(std::int64_t d, std::int64_t k) const {
    if (d == 0) return 0;
    const bool down = k == -d || (k != d && trace_.at(d - 1, k - 1) < trace_.at(d - 1, k + 1));
    return down ? trace_.at(d - 1, k + 1) : trace_.at(d - 1, k - 1) + 1;
  }

  /// Fills row d; the first one always whole. Cells outside the rectangle are kept as they are: no
  /// snake starts there.
  Row advance(std::int64_t d, MyersResult& result) {
    for (std::int64_t k = -d; k <= d; k += 2) {
      if (d != 0 && result.steps > max_steps_) return Row::kCut;
      std::int64_t x = start(d, k);
      ++result.steps;
      while (x < n_ && x - k < m_ && x - k >= 0 &&
             baseline_[static_cast<std::size_t>(x)] ==
                 candidate_[static_cast<std::size_t>(x - k)]) {
        ++x;
        ++result.steps;
      }
      trace_.push(x);
      if (x == n_ && x - k == m_) {
        for (std::int64_t rest = k + 2; rest <= d; rest += 2) trace_.push(start(d, rest));
        return Row::kArrived;
      }
    }
    return Row::kWhole;
  }

  /// The diagonal of row d that used up most of both sequences.
  [[nodiscard]] std::int64_t furthest(std::int64_t d) const {
    std::int64_t best = 0;
    std::int64_t best_sum = -1;
    for (std::int64_t k = -d; k <= d; k += 2) {
      const std::int64_t x = trace_.at(d, k);
      if (x > n_ || x - k > m_ || x - k < 0) continue;
      if (2 * x - k > best_sum) {
        best_sum = 2 * x - k;
        best = k;
      }
    }
    return best;
  }

  void walk_back(std::int64_t d, std::int64_t k, MyersResult& result) const {
    std::int64_t x = trace_.at(d, k);
    result.baseline_reached = static_cast<std::uint32_t>(x);
    result.candidate_reached = static_cast<std::uint32_t>(x - k);
    for (; d >= 0; --d) {
      const std::int64_t begin = start(d, k);
      for (; x > begin; --x) {
        result.matches.emplace_back(static_cast<std::uint32_t>(x - 1),
                                    static_cast<std::uint32_t>(x - 1 - k));
      }
      if (d == 0) break;
      const bool down = k == -d || (k != d && trace_.at(d - 1, k - 1) < trace_.at(d - 1, k + 1));
      k += down ? 1 : -1;
      x = trace_.at(d - 1, k);
    }
    std::ranges::reverse(result.matches);
  }

  std::span<const std::uint32_t> baseline_;
  std::span<const std::uint32_t> candidate_;
  std::int64_t n_ = 0;
  std::int64_t m_ = 0;
  std::uint64_t max_steps_ = 0;
  Trace trace_;
};

}  // namespace

MyersResult myers(std::span<const std::uint32_t> baseline,
                  std::span<const std::uint32_t> candidate,
                  std::uint32_t max_differences,
                  std::uint64_t max_steps) {
  return Search(baseline, candidate).run(max_differences, max_steps);
}

}  // namespace repro_check::comparators::detail
