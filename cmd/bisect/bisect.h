// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "cmd/render/json_form.h"
#include "comparators/compare.h"
#include "comparators/report/report.h"
#include "comparators/runs/reduction.h"
#include "configs/setting_changes.h"
#include "configs/spec/run_config.h"
#include "core/error.h"

namespace repro_check::cmd {

/// Of the file, in the directory of a bisect.
inline constexpr const char* kBisectLogName = "bisect.jsonl";

/// One recorded run of a bisect, and what it was when compared with the baseline.
struct LoggedTrial {
  std::vector<std::string> changes;  ///< names of what was changed, in order; empty = nothing
  comparators::TrialOutcome outcome = comparators::TrialOutcome::kUnresolved;
  std::string headline;  ///< of the comparison, or why there was none

  bool operator==(const LoggedTrial&) const = default;
};

/// As the log and the result have it.
template <>
inline constexpr std::string_view kWords<comparators::TrialOutcome> =
    "diverged|reproducible|unresolved";

/// The trials of a bisect in a file that only grows, one JSON object a line, so that a bisect that
/// was killed goes on where it was. The first line says what it belongs to. A last line that was
/// not written to its end is taken away.
class BisectLog {
 public:
  /// Reads the file, or begins it.
  /// @param key    of the configuration, its files and the baseline's recording
  /// @throws core::Error{kUsage} when the file is no such log, or of another key; core::Error{kIo}
  BisectLog(std::filesystem::path file, std::string key);

  /// Whether the file was there, with the same key.
  [[nodiscard]] bool resumed() const noexcept { return resumed_; }
  /// Digest of the index of the baseline's recording; empty until note_baseline().
  [[nodiscard]] const std::string& baseline() const noexcept { return baseline_; }
  [[nodiscard]] const std::vector<LoggedTrial>& trials() const noexcept { return trials_; }

  /// @throws core::Error{kIo}
  void note_baseline(const std::string& digest);
  void append(const LoggedTrial& trial);

 private:
  void read();
  void take_line(const std::string& line, std::size_t number);
  void write_line(const Json& line);
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path file_;
  std::string key_;
  std::string baseline_;
  std::vector<LoggedTrial> trials_;
  bool resumed_ = false;
};

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

template <>
inline constexpr std::string_view kWords<BisectStatus> =
    "reduced|reproducible|not_settings|not_judged";

struct BisectResult {
  BisectStatus status = BisectStatus::kNotJudged;
  comparators::Reduction reduction;
  /// What all items but those of the reduction do; empty where there are none, or nobody asked.
  std::optional<comparators::TrialOutcome> rest;
  std::vector<BisectTrial> trials;
  std::uint64_t recorded = 0;  ///< runs, the baseline's among them
  std::uint64_t known = 0;     ///< runs that the log of an earlier bisect holds
  /// Why baseline or candidate could not be judged.
  std::optional<Report> report;
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
