// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace repro_check::comparators {

/// A rank and a step of it.
using RankStep = std::pair<std::uint32_t, std::uint32_t>;

/// What the records of one step are, whatever their order.
struct StepSum {
  std::uint64_t records = 0;
  std::uint64_t sum = 0;
  std::uint64_t learning = 0;  ///< of them, those of a backward pass

  bool operator==(const StepSum&) const = default;
};

/// One side's steps.
class StepSums {
 public:
  /// @param record  a hash of all that the key of the record has but its step
  /// @param learns  it is of a backward pass
  void add(RankStep step, std::uint64_t record, bool learns) {
    if (last_ == nullptr || last_->first != step) {
      if (!takes(step.first)) return;
      last_ = &*sums_.try_emplace(step).first;
    }
    StepSum& sum = last_->second;
    ++sum.records;
    sum.sum += record;
    if (learns) ++sum.learning;
  }

  [[nodiscard]] const std::map<RankStep, StepSum>& all() const noexcept { return sums_; }
  [[nodiscard]] const std::set<std::uint32_t>& ranks() const noexcept { return ranks_; }

 private:
  /// A dump may say that every record has a rank of its own: steps of further ones keep their
  /// numbers.
  static constexpr std::size_t kMostRanks = 1024;

  bool takes(std::uint32_t rank) {
    if (ranks_.size() < kMostRanks) ranks_.insert(rank);
    return ranks_.contains(rank);
  }

  std::set<std::uint32_t> ranks_;
  std::map<RankStep, StepSum> sums_;
  /// Records of one step mostly follow one another.
  std::pair<const RankStep, StepSum>* last_ = nullptr;
};

/// The numbers by which the steps of two runs are aligned: steps that belong together have one
/// number. A step that is not in its map keeps its own.
struct StepNumbers {
  std::map<RankStep, std::uint32_t> baseline;
  std::map<RankStep, std::uint32_t> candidate;

  [[nodiscard]] bool empty() const noexcept { return baseline.empty() && candidate.empty(); }
};

/// The hashes of each step's records, sorted.
using StepRecords = std::map<RankStep, std::vector<std::uint64_t>>;

/// Aligns the steps of two runs by what was called in them. Steps of one number belong together
/// unless fewer records are left over when a step without a backward pass is one run's alone, or
/// when several steps of one run are one of the other, with as much of a backward pass. Bounded
/// work; steps beyond it are numbered on.
/// @param records  reads both sides; called at most once
StepNumbers align_steps(const StepSums& baseline,
                        const StepSums& candidate,
                        const std::function<std::pair<StepRecords, StepRecords>()>& records);

}  // namespace repro_check::comparators
