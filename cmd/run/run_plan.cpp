// SPDX-License-Identifier: Apache-2.0
#include "cmd/run/run_plan.h"

#include <algorithm>
#include <utility>

#include "cmd/recording/recorder_lookup.h"
#include "cmd/recording/reference.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"

namespace repro_check::cmd {
namespace {

/// Every run is one of its own, and gets a report of its own.
Round record_each(const RunPlan& plan, Progress& progress) {
  Round round = record_round(plan.jobs, plan.options, "", progress);
  if (round.failed()) return round;
  if (plan.replace_aside) std::ranges::for_each(plan.jobs, discard_aside);
  if (!plan.digests_first) return round;
  return look_closer(std::move(round), plan.jobs, plan.options, plan.window, progress);
}

}  // namespace

OutputLocks hold_outputs(const configs::Config& config) {
  std::vector<std::filesystem::path> directories;
  for (const configs::RunSpec& run : config.runs) directories.push_back(run.dump.directory);
  return hold_alone(directories);
}

std::vector<RecordingJob> plan_jobs(const configs::Config& config,
                                    bool digests_first,
                                    bool replace) {
  std::vector<RecordingJob> jobs;
  for (const configs::RunSpec& run : config.runs) {
    RecordingJob job;
    job.run = run;
    job.dump = from_here(config.dump_directory(run));
    job.log = log_beside(job.dump);
    job.replace_existing = replace;
    require_free(job);
    if (digests_first) job.run.dump.level = core::DumpLevel::kDigest;
    if (digests_first || replace) require_free_aside(job);
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
