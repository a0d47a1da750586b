// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "cmd/recording/progress.h"
#include "cmd/recording/recorder_process.h"
#include "cmd/render/render.h"
#include "comparators/report/report.h"
#include "configs/parser/config_parser.h"

namespace repro_check::cmd {

/// Where the process that records into `dump` prints: `<dump>.log`.
std::filesystem::path log_beside(std::filesystem::path dump);

/// One run to be recorded in a process of its own. What that is asked for stands in it as it will
/// be sent, but for the place of the dump, which is as a person typed it.
struct RecordingJob : configs::RecordRequest {
  bool replace_aside = false;  ///< what is in digest_directory()

  /// What the recorder's process prints.
  [[nodiscard]] std::filesystem::path log() const { return log_beside(dump); }
  /// Whether a dump in that place is of this job: the dump itself, or that of a rank in it.
  [[nodiscard]] bool made(const std::filesystem::path& place) const {
    return place == dump || place.parent_path() == dump;
  }
};

struct RecordingResult {
  comparators::RunSummary summary;
  RunLog log;
  std::optional<RecorderTotals> totals;  ///< set when the dump is complete
  std::vector<RecorderOutput> outputs;   ///< when the job asks for them
  std::string hint;                      ///< how to mend a failure
};

/// What the user's shell has of the variables that a run pins.
std::map<std::string, std::optional<std::string>> found_environment(const configs::RunSpec& run);

/// What records a run: its recorder, or the probes of programs.
/// @throws core::Error{kUsage} where it is not there
void require_recorder_of(const configs::RunSpec& run);

/// Refuses to write where something is already, unless the job may replace it.
/// @throws core::Error{kUsage} naming the directory and both ways out
void require_free(const RecordingJob& job);

/// Checks dump.reference before anything is recorded.
/// @param jobs  in the order in which they are recorded; those that keep no bytes refer to nothing
/// @throws core::Error{kUsage} when there is no dump, or none that can be referred to, or when a
/// run
///         would refer to a dump that a later run replaces; otherwise as store::open_dump()
void require_references(std::span<const RecordingJob> jobs);

/// Where the dump of a first, digests-only recording is kept when a second one takes its place:
/// `<dump>.digest`.
std::filesystem::path digest_directory(std::filesystem::path dump);

/// The same as require_free(), for digest_directory().
void require_free_aside(const RecordingJob& job);

/// Removes a recording and its log.
/// @throws core::Error{kUsage} when it is no recording, core::Error{kIo}
void discard_with_log(const std::filesystem::path& dump);

/// Removes what an older run has left in digest_directory(), with its log, if the job may replace
/// it.
/// @throws core::Error{kUsage} when it is no recording, core::Error{kIo}
void discard_aside(const RecordingJob& job);

/// Moves a finished recording, with its log, to digest_directory().
/// @throws core::Error{kIo}
void set_aside(const RecordingJob& job);

/// Records. A run that fails is a result, with the operator it failed in where the dump tells.
/// @throws core::Error{kUsage} for what the recorder calls a mistake of the configuration,
///         core::Error{kInterrupted}
RecordingResult record(const RecordingJob& job, Progress& progress);

/// The report on runs of which one failed.
/// @param is_compared  what they recorded is compared all the same: nobody has to be told otherwise
comparators::Report failed_run_report(const std::vector<RecordingResult>& results,
                                      const std::vector<std::string>& not_started,
                                      bool is_compared = false);

}  // namespace repro_check::cmd
