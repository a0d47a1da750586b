// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/config_options.h"
#include "cmd/recording/recording.h"
#include "cmd/render/text.h"
#include "cmd/run/runs.h"
#include "cmd/terminal/output.h"
#include "core/tensor/dtype.h"
#include "core/text/secrets.h"

namespace repro_check::cmd {
namespace {

std::string judged_text(const configs::CompareSpec& spec) {
  return spec.rules.empty() ? std::string(configs::name_of(spec.policy.kind))
                            : "by " + format_count(spec.rules.size(), "rule");
}

std::string run_text(const configs::RunSpec& run) {
  const std::string seed = run.seed ? fmt::format("seed {}", *run.seed) : "generators left alone";
  const std::string what =
      run.program
          ? fmt::format("{}, {}",
                        escape_name(fmt::format(
                            "{}", fmt::join(core::without_secrets(run.program->command), " "))),
                        seed)
          : fmt::format("{} {} on {}, {}",
                        escape_name(run.model.path.filename().string()),
                        escape_name(run.model.method),
                        escape_name(run.device),
                        seed);
  std::string text = fmt::format(
      "  {}: {}, determinism {}", escape_name(run.name), what, core::name_of(run.determinism));
  if (!run.program || run.rng != configs::RngMode::kDevice) {
    text += fmt::format(", rng {}", core::name_of(run.rng));
  }
  text += fmt::format(", dropout {}", run.disable_dropout ? "off" : "as the model has it");
  if (run.threads) text += fmt::format(", threads {}", *run.threads);
  if (run.dtype) text += fmt::format(", dtype {}", core::dtype_name(*run.dtype));
  for (const auto& [name, value] : run.env) {
    const std::string shown =
        value && core::is_secret_name(name) ? std::string(core::kHidden) : value.value_or("");
    text += value ? ", " + escape_name(name) + "=" + escape_name(shown)
                  : ", without " + escape_name(name);
  }
  return text + "\n";
}

/// As `run` would before it records anything.
void expect_reference(const configs::Config& config) {
  std::vector<RecordingJob> jobs;
  for (const configs::RunSpec& run : config.runs) {
    RecordingJob job;
    job.run = run;
    job.dump = config.dump_directory(run);
    jobs.push_back(std::move(job));
  }
  if (starts_with_digests(config)) ask_for_values(jobs, {});
  require_references(jobs);
}

class ValidateCommand final : public Command {
 public:
  ValidateCommand() : Command({"validate", "Check a configuration without running it"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    const configs::Config config = config_.load();
    expect_reference(config);
    const configs::RunSpec& first = config.runs.front();
    std::string text =
        fmt::format("OK: {}, {}, compared {}\n",
                    format_count(config.runs.size(), "run"),
                    first.program ? "a program" : format_count(first.calls.size(), "call"),
                    judged_text(config.compare));
    if (!globals.quiet) {
      for (const configs::RunSpec& run : config.runs) text += run_text(run);
      text += fmt::format(
          "  dumps: {}, level {}, depth {}\n",
          escape_name(first.dump.directory.string()),
          starts_with_digests(config) ? "auto" : core::name_of(first.dump.level),
          starts_with_blocks(config) ? "blocks, then top" : core::name_of(first.dump.depth));
      text += fmt::format("  report: {}", fmt::join(config.report.formats, ", "));
      for (const auto& [format, file] : config.report.files) {
        text += fmt::format(", {} in {}", format, escape_name(from_here(file).string()));
      }
      text += '\n';
    }
    write_stdout(text);
    return core::ExitCode::kReproducible;
  }

 private:
  ConfigOptions config_ = group(&config_, true);
};

}  // namespace

std::unique_ptr<Command> validate_command() { return std::make_unique<ValidateCommand>(); }

}  // namespace repro_check::cmd
