// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comparators/align/pairing.h"
#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"

namespace repro_check::comparators {

/// Counts operators by the module that called them, for the first kMostModules of those, and at
/// most kMostBytes of names: a trace may name another one at every call.
class ModuleCounter {
 public:
  /// @param modules  borrowed, and filled
  explicit ModuleCounter(std::vector<ModuleTally>& modules) : modules_(modules) {}

  /// @param outcome  kUnseen of a record without a counterpart
  void see(const core::OpRecord& record, OpOutcome outcome) {
    static const std::string root;
    const std::size_t place = find_or_add(record.site ? record.site->module_path : root);
    if (place == kNowhere) return;
    ModuleTally& tally = modules_[place];
    ++tally.operators;
    if (outcome == OpOutcome::kSkipped || outcome == OpOutcome::kNotJudged) ++tally.not_judged;
    if (outcome == OpOutcome::kDiverged || outcome == OpOutcome::kMismatched ||
        outcome == OpOutcome::kUnseen) {
      ++tally.not_fine;
    }
  }

 private:
  static constexpr std::size_t kMostModules = 10'000;
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20U;
  static constexpr std::size_t kNowhere = SIZE_MAX;

  std::size_t find_or_add(const std::string& path) {
    const auto found = place_of_.find(path);
    if (found != place_of_.end()) return found->second;
    if (place_of_.size() == kMostModules || bytes_ + path.size() > kMostBytes) return kNowhere;
    bytes_ += path.size();
    place_of_.emplace(path, modules_.size());
    modules_.emplace_back().path = path;
    return modules_.size() - 1;
  }

  std::vector<ModuleTally>& modules_;
  std::unordered_map<std::string, std::size_t> place_of_;
  std::size_t bytes_ = 0;  ///< of their names
};

/// The first record of each rank that is not fine, for the kMostRanks ranks that part first. A dump
/// may say that every record has a rank of its own: that must cost no more than other nonsense.
class RankFirsts {
 public:
  static constexpr std::size_t kMostRanks = 1024;

  /// @param ranks  of the dumps, distinct and sorted; borrowed
  explicit RankFirsts(std::span<const std::uint32_t> ranks) : ranks_(ranks) {}

  void see(const core::OpRecord& record, bool in_baseline) {
    if (ranks_.size() < 2) return;
    if (firsts_.size() == kMostRanks && !firsts_.contains(record.rank)) return;
    const auto [place, is_first] = firsts_.try_emplace(record.rank);
    if (!is_first) return;
    RankDivergence& first = place->second;
    first.rank = record.rank;
    first.in_baseline = in_baseline;
    first.op_index = record.index;
    first.op = head_of(record);
  }

  /// Fills Report::ranks and rank_divergences, with a warning where that is not all. The object is
  /// empty afterwards.
  void finish(Report& report) {
    // Beside those that part the lowest of the others, as many as there is room for.
    std::size_t others = std::min(ranks_.size(), kMostRanks) - firsts_.size();
    for (const std::uint32_t rank : ranks_) {
      const bool parts = firsts_.contains(rank);
      if (parts || others != 0) report.ranks.push_back(rank);
      if (!parts && others != 0) --others;
    }
    for (auto& [rank, first] : firsts_) report.rank_divergences.push_back(std::move(first));
    firsts_.clear();
    if (ranks_.size() <= kMostRanks) return;
    report.warnings.push_back(
        Phrase("ranks-listed", {{"shown", kMostRanks}, {"all", ranks_.size()}}));
  }

 private:
  std::span<const std::uint32_t> ranks_;
  std::map<std::uint32_t, RankDivergence> firsts_;
};

/// How many earlier records of its side share the key of a record: what tells the calls of one
/// operator in one module apart. 4 bytes a record of a side, from the first one that is asked for.
class Occurrences {
 public:
  /// @param pairing  borrowed
  explicit Occurrences(const Pairing& pairing) : pairing_(pairing) {}

  /// Fills OpDivergence::occurrence: by the baseline's record, where there is one.
  void fill(OpDivergence& item) {
    const bool in_baseline = item.baseline_index.has_value();
    Ops& earlier = in_baseline ? baseline_ : candidate_;
    if (earlier.empty()) {
      Ops seen(pairing_.distinct_keys, 0);
      for (const std::uint32_t key : (in_baseline ? pairing_.baseline : pairing_.candidate).keys) {
        earlier.push_back(seen[key]++);
      }
    }
    item.occurrence = earlier[in_baseline ? *item.baseline_index : *item.candidate_index];
  }

 private:
  const Pairing& pairing_;
  // Operators are met in the order in which calls ended, which is not that of the records: counted
  // on the way, an outer one would count its side from the start.
  Ops baseline_;
  Ops candidate_;
};

}  // namespace repro_check::comparators
