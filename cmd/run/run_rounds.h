// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "comparators/compare.h"
#include "comparators/report/report.h"
#include "configs/spec/run_config.h"
#include "core/trace/op_range.h"

namespace repro_check::cmd {

/// Every run of a configuration recorded once, and each judged by the first.
struct Round {
  std::vector<RecordingResult> results;
  /// One a candidate, in the order of the runs; a single one when a run failed.
  std::vector<comparators::Report> reports;

  [[nodiscard]] bool failed() const { return !results.back().totals; }
};

/// Where dumps may be that a job's dump refers to.
std::vector<std::filesystem::path> references_of(const RecordingJob& job);

/// Whether `run` records digests first: asked for or by default, and the policy can be judged so.
bool starts_with_digests(const configs::Config& config);

/// Makes the jobs of a second round, which keep the bytes of `operators`; of all where empty.
void ask_for_values(std::vector<RecordingJob>& jobs, const core::OpRanges& operators);

/// Records one job after the other, up to the first that fails, and compares. When one fails, what
/// it recorded is compared as far as it goes; Status::kRunFailed stays.
/// @param note  said beside the name of each run while it is recorded; may be empty
Round record_round(const std::vector<RecordingJob>& jobs,
                   const comparators::CompareOptions& options,
                   const std::string& note,
                   Progress& progress);

/// After a round of digests: records the values around the first divergences, when there are any
/// and they have values, and settles what the two rounds say together. The dumps of the first
/// round are then kept in digest_directory().
/// @param window  operators before and after a first divergence
/// @throws core::Error{kInterrupted}, saying what the first round has found
Round look_closer(Round digests,
                  std::vector<RecordingJob> jobs,
                  const comparators::CompareOptions& options,
                  std::uint64_t window,
                  Progress& progress);

}  // namespace repro_check::cmd
