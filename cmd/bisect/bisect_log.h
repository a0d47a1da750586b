// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/json/json_text.h"
#include "comparators/runs/reduction.h"

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

/// `diverged`, `reproducible`, `unresolved`: as the log and the result have it.
std::string_view outcome_name(comparators::TrialOutcome outcome) noexcept;

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

}  // namespace repro_check::cmd
