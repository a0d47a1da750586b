// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/steps.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

namespace repro_check::comparators {
namespace {

/// Steps of one side that are looked at together.
constexpr std::size_t kWindow = 64;
/// Steps of one run that may be one step of the other: accumulated gradients.
constexpr std::size_t kMostMerged = 8;
/// Steps are one step of the other run where so many records of them, of all, are left over at
/// most.
constexpr std::uint64_t kAlike = 4;
/// Records that are held against others.
constexpr std::uint64_t kMostWork = 100'000'000;
/// In the number of a step that the baseline lacks.
constexpr std::uint32_t kOfCandidateAlone = 0x8000'0000U;

struct Step {
  std::uint32_t number = 0;
  StepSum sum;
};
using Steps = std::span<const Step>;

std::vector<Step> steps_of(const StepSums& side, std::uint32_t rank) {
  std::vector<Step> steps;
  for (auto at = side.all().lower_bound({rank, 0}); at != side.all().end(); ++at) {
    if (at->first.first != rank) break;
    steps.push_back({at->first.second, at->second});
  }
  return steps;
}

std::uint64_t learning_in(Steps steps) {
  std::uint64_t records = 0;
  for (const Step& step : steps) records += step.sum.learning;
  return records;
}

std::uint64_t records_in(Steps steps) {
  std::uint64_t records = 0;
  for (const Step& step : steps) records += step.sum.records;
  return records;
}

/// How many steps of each side belong together.
struct Move {
  std::size_t here = 0;
  std::size_t there = 0;

  [[nodiscard]] bool is_pair() const noexcept { return here == 1 && there == 1; }
  [[nodiscard]] bool is_one_sided() const noexcept { return here == 0 || there == 0; }
};

class RankAligner {
 public:
  RankAligner(std::uint32_t rank, const std::pair<StepRecords, StepRecords>& records)
      : rank_(rank), records_(records) {}

  void run(Steps here, Steps there, StepNumbers& into) {
    while (!here.empty() && !there.empty()) {
      std::size_t alike = 0;
      const std::size_t both = std::min(here.size(), there.size());
      while (alike < both && here[alike].sum == there[alike].sum) ++alike;
      for (std::size_t i = 0; i < alike; ++i) number(here.subspan(i, 1), there.subspan(i, 1), into);
      here = here.subspan(alike);
      there = there.subspan(alike);
      const Move taken = align(here.first(std::min(here.size(), kWindow)),
                               there.first(std::min(there.size(), kWindow)),
                               into);
      here = here.subspan(taken.here);
      there = there.subspan(taken.there);
    }
    for (std::size_t i = 0; i < there.size(); ++i) number({}, there.subspan(i, 1), into);
  }

 private:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  /// Records that are left over when these belong together; kNever where they cannot.
  std::uint64_t cost(Steps here, Steps there) {
    if (here.empty() || there.empty()) {
      const Step& alone = here.empty() ? there.front() : here.front();
      return alone.sum.learning != 0 ? kNever : alone.sum.records;
    }
    const bool is_pair = here.size() == 1 && there.size() == 1;
    if (is_pair && here.front().sum == there.front().sum) return 0;
    const std::uint64_t left = records_in(here);
    const std::uint64_t right = records_in(there);
    const auto too_many = [&](std::uint64_t over) { return kAlike * over > left + right; };
    const std::uint64_t least = std::max(left, right) - std::min(left, right);
    if (!is_pair && (learning_in(here) != learning_in(there) || too_many(least))) return kNever;
    if (work_ > kMostWork) return is_pair ? least : kNever;
    std::vector<StepKey> key;
    for (const Step& step : here) key.emplace_back(step.sum.records, step.sum.sum);
    key.emplace_back(0, 0);
    for (const Step& step : there) key.emplace_back(step.sum.records, step.sum.sum);
    const auto [found, is_new] = costs_.try_emplace(std::move(key), 0);
    if (is_new) found->second = left_over(joined(here, true), joined(there, false));
    return !is_pair && too_many(found->second) ? kNever : found->second;
  }

  std::uint64_t left_over(const std::vector<std::uint64_t>& here,
                          const std::vector<std::uint64_t>& there) {
    work_ += here.size() + there.size();
    std::vector<std::uint64_t> alone;
    std::ranges::set_symmetric_difference(here, there, std::back_inserter(alone));
    return alone.size();
  }

  [[nodiscard]] std::vector<std::uint64_t> joined(Steps steps, bool of_baseline) const {
    const StepRecords& side = of_baseline ? records_.first : records_.second;
    std::vector<std::uint64_t> all;
    for (const Step& step : steps) {
      const std::vector<std::uint64_t>& more = side.at({rank_, step.number});
      all.insert(all.end(), more.begin(), more.end());
    }
    std::ranges::sort(all);
    return all;
  }

