// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/program_to_judge.h"

#include <filesystem>
#include <optional>

#include "cmd/options/config_options.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "cmd/recording/space.h"
#include "cmd/reports/verdict.h"

namespace repro_check::cmd {

core::ExitCode record_to_judge(const configs::Config& config,
                               const ProgramToJudge& program,
                               const GlobalOptions& globals,
                               const std::function<core::ExitCode(const std::string&)>& judge) {
  RecordingJob job;
  job.run = choose_run(config, std::nullopt);
  job.run.name = program.verb;
  job.dump = std::filesystem::proximate(config.dump_directory(job.run));
  const OutputLocks held = hold_alone({job.run.dump.directory});
  const RunOutputs outputs({job.run.dump.directory});
  job.replace_existing = program.force || outputs.may_replace(job.dump);
  require_free(job);
  require_recorder_of(job.run);
  say_kept_seed(config);
  Progress progress(globals);
  progress.begin(1, 1, job.run.name);
  RecordingResult result = record_where_it_fits(job, {}, progress);
  progress.clear();
  result.summary.location = job.dump.string();
  if (!result.totals) {
    return report_failed_run(result, "", program.format == "json" ? "json" : "text", globals);
  }
  return judge(job.dump.string());
}

}  // namespace repro_check::cmd
