// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>

#include "comparators/align/object_memo.h"
#include "comparators/align/pairing.h"
#include "comparators/report/report.h"
#include "core/system/large_memory.h"
#include "core/trace/op_record.h"

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

enum class ModuleOutcome { kFine, kNotFine, kNotJudged };

/// Counts operators by the module that called them, for the first kMostModules of those, and at
/// most kMostBytes of names: a trace may name another one at every call.
class ModuleCounter {
 public:
  static constexpr std::size_t kMostModules = 10'000;
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20U;

  /// @param report  borrowed; its `modules` are filled
  explicit ModuleCounter(Report& report) : report_(report) {}

  /// @param record  its call site is all that is looked at
  void see(const core::OpRecord& record, ModuleOutcome outcome);

 private:
  static constexpr std::size_t kNowhere = SIZE_MAX;
  /// Of the module in report_.modules, or kNowhere.
  std::size_t find_or_add(const std::string& path);

  Report& report_;
  std::unordered_map<std::string, std::size_t> place_of_;
  std::size_t bytes_ = 0;  ///< of their names
  ObjectMemo<core::CallSite, std::size_t> known_;
};

/// The first record of each rank that is not fine, for the kMostRanks ranks that part first. A dump
/// may say that every record has a rank of its own: that must cost no more than other nonsense.
class RankFirsts {
 public:
  static constexpr std::size_t kMostRanks = 1024;

  /// @param ranks  of the dumps, distinct and sorted; borrowed
  explicit RankFirsts(std::span<const std::uint32_t> ranks) : ranks_(ranks) {}

  void see(const core::OpRecord& record, bool in_baseline);

  /// Fills Report::ranks and rank_divergences, with a warning where that is not all. The object is
  /// empty afterwards.
  void finish(Report& report);

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
  void fill(OpDivergence& item);

 private:
  const Pairing& pairing_;
  // Operators are met in the order in which calls ended, which is not that of the records: counted
  // on the way, an outer one would count its side from the start.
  core::LargeVector<std::uint32_t> baseline_;
  core::LargeVector<std::uint32_t> candidate_;
};

}  // namespace repro_check::comparators::detail
