// SPDX-License-Identifier: Apache-2.0
#include "cmd/record_command.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cmd/choice.h"
#include "cmd/output.h"
#include "cmd/recording.h"
#include "cmd/reference.h"
#include "cmd/render/text.h"
#include "cmd/run_choice.h"
#include "cmd/space_check.h"
#include "cmd/verdict.h"

namespace repro_check::cmd {
namespace {

std::string summary_text(const RecordingResult& result, const std::string& format) {
  const RecorderTotals& totals = *result.totals;
  if (format == "json") {
    nlohmann::ordered_json document;
    document["format"] = "repro-check-recording";
    document["version"] = "1.0";
    document["run"] = clean_utf8(result.summary.name);
    document["dump"] = clean_utf8(result.summary.location);
    document["operators"] = totals.operators;
    document["tensors"] = totals.tensors;
    document["bytes"] = totals.bytes;
    document["seconds"] = totals.seconds;
    return document.dump() + "\n";
  }
  return fmt::format("RECORDED {}, {}, {} in {}: {}\n",
                     format_count(totals.operators, "operator"),
                     format_count(totals.tensors, "tensor"),
                     format_bytes(totals.bytes),
                     format_seconds(totals.seconds),
                     escape_name(result.summary.location));
}

void require_fixed_level(const configs::Config& config) {
  if (config.recording.level != configs::LevelChoice::kAuto) return;
  throw core::Error(
      core::ErrorKind::kUsage,
      "/dump/level: \"auto\" decides from two recordings what a second pair keeps, and "
      "`record` makes one",
      "add --set /dump/level=tensor (or digest, or stats), or use `repro-check run`");
}

}  // namespace

std::vector<std::string> RecordCommand::examples() const {
  return {"repro-check record -c config.json -o before-upgrade",
          "repro-check record -c config.json -o one-thread --set /threads=1 --run baseline"};
}

void RecordCommand::define(CLI::App& app) {
  config_.define(app, true);
  app.add_option("-o,--out", out_, "Directory of the dump")->type_name("DIR")->required();
  app.add_option("--run", run_name_, "Which run; none of their overrides by default")
      ->type_name("NAME");
  app.add_flag("--force", force_, "Replace a dump that exists");
  restrict_to(app.add_option("--format", format_, "Format of the summary"), {"text", "json"});
}

core::ExitCode RecordCommand::run(const GlobalOptions& globals) {
  const configs::Config config = config_.load();
  require_fixed_level(config);
  RecordingJob job;
  job.run = choose_run(config, run_name_);
  job.dump = std::filesystem::path(out_).lexically_normal();
  if (job.dump.filename().empty()) job.dump = job.dump.parent_path();
  job.log = log_beside(job.dump);
  job.replace_existing = force_;
  require_free(job);
  require_references({&job, 1});

  Progress progress(progress_style(globals, stderr_is_terminal(), &std::getenv), stderr);
  progress.begin(1, 1, job.run.name);
  RecordingResult result = record_where_it_fits(job, {}, progress);
  result.summary.location = out_;
  if (result.totals) {
    write_stdout(summary_text(result, format_));
    return core::ExitCode::kReproducible;
  }
  const std::vector<comparators::Report> reports{failed_run_report({result}, {})};
  ReportStyle style{format_, render_options(globals, stdout_is_terminal())};
  style.options.config_path = config_.file();
  style.options.logs = {result.log};
  write_stdout(render_reports(reports, style));
  return worst_exit(reports);
}

}  // namespace repro_check::cmd
