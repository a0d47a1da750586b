// SPDX-License-Identifier: Apache-2.0
#include "cmd/run/run_rounds.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cmd/recording/space.h"
#include "cmd/render/render.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/logging.h"
#include "comparators/runs/second_pair.h"
#include "core/error.h"
#include "core/trace/op_range.h"
#include "dumpers/store/directory/discard.h"
#include "dumpers/store/directory/reference.h"

namespace repro_check::cmd {
namespace {

using comparators::Report;

std::vector<std::string> names_after(const std::vector<RecordingJob>& jobs, std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = count; i < jobs.size(); ++i) names.push_back(jobs[i].run.name);
  return names;
}

/// One a job, where something is known of it; may be shorter than the jobs.
using Estimates = std::vector<std::optional<SpaceEstimate>>;

/// What an older command left of the other runs is no pair of the first run's new dump: were this
/// command to end now, the two would be taken for one.
void discard_older(const std::vector<RecordingJob>& jobs) {
  for (const RecordingJob& job : std::span(jobs).subspan(1)) {
    const bool is_referred_to = std::ranges::any_of(jobs, [&](const RecordingJob& other) {
      const auto& reference = other.run.dump.reference;
      return reference && store::is_same_place(*reference, job.dump);
    });
    if (job.replace_existing && !is_referred_to) store::discard_recording(job.dump);
  }
}

/// Up to the first that fails: later runs would be compared with nothing.
std::vector<RecordingResult> record_all(const std::vector<RecordingJob>& jobs,
                                        const std::string& note,
                                        const Estimates& estimates,
                                        Progress& progress) {
  std::vector<RecordingResult> results;
  for (const RecordingJob& job : jobs) {
    const std::size_t place = results.size();
    progress.begin(place + 1, jobs.size(), job.run.name + note);
    std::optional<SpaceEstimate> estimate =
        place < estimates.size() ? estimates[place] : std::nullopt;
    const RecordingJob& first = jobs.front();
    if (!estimate && place > 0) estimate = estimate_from(first.run, first.dump, job.run);
    results.push_back(record_where_it_fits(job, estimate, progress));
    if (!results.back().totals) break;
    if (place == 0) discard_older(jobs);
  }
  return results;
}

/// The dumps make way for those of the second round, and are named where they are kept.
void keep_digests(const std::vector<RecordingJob>& jobs, std::vector<Report>& reports) {
  for (const RecordingJob& job : jobs) set_aside(job);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    reports[i].runs[0].location = digest_directory(jobs.front().dump).string();
    reports[i].runs[1].location = digest_directory(jobs[i + 1].dump).string();
  }
}

const Report& first_diverged(const std::vector<Report>& reports) {
  return *std::ranges::find(reports, comparators::Status::kDiverged, &Report::status);
}

/// What was recorded before a run failed, each judged by the first run: the whole dumps, and of the
/// failed run as much as it left.
std::vector<Report> judge_what_is_left(const std::vector<RecordingJob>& jobs,
                                       const std::vector<RecordingResult>& results,
                                       const comparators::CompareOptions& options) {
  std::vector<Report> reports;
  for (std::size_t i = 1; i < results.size(); ++i) {
    const std::string& unfinished = results[i].summary.unfinished;
    const bool whole = results[i].totals.has_value();
    if (!whole && unfinished.empty()) continue;
    const std::filesystem::path place = whole ? jobs[i].dump : std::filesystem::path(unfinished);
    reports.push_back(judge(jobs.front().dump, place, options, {!whole, references_of(jobs[i])}));
  }
  return reports;
}

bool was_compared(const Report& report) {
  using comparators::Status;
  return report.status == Status::kDiverged || report.status == Status::kReproducible ||
         report.status == Status::kPartial;
}

/// The one of them that says most; null where nothing was compared.
const Report* telling(const std::vector<Report>& left) {
  const Report* shown = nullptr;
  for (const Report& seen : left) {
    if (!was_compared(seen)) continue;
    const bool diverged = seen.status == comparators::Status::kDiverged;
    if (shown == nullptr || (diverged && shown->status != comparators::Status::kDiverged)) {
      shown = &seen;
    }
  }
  return shown;
}

