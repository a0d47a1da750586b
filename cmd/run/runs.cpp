// SPDX-License-Identifier: Apache-2.0
#include "cmd/run/runs.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cmd/recording/own_recordings.h"
#include "cmd/recording/recorder_process.h"
#include "cmd/recording/recording.h"
#include "cmd/render/words.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "comparators/runs/second_pair.h"
#include "core/error.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

using comparators::RepeatSummary;
using comparators::Report;
using comparators::Status;

RepeatSummary summarise(const std::vector<Report>& reports, comparators::OpRepeatability ops) {
  RepeatSummary summary;
  const comparators::RunSummary& first = reports.front().runs.front();
  summary.runs.push_back({first.name, first.location, "", {}});
  for (const Report& report : reports) {
    const comparators::RunSummary& run = report.runs.at(1);
    comparators::RepeatedRun item{
        run.name, run.location, std::string(status_name(report.status)), {}};
    if (report.first_divergence) item.first_divergence = report.first_divergence->baseline_index;
    summary.runs.push_back(std::move(item));
    const bool differs = report.status == Status::kDiverged;
    if (differs || report.status == Status::kReproducible) ++summary.judged;
    if (differs) ++summary.differing;
    if (std::ranges::any_of(report.differences, &comparators::Difference::affects_numbers)) {
      summary.alike = false;
    }
  }
  summary.ops = std::move(ops);
  return summary;
}

void name_statuses(const Report& other, Report& report) {
  carry_over(other, report);
  std::vector<Status> statuses = other.also;
  statuses.insert(statuses.begin(), other.status);
  for (const Status status : statuses) {
    const bool is_known = status == Status::kReproducible || status == report.status ||
                          std::ranges::find(report.also, status) != report.also.end();
    if (!is_known) report.also.push_back(status);
  }
}

std::vector<std::filesystem::path> dumps_of(std::span<const RecordingJob> jobs) {
  std::vector<std::filesystem::path> dumps;
  for (const RecordingJob& job : jobs) dumps.push_back(job.dump);
  return dumps;
}

/// What the runs before one that failed say; an empty status where they are too few.
void add_what_was_seen(const RunPlan& plan, Round& round) {
  const std::size_t whole = round.results.size() - 1;
  if (whole < 2) return;
  const std::span<const RecordingJob> jobs(plan.jobs.data(), whole);
  std::vector<Report> reports;
  for (const RecordingJob& job : jobs.subspan(1)) {
    reports.push_back(
        judge(jobs.front().dump, job.dump, plan.options, {false, references_of(job)}));
  }
  const Report seen =
      sum_up(std::move(reports),
             assess_dumps(dumps_of(jobs), references_of(jobs.front()), plan.options.max_items));
  Report& failed = round.reports.front();
  const bool known = std::ranges::find(failed.also, Status::kDiverged) != failed.also.end();
  name_statuses(seen, failed);
  // The numbers go with the divergence that is shown.
  if (!known) {
    failed.coverage = seen.coverage;
    failed.policy = seen.policy;
  }
  failed.repeat = seen.repeat;
}

/// The run that a summed up report is about.
std::size_t shown_run(const std::vector<RecordingJob>& jobs, const Report& report) {
  const auto found = std::ranges::find_if(jobs, [&](const RecordingJob& job) {
    return job.dump.string() == report.runs.at(1).location;
  });
  return static_cast<std::size_t>(found - jobs.begin());
}

}  // namespace

comparators::OpRepeatability assess_dumps(const std::vector<std::filesystem::path>& dumps,
                                          const std::vector<std::filesystem::path>& references,
                                          std::size_t max_items) {
  std::vector<std::unique_ptr<core::DumpSource>> opened;
  std::vector<std::string> notes;
  std::vector<std::filesystem::path> places = references;
  places.push_back(dumps.front());
  for (const std::filesystem::path& dump : dumps) {
    if (opened.size() == comparators::kMostAssessed) break;
    try {
      opened.push_back(store::open_dump(dump, places));
      expect_own(*opened.back(), dump);
    } catch (const core::Error& error) {
      // Whoever compares the dump says so in the verdict.
      if (!unreadable_dump(dump, error)) throw;
      notes.emplace_back(error.what());
      if (opened.empty()) break;
    }
  }
  std::vector<const core::DumpSource*> sources;
  sources.reserve(opened.size());
  for (const auto& source : opened) sources.push_back(source.get());
  comparators::OpRepeatability ops = comparators::assess_ops(sources, max_items);
  if (dumps.size() > comparators::kMostAssessed) {
    notes.push_back("operators of the first " + std::to_string(comparators::kMostAssessed) +
                    " runs were assessed");
  }
  ops.notes.insert(ops.notes.begin(), notes.begin(), notes.end());
  return ops;
}