  static std::vector<Move> moves() {
    std::vector<Move> moves{{1, 1}, {1, 0}, {0, 1}};
    for (std::size_t many = 2; many <= kMostMerged; ++many) {
      moves.push_back({many, 1});
      moves.push_back({1, many});
    }
    return moves;
  }

  /// @param cost_behind  of what follows a move
  /// @return the least cost, and the move that has it; kNever where none is possible
  template <typename CostBehind>
  std::pair<std::uint64_t, Move> cheapest(Steps here, Steps there, const CostBehind& cost_behind) {
    static const std::vector<Move> all = moves();
    std::pair<std::uint64_t, Move> best{kNever, {}};
    for (const Move& move : all) {
      if (move.here > here.size() || move.there > there.size()) continue;
      const std::uint64_t own = cost(here.first(move.here), there.first(move.there));
      if (own == kNever) continue;
      // Of two that leave over as much, the pair.
      const std::uint64_t total = cost_behind(move) + 2 * own + (move.is_pair() ? 0U : 1U);
      if (total < best.first) best = {total, move};
    }
    return best;
  }

  /// From each pair of places the least cost to where one side ends, and the first move there.
  Move align(Steps here, Steps there, StepNumbers& into) {
    const std::size_t width = there.size() + 1;
    std::vector<std::uint64_t> costs((here.size() + 1) * width);
    std::vector<Move> best(costs.size());
    // What is left of a side, once the other one has ended, is left over as well.
    for (std::size_t i = 0; i < here.size(); ++i) {
      costs[i * width + there.size()] = 2 * records_in(here.subspan(i));
    }
    for (std::size_t j = 0; j < there.size(); ++j) {
      costs[here.size() * width + j] = 2 * records_in(there.subspan(j));
    }
    for (std::size_t i = here.size(); i-- > 0;) {
      for (std::size_t j = there.size(); j-- > 0;) {
        const auto cost_behind = [&](const Move& move) {
          return costs[(i + move.here) * width + j + move.there];
        };
        std::tie(costs[i * width + j], best[i * width + j]) =
            cheapest(here.subspan(i), there.subspan(j), cost_behind);
      }
    }
    Move at;
    while (at.here < here.size() && at.there < there.size()) {
      const Move& move = best[at.here * width + at.there];
      number(here.subspan(at.here, move.here), there.subspan(at.there, move.there), into);
      at = {at.here + move.here, at.there + move.there};
    }
    return at;
  }

  void number(Steps here, Steps there, StepNumbers& into) const {
    for (const Step& step : here) put(step, here.front().number, into.baseline);
    for (const Step& step : there) {
      put(step,
          here.empty() ? step.number | kOfCandidateAlone : here.front().number,
          into.candidate);
    }
  }

  void put(const Step& step, std::uint32_t number, std::map<RankStep, std::uint32_t>& into) const {
    if (step.number != number) into[{rank_, step.number}] = number;
  }

  using StepKey = std::pair<std::uint64_t, std::uint64_t>;

  std::uint32_t rank_;
  const std::pair<StepRecords, StepRecords>& records_;
  std::map<std::vector<StepKey>, std::uint64_t> costs_;  ///< of steps with such sums
  std::uint64_t work_ = 0;
};

/// Whether steps of one number belong together: there are as many on both sides, or they are alike
/// as far as both go; they begin with the same, or nothing can be told.
bool are_aligned(const std::vector<Step>& here, const std::vector<Step>& there) {
  if (here.empty() || there.empty() || here.front().number != there.front().number) return true;
  if (here.size() == there.size()) return true;
  const auto both = static_cast<std::ptrdiff_t>(std::min(here.size(), there.size()));
  return std::equal(
      here.begin(), here.begin() + both, there.begin(), [](const Step& one, const Step& other) {
        return one.number == other.number && one.sum == other.sum;
      });
}

}  // namespace

StepNumbers align_steps(const StepSums& baseline,
                        const StepSums& candidate,
                        const std::function<std::pair<StepRecords, StepRecords>()>& records) {
  StepNumbers numbers;
  std::optional<std::pair<StepRecords, StepRecords>> read;
  for (const std::uint32_t rank : baseline.ranks()) {
    const std::vector<Step> here = steps_of(baseline, rank);
    const std::vector<Step> there = steps_of(candidate, rank);
    if (are_aligned(here, there)) continue;
    if (!read) read = records();
    RankAligner(rank, *read).run(here, there, numbers);
  }
  return numbers;
}

}  // namespace repro_check::comparators
