// SPDX-License-Identifier: Apache-2.0
#include "cmd/run_command.h"

#include <CLI/App.hpp>
#include <cstdio>
#include <cstdlib>

#include "cmd/logging.h"
#include "cmd/output.h"
#include "cmd/recorder_lookup.h"
#include "cmd/verdict.h"

namespace repro_check::cmd {
namespace {

/// Records one job after the other, up to the first that fails: later runs would be compared with
/// nothing.
std::vector<RecordingResult> record_all(const std::vector<RecordingJob>& jobs, Progress& progress) {
  std::vector<RecordingResult> results;
  for (const RecordingJob& job : jobs) {
    progress.begin(results.size() + 1, jobs.size(), job.run.name);
    results.push_back(record(job, progress));
    if (!results.back().totals) break;
  }
  return results;
}

std::vector<std::string> names_after(const std::vector<RecordingJob>& jobs, std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = count; i < jobs.size(); ++i) names.push_back(jobs[i].run.name);
  return names;
}

}  // namespace

std::vector<std::string> RunCommand::examples() const {
  return {"repro-check run -c config.json",
          "repro-check run -c config.json --set /determinism=error --out with-determinism",
          "repro-check run -c config.json --force --format json | python3 -m json.tool"};
}

void RunCommand::define(CLI::App& app) {
  config_.define(app, true);
  app.add_option("--out", out_, "Directory of dumps and reports, in place of /dump/directory")
      ->type_name("DIR");
  app.add_flag("--force", force_, "Replace dumps that exist");
  report_.define(app);
}

std::vector<RecordingJob> RunCommand::plan(const configs::Config& config) const {
  std::vector<RecordingJob> jobs;
  for (const configs::RunSpec& run : config.runs) {
    RecordingJob job;
    job.run = run;
    job.dump = from_here(config.dump_directory(run));
    job.log = job.dump;
    job.log += ".log";
    job.replace_existing = force_;
    require_free(job);
    // Found now, so that a missing one does not show after the first run was recorded.
    require_recorder(run.recorder);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::vector<comparators::Report> RunCommand::compare(const configs::Config& config,
                                                     const std::vector<RecordingJob>& jobs) const {
  comparators::CompareOptions options;
  options.spec = config.compare;
  options.max_items = report_.max_items();
  std::vector<comparators::Report> reports;
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    reports.push_back(judge(jobs.front().dump, jobs[i].dump, options));
  }
  put_worst_first(reports);
  return reports;
}

core::ExitCode RunCommand::finish(const GlobalOptions& globals,
                                  const configs::Config& config,
                                  const std::vector<comparators::Report>& reports,
                                  const std::vector<RecordingResult>& results) const {
  ReportStyle style = report_.style(globals, config.report.formats.front());
  // The commands the renderer suggests are about the second run, and here it may be another.
  if (reports.size() == 1) style.options.config_path = config_.file();
  for (const RecordingResult& result : results) style.options.logs.push_back(result.log);

  for (const std::string& format : config.report.formats) {
    if (format == style.format) continue;
    ReportStyle in_file = style;
    in_file.format = format;
    in_file.options.color = false;
    in_file.options.pretty_json = false;
    const std::filesystem::path file = from_here(config.runs.front().dump.directory) /
                                       (format == "json" ? "report.json" : "report.txt");
    write_file(file, render_reports(reports, in_file));
    log_info("report written to " + file.string());
  }
  report_.emit(reports, style);
  return worst_exit(reports);
}

core::ExitCode RunCommand::run(const GlobalOptions& globals) {
  const configs::Config config = config_.load(out_);
  report_.check_output();
  const std::vector<RecordingJob> jobs = plan(config);

  Progress progress(progress_style(globals, stderr_is_terminal(), &std::getenv), stderr);
  const std::vector<RecordingResult> results = record_all(jobs, progress);
  if (!results.back().totals) {
    const auto report = failed_run_report(results, names_after(jobs, results.size()));
    return finish(globals, config, {report}, results);
  }
  progress.stage("comparing");
  const std::vector<comparators::Report> reports = compare(config, jobs);
  progress.clear();
  return finish(globals, config, reports, results);
}

}  // namespace repro_check::cmd