/// A failed run takes nothing back: the report on it says what the operators before show.
void add_what_is_left(const Report* shown, Report& failed) {
  if (shown == nullptr) return;
  comparators::carry_over(*shown, failed);
  failed.coverage = shown->coverage;
  failed.policy = shown->policy;
  failed.differences = shown->differences;
  if (shown->status == comparators::Status::kPartial) {
    failed.reasons.push_back("what the failed run left is " + shown->reasons.front());
  } else if (shown->runs.at(1).status == "partial" && shown->coverage.candidate_ops > 0) {
    failed.reasons.push_back("what the failed run left was compared up to op " +
                             std::to_string(shown->coverage.candidate_ops - 1));
  }
}

core::Error interrupted_after(const Report& report, const core::Error& error) {
  return {error.kind(),
          error.what(),
          "the first pair of runs had ended: " + cmd::headline(report) + "; it is kept in " +
              report.runs[0].location + " and " + report.runs[1].location};
}

Round record_and_judge(const std::vector<RecordingJob>& jobs,
                       const comparators::CompareOptions& options,
                       const std::string& note,
                       const Estimates& estimates,
                       Progress& progress) {
  Round round;
  round.results = record_all(jobs, note, estimates, progress);
  if (round.failed()) {
    const std::vector<Report> left = judge_what_is_left(jobs, round.results, options);
    const Report* shown = telling(left);
    round.reports = {failed_run_report(
        round.results, names_after(jobs, round.results.size()), shown != nullptr)};
    add_what_is_left(shown, round.reports.front());
    return round;
  }
  progress.stage("comparing");
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    progress.begin(i, jobs.size() - 1, jobs[i].run.name + note);
    round.reports.push_back(
        judge(jobs.front().dump, jobs[i].dump, options, {false, references_of(jobs[i])}));
  }
  progress.clear();
  return round;
}

}  // namespace

void ask_for_values(std::vector<RecordingJob>& jobs, const core::OpRanges& operators) {
  for (RecordingJob& job : jobs) {
    job.run.dump.level = core::DumpLevel::kTensor;
    job.run.dump.keep_ops = operators;
    job.replace_existing = false;
  }
}

std::vector<std::filesystem::path> references_of(const RecordingJob& job) {
  if (!job.run.dump.reference) return {};
  return {*job.run.dump.reference};
}

bool starts_with_digests(const configs::Config& config) {
  return config.recording.level != configs::LevelChoice::kFixed &&
         comparators::can_start_with_digests(config.compare);
}

Round record_round(const std::vector<RecordingJob>& jobs,
                   const comparators::CompareOptions& options,
                   const std::string& note,
                   Progress& progress) {
  return record_and_judge(jobs, options, note, {}, progress);
}

Round look_closer(Round digests,
                  std::vector<RecordingJob> jobs,
                  const comparators::CompareOptions& options,
                  std::uint64_t window,
                  Progress& progress) {
  const core::OpRanges operators = comparators::missing_values(digests.reports, window);
  if (operators.empty()) {
    for (Report& report : digests.reports) report = comparators::settle(std::move(report));
    return digests;
  }
  log_info("the runs diverged: recording them again with the values of " +
           core::describe(operators));
  keep_digests(jobs, digests.reports);
  ask_for_values(jobs, operators);
  Estimates estimates;
  for (const RecordingJob& job : jobs) {
    estimates.push_back(estimate_values(digest_directory(job.dump), job, operators));
  }
  Round round;
  try {
    round = record_and_judge(jobs, options, ", values", estimates, progress);
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kInterrupted) throw;
    throw interrupted_after(first_diverged(digests.reports), error);
  }
  if (round.failed()) {
    round.reports = {
        comparators::settle(first_diverged(digests.reports), std::move(round.reports.front()))};
    return round;
  }
  for (std::size_t i = 0; i < round.reports.size(); ++i) {
    round.reports[i] =
        comparators::settle(std::move(digests.reports[i]), std::move(round.reports[i]));
  }
  return round;
}

}  // namespace repro_check::cmd
