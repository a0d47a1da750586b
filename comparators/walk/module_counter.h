// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "comparators/align/object_memo.h"
#include "comparators/report/report.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

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

}  // namespace repro_check::comparators::detail
