// SPDX-License-Identifier: Apache-2.0
#include "cmd/run/run_command.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cmd/options/compare_options.h"
#include "cmd/recording/own_recordings.h"
#include "cmd/reports/verdict.h"
#include "cmd/run/explain.h"
#include "cmd/run/observer_check.h"
#include "cmd/run/runs.h"
#include "cmd/terminal/output.h"

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

}  // namespace

std::vector<std::string> RunCommand::examples() const {
  return {"repro-check run -c config.json",
          "repro-check run -c config.json --set /determinism=error --out with-determinism",
          "repro-check run -c config.json -n 29",
          "repro-check run -c config.json --explain",
          "repro-check run -c config.json --format json | python3 -m json.tool"};
}

void RunCommand::define(CLI::App& app) {
  config_.define(app, true);
  app.add_option(
         "-n,--repeat", repeat_, "Run the one configuration so many times (2), in place of /repeat")
      ->type_name("N");
  app.add_option("--out", out_, "Directory of dumps and reports, in place of /dump/directory")
      ->type_name("DIR");
  app.add_flag("--force", force_, "Replace dumps that no earlier `run` has left there");
  app.add_flag("--check-observer",
               check_observer_,
               "First see whether recording changes what each run returns");
  app.add_flag("--explain",
               explain_,
               "Execute the operator where a divergence began again, by itself, and say what that "
               "shows");
  report_.define(app);
}

core::ExitCode RunCommand::finish(const GlobalOptions& globals,
                                  const configs::Config& config,
                                  const Round& round) const {
  const std::vector<comparators::Report>& reports = round.reports;
  ReportStyle style = report_.style(globals, config.report.formats.front());
  // The commands the renderer suggests are about the second run, and here it may be another.
  if (reports.size() == 1) style.options.config_path = config_.file();
  style.options.config_flags = config_.flags();
  if (out_) style.options.output_directory = *out_;
  for (const RecordingResult& result : round.results) style.options.logs.push_back(result.log);

  write_other_formats(reports, style, config.report.formats, config.runs.front().dump.directory);
  report_.emit(reports, style);
  return worst_exit(reports);
}

core::ExitCode RunCommand::run(const GlobalOptions& globals) {
  const configs::Config config = config_.load(out_, repeat_);
  report_.check_output(&config.report);
  const OutputLocks held = hold_alone(output_directories(config));
  const RunOutputs outputs(output_directories(config));
  const bool digests_first = starts_with_digests(config);
  const std::vector<RecordingJob> jobs =
      plan_jobs(config, digests_first, [&](const std::filesystem::path& place) {
        return force_ || outputs.may_replace(place);
      });
  comparators::CompareOptions options = compare_options(config.compare);
  options.max_items = report_.max_items();
  options.keep_trail = report_.wants_trail();

  Progress progress(progress_style(globals, stderr_is_terminal(), &std::getenv), stderr);
  options.progress = comparison_on(progress);
  ObserverCheck observed;
  if (check_observer_) {
    observed = check_observer(jobs, progress);
    progress.clear();
    if (observed.failed() || observed.changed())
      return finish(globals, config, ended(jobs, observed));
  }
  const RunPlan runs{jobs, options, digests_first, config.recording.window};
  Round round = record_runs(config, runs, progress);
  for (comparators::Report& report : round.reports) report.observer = observed.findings;
  put_worst_first(round.reports);
  if (explain_) explain_origin(jobs, round.reports.front(), progress);
  return finish(globals, config, round);
}

}  // namespace repro_check::cmd
