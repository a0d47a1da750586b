// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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
    if (last_ == nullptr || last_->first != step) last_ = &*sums_.try_emplace(step).first;
    StepSum& sum = last_->second;
    ++sum.records;
    sum.sum += record;
    if (learns) ++sum.learning;
  }

  [[nodiscard]] const std::map<RankStep, StepSum>& all() const noexcept { return sums_; }

 private:
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
