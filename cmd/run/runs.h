// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "cmd/recording/output_lock.h"
#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "cmd/reports/verdict.h"
#include "comparators/compare.h"
#include "comparators/report/report.h"
#include "comparators/runs/second_pair.h"
#include "configs/spec/run_config.h"

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

/// Whether `run` records the blocks of a program first, and operators of the steps that diverge:
/// its depth was not given, or is blocks, and nothing was asked for that blocks do not have.
bool starts_with_blocks(const configs::Config& config);

/// Makes the jobs of a second round, which keep the bytes of `missing`; of all where empty.
void ask_for_values(std::vector<RecordingJob>& jobs, const comparators::MissingValues& missing);

/// What dumps of one configuration say of its operators; those that cannot be opened are left out,
/// which is noted. None, where that leaves fewer than two.
comparators::OpRepeatability assess_dumps(const std::vector<std::filesystem::path>& dumps,
                                          const std::vector<std::filesystem::path>& references,
                                          std::size_t max_items);

/// One report on N runs: the one that decides the exit code, the earliest of several, which names
/// the statuses of all others and holds what they say together.
/// @param reports  of the second run and those after it, each against the first; one at least
comparators::Report sum_up(std::vector<comparators::Report> reports,
                           comparators::OpRepeatability ops);

/// How runs are recorded and judged.
struct RunPlan {
  std::vector<RecordingJob> jobs;
  comparators::CompareOptions options;
  bool digests_first = false;
  bool blocks_first = false;  ///< of programs, before `jobs` as they stand
  std::uint64_t window = 0;   ///< operators before and after a first divergence, that are recorded
};

/// Every directory that the recordings of a configuration, and reports on them, go to.
std::vector<std::filesystem::path> output_directories(const configs::Config& config);

/// Removes what an earlier `run` or `gate` has left there and these jobs do not replace: dumps of
/// runs of other names, and reports, which would be taken for those of this one.
/// @throws core::Error{kIo}
void discard_earlier(const std::vector<RecordingJob>& jobs, RunOutputs& outputs);

/// The recordings a configuration asks for, all of whose places are free and whose recorders exist.
/// @param may_replace  of a place, whether what lies there may be replaced
/// @throws core::Error{kUsage}
std::vector<RecordingJob> plan_jobs(
    const configs::Config& config,
    bool digests_first,
    const std::function<bool(const std::filesystem::path&)>& may_replace);

/// Records every run, and compares each with the first; several of one configuration as repeats.
/// When one fails, what it recorded is compared as far as it goes; Status::kRunFailed stays. After
/// digests the values around the first divergences are recorded, where there are any and they have
/// values, and what the two rounds say together is settled; the dumps of the first round are then
/// kept in digest_directory(). After blocks the operators around the first step that diverged are
/// recorded, with their values; all operators, where blocks show neither a pass nor a divergence.
/// @throws core::Error{kInterrupted}, saying what the first round has found
Round record_runs(const configs::Config& config, const RunPlan& plan, Progress& progress);

/// `run --explain`: executes the first origin of `report` again, each side from its own dump with
/// its own recorder, and puts what that shows into the report. What stands in the way of it, such
/// as a dump without the operator's values, is said there too.
/// @param jobs  that recorded the runs of the report
/// @throws core::Error{kInterrupted}
void explain_origin(const std::vector<RecordingJob>& jobs,
                    comparators::Report& report,
                    Progress& progress);

/// Whether recording changes what runs return.
struct ObserverCheck {
  std::vector<comparators::ObserverFinding> findings;
  std::vector<RecordingResult> results;  ///< of the runs that were asked, up to one that failed

  [[nodiscard]] bool failed() const { return !results.empty() && !results.back().totals; }
  [[nodiscard]] bool changed() const;
};

/// Runs each job twice without recording, once recorded with digests and once with tensors, and
/// compares what it returns, with dropout and random draws as the model has them. The recordings go
/// beside the dump, to `<dump>.observer`, and are removed. Jobs that differ in their names alone
/// are asked once.
/// @throws core::Error{kUsage, kInterrupted, kIo}
ObserverCheck check_observer(const std::vector<RecordingJob>& jobs, Progress& progress);

/// Adds what was found to the verdict on recordings: runs that return other values while nothing is
/// recorded diverged, whatever recordings of them show.
void add_observed(const ObserverCheck& check, bool is_program, comparators::Report& report);

/// The verdict when recording changed something.
comparators::Report observer_report(const std::vector<RecordingJob>& jobs,
                                    const ObserverCheck& check);

}  // namespace repro_check::cmd
