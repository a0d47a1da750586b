// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cmd/bisect/bisect_log.h"
#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "comparators/compare.h"
#include "comparators/report/report.h"
#include "comparators/runs/reduction.h"
#include "configs/setting_changes.h"
#include "configs/spec/run_config.h"
#include "core/exit_code.h"

namespace repro_check::cmd {

struct BisectPlan {
  configs::RunSpec baseline;
  std::string note;                           ///< on the items, for people; may be empty
  std::vector<configs::SettingChange> items;  ///< all of them make the candidate
  std::filesystem::path directory;
  comparators::CompareOptions options;
  core::DumpLevel level = core::DumpLevel::kDigest;
  std::uint64_t times = 1;  ///< each trial is recorded
};

struct BisectTrial {
  comparators::ItemSet items;
  comparators::TrialOutcome outcome = comparators::TrialOutcome::kUnresolved;
  bool is_flaky = false;  ///< its recordings do not agree
  std::string headline;   ///< of its last recording
};

enum class BisectStatus {
  kReduced,
  kReproducible,  ///< the two do not diverge
  kNotSettings,   ///< the baseline diverges from itself
  kNotJudged,     ///< see BisectResult::report
};

struct BisectResult {
  BisectStatus status = BisectStatus::kNotJudged;
  comparators::Reduction reduction;
  /// What all items but those of the reduction do; empty where there are none, or nobody asked.
  std::optional<comparators::TrialOutcome> rest;
  std::vector<BisectTrial> trials;
  std::uint64_t recorded = 0;  ///< runs, the baseline's among them
  std::uint64_t known = 0;     ///< runs that the log of an earlier bisect holds
  /// Why baseline or candidate could not be judged.
  std::optional<comparators::Report> report;
  std::vector<RunLog> logs;

  [[nodiscard]] bool is_flaky() const noexcept;
};

/// Records the baseline, then runs with some of the items changed, each compared with it, down to a
/// set of items that still diverges and of which none can be left out.
/// @param log  of this plan; trials that it holds are not recorded again
/// @throws core::Error{kInterrupted}, {kIo}, {kUsage} when the log is of another recording of the
///         baseline
BisectResult bisect(const BisectPlan& plan, BisectLog& log, Progress& progress);

/// 1 for a divergence, reduced or not; else as the report says.
core::ExitCode exit_code_of(const BisectResult& result) noexcept;

}  // namespace repro_check::cmd
