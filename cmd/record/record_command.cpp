// SPDX-License-Identifier: Apache-2.0

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/config_options.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/recording.h"
#include "cmd/recording/space.h"
#include "cmd/render/say.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"

namespace repro_check::cmd {
namespace {

std::string summary_text(const RecordingResult& result, const std::string& format) {
  const RecorderTotals& totals = *result.totals;
  const Json document{{"format", "repro-check-recording"},
                      {"version", "1.0"},
                      {"run", result.summary.name},
                      {"dump", result.summary.location},
                      {"operators", totals.operators},
                      {"tensors", totals.tensors},
                      {"bytes", totals.bytes},
                      {"seconds", totals.seconds}};
  if (format == "json") return to_document(cleaned(document), false);
  return say(
      "RECORDED {operators:operator}, {tensors:tensor}, {bytes:bytes} in "
      "{seconds:seconds}: {dump}\n",
      document);
}

void require_fixed_level(const configs::Config& config) {
  if (config.recording.level != configs::LevelChoice::kAuto) return;
  throw core::usage_error(
      "/dump/level: \"auto\" decides from two recordings what a second pair keeps, and "
      "`record` makes one",
      "add --set /dump/level=tensor (or digest, or stats), or use `repro-check run`");
}

/// Whoever has just put a dump in its place holds the one that lay there, until that is taken away.
std::unique_ptr<OutputLock> hold_replaced(const std::filesystem::path& dump) {
  std::error_code ignored;
  std::filesystem::path beside = std::filesystem::weakly_canonical(dump, ignored);
  beside += ".recording";
  return std::filesystem::is_directory(beside, ignored) ? std::make_unique<OutputLock>(beside)
                                                        : nullptr;
}

class RecordCommand final : public Command {
 public:
  RecordCommand() : Command({"record", "Record one run of a configuration into one dump"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    const configs::Config config = config_.load();
    require_fixed_level(config);
    RecordingJob job;
    job.run = choose_run(config, run_name_);
    job.dump = std::filesystem::path(out_).lexically_normal();
    if (job.dump.filename().empty()) job.dump = job.dump.parent_path();
    job.replace_existing = force_;
    require_free(job);
    const OutputLock beside(std::filesystem::absolute(job.dump).parent_path(),
                            OutputLock::Mode::kBeside);
    const OutputLock held(job.dump);
    const std::unique_ptr<OutputLock> replaced = hold_replaced(job.dump);
    require_free(job);
    require_references({&job, 1});

    if (job.run.seed) say_kept_seed(config);
    Progress progress(globals);
    progress.begin(1, 1, job.run.name);
    RecordingResult result = record_where_it_fits(job, {}, progress);
    result.summary.location = out_;
    if (result.totals) {
      write_stdout(summary_text(result, format_));
      return core::ExitCode::kReproducible;
    }
    return report_failed_run(result, config_.file(), format_, globals);
  }

 private:
  ConfigOptions config_ = group(&config_, true);
  std::string out_ = value(&out_, "-o,--out DIR", {.takes = Takes::kDirectory, .required = true});
  std::optional<std::string> run_name_ = value(&run_name_, "--run NAME");
  bool force_ = flag(&force_, "--force");
  std::string format_ = word(&format_, "--format text|json", "text");
};

}  // namespace

std::unique_ptr<Command> record_command() { return std::make_unique<RecordCommand>(); }

}  // namespace repro_check::cmd