Report sum_up(std::vector<Report> reports, comparators::OpRepeatability ops) {
  RepeatSummary summary = summarise(reports, std::move(ops));
  put_worst_first(reports);
  Report report = std::move(reports.front());
  for (auto other = reports.begin() + 1; other != reports.end(); ++other) {
    name_statuses(*other, report);
    report.seconds += other->seconds;
  }
  report.repeat = std::move(summary);
  return report;
}

namespace {

/// Records all runs, each in a process of its own, judges each by the first, and records the values
/// of two of them, the first and one that differs from it, where digests were recorded first.
/// @return one report; when a run failed, with what the runs before it show
Round record_repeats(const RunPlan& plan, Progress& progress) {
  Round round = record_round(plan.jobs, plan.options, "", progress);
  if (round.failed()) {
    add_what_was_seen(plan, round);
    return round;
  }
  const RecordingJob& first = plan.jobs.front();
  Report all =
      sum_up(std::move(round.reports),
             assess_dumps(dumps_of(plan.jobs), references_of(first), plan.options.max_items));
  std::ranges::for_each(plan.jobs, discard_aside);
  const std::size_t other = shown_run(plan.jobs, all);
  Round pair;
  pair.results = {std::move(round.results.front()), std::move(round.results.at(other))};
  // Of all of them, not of the pair that is looked at closer.
  const std::optional<RepeatSummary> summary = std::exchange(all.repeat, std::nullopt);
  const std::vector<Status> also = all.also;
  pair.reports.push_back(std::move(all));
  if (plan.digests_first) {
    pair = look_closer(
        std::move(pair), {first, plan.jobs.at(other)}, plan.options, plan.window, progress);
  }
  Report& report = pair.reports.front();
  for (const Status status : also) {
    Report known;
    known.status = status;
    name_statuses(known, report);
  }
  report.repeat = summary;
  return pair;
}

/// Every run is one of its own, and gets a report of its own.
Round record_each(const RunPlan& plan, Progress& progress) {
  Round round = record_round(plan.jobs, plan.options, "", progress);
  if (round.failed()) return round;
  std::ranges::for_each(plan.jobs, discard_aside);
  if (!plan.digests_first) return round;
  return look_closer(std::move(round), plan.jobs, plan.options, plan.window, progress);
}

}  // namespace

std::vector<std::filesystem::path> output_directories(const configs::Config& config) {
  std::vector<std::filesystem::path> directories;
  for (const configs::RunSpec& run : config.runs) directories.push_back(run.dump.directory);
  return directories;
}

std::vector<RecordingJob> plan_jobs(
    const configs::Config& config,
    bool digests_first,
    const std::function<bool(const std::filesystem::path&)>& may_replace) {
  std::vector<RecordingJob> jobs;
  for (const configs::RunSpec& run : config.runs) {
    RecordingJob job;
    job.run = run;
    job.dump = from_here(config.dump_directory(run));
    job.log = log_beside(job.dump);
    job.replace_existing = may_replace(job.dump);
    job.replace_aside = may_replace(digest_directory(job.dump));
    require_free(job);
    if (digests_first) job.run.dump.level = core::DumpLevel::kDigest;
    if (digests_first || job.replace_aside) require_free_aside(job);
    // Found now, so that a missing one does not show after the first run was recorded.
    require_recorder(run.recorder);
    jobs.push_back(std::move(job));
  }
  std::vector<RecordingJob> with_values = jobs;
  if (digests_first) ask_for_values(with_values, {});
  require_references(with_values);
  return jobs;
}

Round record_runs(const configs::Config& config, const RunPlan& plan, Progress& progress) {
  return config.repeat > 2 ? record_repeats(plan, progress) : record_each(plan, progress);
}

void write_other_formats(std::span<const comparators::Report> reports,
                         const ReportStyle& style,
                         const std::vector<std::string>& formats,
                         const std::filesystem::path& directory) {
  for (const std::string& format : formats) {
    if (format == style.format) continue;
    ReportStyle in_file = style;
    in_file.format = format;
    in_file.options.color = false;
    in_file.options.pretty_json = false;
    const std::filesystem::path file =
        from_here(directory) / (format == "json" ? "report.json" : "report.txt");
    write_file(file, render_reports(reports, in_file));
    log_info("report written to " + file.string());
  }
}

}  // namespace repro_check::cmd
