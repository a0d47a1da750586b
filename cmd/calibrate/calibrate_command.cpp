// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/config_options.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "cmd/recording/space.h"
#include "cmd/render/json_form.h"
#include "cmd/render/page.h"
#include "cmd/render/text.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "comparators/judge/noise.h"
#include "configs/spec/noise_floors.h"
#include "configs/spec/run_config.h"
#include "core/error.h"
#include "core/trace/op_record.h"

namespace repro_check::cmd {
namespace {

constexpr std::uint64_t kMostRuns = 10'000;
constexpr std::size_t kShownOperators = 5;

std::string op_of(const configs::NoiseFloors& floors, std::uint64_t index) {
  const configs::OperatorFloors& known = floors.operators[index];
  const std::string place = known.module.empty() ? "" : fmt::format(" ({})", known.module);
  return fmt::format("op {} {}{}", index, known.op, place);
}

/// The output with the greatest distance.
std::string floor_text(const configs::NoiseFloors& floors, std::uint64_t index) {
  const auto& outputs = floors.operators[index].outputs;
  const auto worst = std::ranges::max_element(
      outputs, {}, [](const auto& output) { return output.second.l2_rel; });
  return fmt::format("{} {}: relative L2 {:.3g}, abs max {:.3g}",
                     op_of(floors, index),
                     worst->first,
                     worst->second.l2_rel,
                     worst->second.max_abs);
}

/// The first output without a floor, and why.
std::string missing_text(const configs::NoiseFloors& floors) {
  for (std::uint64_t i = 0; i < floors.operators.size(); ++i) {
    if (floors.operators[i].op == core::kReturnedOperator) continue;
    for (const auto& [slot, floor] : floors.operators[i].outputs) {
      if (floor.problem.empty()) continue;
      return fmt::format("first {} {}: {}", op_of(floors, i), slot, floor.problem);
    }
  }
  return {};
}

std::string text_of(const configs::NoiseFloors& floors,
                    const comparators::NoiseSummary& summary,
                    const std::filesystem::path& baseline,
                    const RenderOptions& options) {
  Line line;
  line.put("CALIBRATED", Role::kGood);
  line.put(fmt::format(" on {}: {} of {} noisy, {} bit-equal in all, {} without a floor",
                       format_count(floors.runs, "run"),
                       format_count(summary.noisy),
                       format_count(summary.operators, "operator"),
                       format_count(summary.quiet),
                       format_count(summary.without_floor)));
  Page page;
  page.prose("floors", floors.file);
  const std::size_t shown = std::min(kShownOperators, summary.worst.size());
  for (std::size_t i = 0; i < shown; ++i) {
    page.prose(i == 0 ? "noisiest" : "", floor_text(floors, summary.worst[i]));
  }
  if (summary.without_floor != 0) page.prose("no floor", missing_text(floors));
  const std::string next =
      fmt::format("next: repro-check diff {} CANDIDATE --policy noise --noise {}",
                  shell_quote(baseline.string()),
                  shell_quote(floors.file));
  return line.str(options.color) + "\n" + page.str(options.color, {}, options.columns) + next +
         "\n";
}

std::string noise_json(const configs::NoiseFloors& floors,
                       const comparators::NoiseSummary& summary,
                       const std::filesystem::path& baseline) {
  return to_document({{"format", "repro-check-calibration"},
                      {"version", "1.0"},
                      {"runs", json_integer(floors.runs)},
                      {"operators", json_integer(summary.operators)},
                      {"noisy", json_integer(summary.noisy)},
                      {"bit_equal", json_integer(summary.quiet)},
                      {"without_floor", json_integer(summary.without_floor)},
                      {"floors", json_text(floors.file)},
                      {"baseline", json_text(baseline.string())}},
                     false);
}

/// `repro-check calibrate`: how far runs of one configuration are apart by themselves.
class CalibrateCommand final : public Command {
 public:
  CalibrateCommand()
      : Command({"calibrate", "Measure how far repeated runs of the baseline differ"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    const configs::Config config = config_.load({}, {}, configs::ProgramSeed::kZero);
    const std::filesystem::path file = file_of(config);
    const OutputLock held(directory(config));
    const std::vector<RecordingJob> jobs = plan(config);
    say_kept_seed(config);
    Progress progress(globals);
    std::unique_ptr<core::DumpSource> first;
    std::unique_ptr<comparators::NoiseMeter> meter;
    std::vector<std::filesystem::path> places{jobs.front().dump};
    if (const auto& reference = jobs.front().run.dump.reference) places.push_back(*reference);
    for (const RecordingJob& job : jobs) {
      progress.begin(static_cast<std::size_t>(&job - jobs.data()) + 1, jobs.size(), job.run.name);
      const auto as_first =
          meter ? estimate_from(jobs.front().run, jobs.front().dump, job.run) : std::nullopt;
      const RecordingResult recorded = record_where_it_fits(job, as_first, progress);
      if (!recorded.totals) return report_failed_run(recorded, config_.file(), format_, globals);
      if (!meter) {
        first = open_own(job.dump, places);
        meter = std::make_unique<comparators::NoiseMeter>(*first);
        continue;
      }
      progress.stage("comparing");
      meter->add(*open_own(job.dump, places), comparison_on(progress));
      if (!keep_) discard_with_log(job.dump);
    }
    progress.clear();
    configs::NoiseFloors floors = meter->floors();
    floors.file = file.string();
    const comparators::NoiseSummary summary = comparators::summarise(floors);
    if (summary.operators == summary.without_floor) {
      throw core::not_comparable(summary.operators == 0
                                     ? "no operator returned anything: there is no floor"
                                     : "no operator has a floor: " + missing_text(floors),
                                 "record values with \"dump\": {\"level\": \"tensor\"}");
    }
    write_file(file, configs::to_noise_text(floors));
    write_stdout(format_ == "json" ? noise_json(floors, summary, jobs.front().dump)
                                   : text_of(floors,
                                             summary,
                                             jobs.front().dump,
                                             render_options(globals, stdout_is_terminal())));
    return core::ExitCode::kReproducible;
  }

 private:
  [[nodiscard]] std::filesystem::path directory(const configs::Config& config) const {
    return out_ ? std::filesystem::absolute(*out_).lexically_normal()
                : config.runs.front().dump.directory / "calibration";
  }

  [[nodiscard]] std::vector<RecordingJob> plan(const configs::Config& config) const {
    const configs::RunSpec& baseline = config.runs.front();
    std::vector<RecordingJob> jobs;
    for (std::uint64_t i = 1; i <= runs_; ++i) {
      RecordingJob job;
      job.run = baseline;
      job.run.name = fmt::format("run-{}", i);
      job.dump = from_here(directory(config) / job.run.name);
      job.replace_existing = force_;
      require_free(job);
      jobs.push_back(std::move(job));
    }
    require_recorder_of(baseline);
    require_references(jobs);
    return jobs;
  }

  [[nodiscard]] std::filesystem::path file_of(const configs::Config& config) const {
    std::filesystem::path file = output_ ? std::filesystem::path(*output_)
                                         : from_here(config.compare.noise.value_or(
                                               config.runs.front().dump.directory / "noise.jsonl"));
    std::error_code error;
    if (!force_ && std::filesystem::exists(file, error)) {
      throw core::usage_error(file.string() + " exists already",
                              "replace it with --force, or write to another file with --output");
    }
    // What is made on the way to the dumps is there when the floors are written.
    if (output_) require_writable(file);
    return file;
  }

  ConfigOptions config_ = group(&config_, true);
  std::uint64_t runs_ =
      value(&runs_, "-n,--repeat N", {.range = {{configs::kFewestNoiseRuns, kMostRuns}}}, 10);
  std::optional<std::string> output_ = value(&output_, "-o,--output FILE", {.takes = Takes::kFile});
  std::optional<std::string> out_ = value(&out_, "--out DIR", {.takes = Takes::kDirectory});
  bool keep_ = flag(&keep_, "--keep");
  bool force_ = flag(&force_, "--force");
  std::string format_ = word(&format_, "--format text|json", "text");
};

}  // namespace

std::unique_ptr<Command> calibrate_command() { return std::make_unique<CalibrateCommand>(); }

}  // namespace repro_check::cmd
