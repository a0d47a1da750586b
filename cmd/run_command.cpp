// SPDX-License-Identifier: Apache-2.0
#include "cmd/run_command.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cmd/compare_options.h"
#include "cmd/explain.h"
#include "cmd/logging.h"
#include "cmd/observer_check.h"
#include "cmd/output.h"
#include "cmd/recorder_lookup.h"
#include "cmd/reference.h"
#include "cmd/repeats.h"
#include "cmd/verdict.h"

namespace repro_check::cmd {
namespace {

/// What is left to say when no comparison can be made, since a run failed or recording changed one.
Round ended(const std::vector<RecordingJob>& jobs, const ObserverCheck& check) {
  Round round;
  if (check.failed()) {
    round.results = {check.results.back()};
    round.reports = {failed_run_report(round.results, {})};
    round.reports.front().observer = check.findings;
  } else {
    round.reports = {observer_report(jobs, check)};
  }
  return round;
}

/// Every run is one of its own, and gets a report of its own.
Round record_each(const RunPlan& plan, Progress& progress) {
  Round round = record_round(plan.jobs, plan.options, "", progress);
  if (round.failed()) return round;
  if (plan.replace_aside) std::ranges::for_each(plan.jobs, discard_aside);
  if (!plan.digests_first) return round;
  return look_closer(std::move(round), plan.jobs, plan.options, plan.window, progress);
}

}  // namespace

std::vector<std::string> RunCommand::examples() const {
  return {"repro-check run -c config.json",
          "repro-check run -c config.json --set /determinism=error --out with-determinism",
          "repro-check run -c config.json -n 29",
          "repro-check run -c config.json --explain",
          "repro-check run -c config.json --force --format json | python3 -m json.tool"};
}

void RunCommand::define(CLI::App& app) {
  config_.define(app, true);
  app.add_option(
         "-n,--repeat", repeat_, "Run the one configuration so many times (2), in place of /repeat")
      ->type_name("N");
  app.add_option("--out", out_, "Directory of dumps and reports, in place of /dump/directory")
      ->type_name("DIR");
  app.add_flag("--force", force_, "Replace dumps that exist");
  app.add_flag("--check-observer",
               check_observer_,
               "First see whether recording changes what each run returns");
  app.add_flag("--explain",
               explain_,
               "Execute the operator where a divergence began again, by itself, and say what that "
               "shows");
  report_.define(app);
}

std::vector<RecordingJob> RunCommand::plan(const configs::Config& config,
                                           bool digests_first) const {
  std::vector<RecordingJob> jobs;
  for (const configs::RunSpec& run : config.runs) {
    RecordingJob job;
    job.run = run;
    job.dump = from_here(config.dump_directory(run));
    job.log = log_beside(job.dump);
    job.replace_existing = force_;
    require_free(job);
    if (digests_first) job.run.dump.level = core::DumpLevel::kDigest;
    if (digests_first || force_) require_free_aside(job);
    // Found now, so that a missing one does not show after the first run was recorded.
    require_recorder(run.recorder);
    jobs.push_back(std::move(job));
  }
  std::vector<RecordingJob> with_values = jobs;
  if (digests_first) ask_for_values(with_values, {});
  require_references(with_values);
  return jobs;
}

core::ExitCode RunCommand::finish(const GlobalOptions& globals,
                                  const configs::Config& config,
                                  const Round& round) const {
  const std::vector<comparators::Report>& reports = round.reports;
  ReportStyle style = report_.style(globals, config.report.formats.front());
  // The commands the renderer suggests are about the second run, and here it may be another.
  if (reports.size() == 1) style.options.config_path = config_.file();
  for (const RecordingResult& result : round.results) style.options.logs.push_back(result.log);

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
  const configs::Config config = config_.load(out_, repeat_);
  report_.check_output();
  const bool digests_first = starts_with_digests(config);
  const std::vector<RecordingJob> jobs = plan(config, digests_first);
  comparators::CompareOptions options = compare_options(config.compare);
  options.max_items = report_.max_items();
  options.keep_trail = report_.wants_trail();

  Progress progress(progress_style(globals, stderr_is_terminal(), &std::getenv), stderr);
  ObserverCheck observed;
  if (check_observer_) {
    observed = check_observer(jobs, progress);
    progress.clear();
    if (observed.failed() || observed.changed())
      return finish(globals, config, ended(jobs, observed));
  }
  const RunPlan runs{jobs, options, digests_first, config.recording.window, force_};
  Round round = config.repeat > 2 ? record_repeats(runs, progress) : record_each(runs, progress);
  for (comparators::Report& report : round.reports) report.observer = observed.findings;
  put_worst_first(round.reports);
  if (explain_) explain_origin(jobs, round.reports.front(), progress);
  return finish(globals, config, round);
}

}  // namespace repro_check::cmd
