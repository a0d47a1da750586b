// SPDX-License-Identifier: Apache-2.0
#include "cmd/bisect/bisect_command.h"

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "cmd/bisect/bisect_summary.h"
#include "cmd/bisect/bisect_weights.h"
#include "cmd/options/choice.h"
#include "cmd/options/compare_options.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/recorder_process.h"
#include "cmd/recording/recording.h"
#include "cmd/reports/verdict.h"
#include "cmd/run/run_rounds.h"
#include "cmd/terminal/output.h"
#include "comparators/measure/policy.h"
#include "configs/parser/config_parser.h"
#include "configs/setting_changes.h"
#include "core/digest/file_digest.h"
#include "core/error.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/directory/discard.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

constexpr std::uint64_t kMostTimes = 1000;

/// Of the content, so that a model that was saved again under its name is not taken for the old
/// one.
std::string content_of(const std::filesystem::path& file) {
  return core::to_hex(core::digest_file(file));
}

/// What the trials of a log depend on.
std::string key_of(const configs::Config& config, const BisectPlan& plan) {
  std::string text = comparators::describe_policy(config.compare);
  for (const configs::RunSpec& run : config.runs) {
    text += "\n" + configs::to_json_text(run);
    for (const std::filesystem::path& file : configs::files_of(run))
      text += content_of(file) + "\n";
  }
  if (configs::uses_noise(config.compare)) text += content_of(*config.compare.noise);
  if (configs::uses_fp64(config.compare)) {
    text += core::to_json_text(store::open_dump(*config.compare.fp64)->manifest());
  }
  text += plan.level == core::DumpLevel::kDigest ? "digests" : "values";
  return core::to_hex(core::digest_bytes(std::as_bytes(std::span(text))));
}

void require_two_runs(const configs::Config& config) {
  if (config.repeat != 0) {
    throw core::Error(core::ErrorKind::kUsage,
                      "/runs: missing; bisect compares two that are set up differently",
                      "list both: \"runs\": [{\"name\": \"baseline\"}, {\"name\": \"candidate\", "
                      "\"threads\": 1}]; for repeats of one there is `run -n 10`");
  }
  if (config.runs.size() != 2) {
    throw core::Error(
        core::ErrorKind::kUsage,
        "/runs: bisect compares two, and here are " + std::to_string(config.runs.size()),
        "leave two of them in");
  }
}

/// @throws core::Error{kUsage} when what is there is no recording
void clear(const BisectPlan& plan) {
  std::error_code error;
  const std::filesystem::path log = plan.directory / kBisectLogName;
  for (const char* name : {"baseline", "trial"}) {
    store::discard_recording(plan.directory / name);
    std::filesystem::remove(log_beside(plan.directory / name), error);
  }
  std::filesystem::remove(log, error);
}

/// Where no bisect has been, what lies there belongs to somebody else.
void require_no_recordings(const BisectPlan& plan) {
  for (const char* name : {"baseline", "trial"}) {
    RecordingJob job;
    job.dump = plan.directory / name;
    require_free(job);
  }
}

}  // namespace

std::vector<std::string> BisectCommand::examples() const {
  return {"repro-check bisect -c config.json",
          "repro-check bisect -c config.json -n 3 --out which-setting"};
}

void BisectCommand::define(CLI::App& app) {
  config_.define(app, true);
  app.add_option("-n,--repeat", times_, "Record each trial so many times (1)")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, kMostTimes));
  app.add_option("--out", out_, "Directory of the log, in place of /dump/directory/bisect")
      ->type_name("DIR");
  app.add_flag("--force", force_, "Start anew, do not go on with what is there");
  restrict_to(app.add_option("--format", format_, "Format of the result"), {"text", "json"});
}

BisectPlan BisectCommand::plan(const configs::Config& config) const {
  require_two_runs(config);
  BisectPlan plan;
  plan.baseline = config.runs[0];
  BisectChanges found = bisect_changes(config.runs[0], config.runs[1]);
  plan.note = std::move(found.note);
  plan.items = std::move(found.changes);
  if (plan.items.empty()) {
    throw core::Error(core::ErrorKind::kUsage,
                      "/runs: both are set up alike, down to the bits of their weights: there is "
                      "nothing to reduce",
                      "for repeats of one configuration there is `run -n 10`");
  }
  plan.directory = from_here(out_ ? std::filesystem::absolute(*out_).lexically_normal()
                                  : config.runs[0].dump.directory / "bisect");
  plan.options = compare_options(config.compare);
  const bool by_digests = starts_with_digests(config);
  plan.level = by_digests ? core::DumpLevel::kDigest : config.runs[0].dump.level;
  return plan;
}

core::ExitCode BisectCommand::print(const GlobalOptions& globals,
                                    const BisectPlan& plan,
                                    const BisectResult& result) const {
  RenderOptions options = render_options(globals, stdout_is_terminal());
  if (result.report) {
    options.logs = result.logs;
    const std::vector<comparators::Report> reports{*result.report};
    write_stdout(render_reports(reports, ReportStyle{format_, options}));
  } else {
    write_stdout(format_ == "json" ? bisect_json(plan, result, options)
                                   : bisect_text(plan, result, options));
  }
  return exit_code_of(result);
}

core::ExitCode BisectCommand::run(const GlobalOptions& globals) {
  const configs::Config config = config_.load();
  BisectPlan bisect_plan = plan(config);
  bisect_plan.times = times_;
  for (const configs::RunSpec& run : config.runs) require_recorder(run.recorder);
  const OutputLock held(bisect_plan.directory);
  std::error_code error;
  if (force_) clear(bisect_plan);
  if (!std::filesystem::exists(bisect_plan.directory / kBisectLogName, error)) {
    require_no_recordings(bisect_plan);
  }
  BisectLog log(bisect_plan.directory / kBisectLogName, key_of(config, bisect_plan));
  Progress progress(progress_style(globals, stderr_is_terminal(), &std::getenv), stderr);
  bisect_plan.options.progress = comparison_on(progress);
  const BisectResult result = bisect(bisect_plan, log, progress);
  progress.clear();
  return print(globals, bisect_plan, result);
}

}  // namespace repro_check::cmd
