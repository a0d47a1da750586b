// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/audit/audit_line.h"
#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/compare_options.h"
#include "cmd/options/config_options.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/recording.h"
#include "cmd/reports/report_flags.h"
#include "cmd/reports/verdict.h"
#include "cmd/run/rungs.h"
#include "cmd/run/runs.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "core/text/secrets.h"

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

class RunCommand final : public Command {
 public:
  RunCommand()
      : Command({"run", "Record the runs of a program or a configuration, and compare them"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    config_.set("/compare/numbers", numbers_.json());
    set_runs_of_onnx();
    const auto seeds =
        vary_ && *vary_ == "compile" ? configs::ProgramSeed::kZero : configs::ProgramSeed::kNone;
    const configs::Config config = config_.load(out_, repeat_, seeds);
    report_.check_output(&config.report);
    if (vary_ && *vary_ == "compile") return climb_rungs(config, force_, report_, globals);
    const OutputLocks held = hold_alone(output_directories(config));
    RunOutputs outputs(output_directories(config));
    const bool digests_first = starts_with_digests(config);
    const std::vector<RecordingJob> jobs =
        plan_jobs(config, digests_first, [&](const std::filesystem::path& place) {
          return force_ || outputs.may_replace(place);
        });
    discard_earlier(jobs, outputs);
    if (jobs.front().run.program) announce(jobs.size(), digests_first);
    say_kept_seed(config);
    comparators::CompareOptions options = compare_options(config.compare);
    options.max_items = report_.max_items();
    options.keep_trail = report_.wants_trail();

    Progress progress(globals);
    options.progress = comparison_on(progress);
    ObserverCheck observed;
    if (check_observer_) {
      observed = check_observer(jobs, progress);
      progress.clear();
      if (observed.failed() || observed.changed())
        return finish(globals, config, ended(jobs, observed));
    }
    RunPlan runs{jobs, options, digests_first};
    runs.blocks_first = starts_with_blocks(config) && !check_observer_;
    runs.window = config.recording.window;
    Round round = record_runs(config, runs, progress);
    for (comparators::Report& report : round.reports) {
      add_observed(observed, jobs.front().run.program.has_value(), report);
    }
    put_worst_first(round.reports);
    if (explain_) explain_origin(jobs, round.reports.front(), progress);
    const core::ExitCode code = finish(globals, config, round);
    return tell_of_audit(code, jobs.front().dump, {config.audit, {}, config_.words()});
  }

 private:
  static void announce(std::size_t runs, bool digests_first) {
    const std::string again = digests_first ? fmt::format(", {} if it diverges", runs + 2) : "";
    log_info(fmt::format(
        "your program will run {} times{}; each run writes its files again", runs, again));
  }

  /// Where a flag says in what the runs of an ONNX model differ, what they are.
  void set_runs_of_onnx() {
    if (vary_ && *vary_ != "compile" && *vary_ != "optimization") {
      throw usage_error("--vary " + *vary_ +
                        ": expected compile, what torch.compile does, or optimization, what ONNX "
                        "Runtime makes of a model");
    }
    if (against_ && *against_ != "reference") {
      throw usage_error("--against " + *against_ + ": expected reference, the evaluator of onnx");
    }
    const bool sets_runs = against_ || (vary_ && *vary_ == "optimization");
    if (sets_runs && (config_.sets("/runs") || config_.sets("/settings"))) {
      throw usage_error(
          "--set of /runs or /settings: the runs are those of the flag",
          "leave the flag out, and write the runs: docs/FRAMEWORKS.md has an example");
    }
    if (against_) {
      config_.set("/runs",
                  R"([{"name": "onnxruntime", "settings": )"
                  R"({"onnx.optimization": "disabled", "onnx.records": "disabled"}},)"
                  R"( {"name": "reference", "settings": )"
                  R"({"onnx.engine": "reference", "onnx.records": "disabled"}}])");
    } else if (vary_ && *vary_ == "optimization") {
      constexpr const char* kRun =
          R"({{"name": "{}", "settings": {{"onnx.optimization": "{}", "onnx.records": "all"}}}})";
      config_.set("/runs",
                  fmt::format("[{}, {}]",
                              fmt::format(kRun, "as-written", "disabled"),
                              fmt::format(kRun, "optimised", "all")));
    } else {
      return;
    }
    if (!config_.sets("/compare/policy")) config_.set("/compare/policy", "tolerance");
  }

  [[nodiscard]] core::ExitCode finish(const GlobalOptions& globals,
                                      const configs::Config& config,
                                      const Round& round) {
    const std::vector<comparators::Report>& reports = round.reports;
    ReportStyle style = report_.style(globals, config.report.formats.front());
    // The commands the renderer suggests are about the second run, and here it may be another.
    if (reports.size() == 1) {
      style.options.config_path = config_.file();
      style.options.command = core::without_secrets(config_.command());
    }
    style.options.config_flags = config_.flags();
    if (out_) style.options.output_directory = *out_;
    for (const RecordingResult& result : round.results) style.options.logs.push_back(result.log);

    report_.add_files(config.report.formats, style, config.runs.front().dump.directory);
    report_.emit(reports, style);
    return worst_exit(reports);
  }

  ConfigOptions config_ = group(&config_, true);
  std::optional<std::uint64_t> repeat_ = value(&repeat_, "-n,--repeat N");
  std::optional<std::string> out_ = value(&out_, "-o,--out DIR", {.takes = Takes::kDirectory});
  bool force_ = flag(&force_, "--force");
  bool check_observer_ = flag(&check_observer_, "--check-observer");
  bool explain_ = flag(&explain_, "--explain");
  NumbersFlag numbers_ = group(&numbers_);
  std::optional<std::string> against_ = value(&against_, "--against reference");
  std::optional<std::string> vary_ = value(&vary_, "--vary compile|optimization");
  ReportFlags report_ = group(&report_);
};

}  // namespace

std::unique_ptr<Command> run_command() { return std::make_unique<RunCommand>(); }

}  // namespace repro_check::cmd
