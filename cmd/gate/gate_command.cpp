// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cmd/audit/audit_line.h"
#include "cmd/gate/gate.h"
#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/compare_options.h"
#include "cmd/options/config_options.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/progress.h"
#include "cmd/reports/rank_pairs.h"
#include "cmd/reports/report_flags.h"
#include "cmd/reports/verdict.h"
#include "cmd/run/runs.h"
#include "cmd/terminal/output.h"
#include "configs/spec/gate_spec.h"
#include "core/error.h"
#include "dumpers/store/directory/rank_dumps.h"

namespace repro_check::cmd {
namespace {

constexpr const char* kAgainstWhat =
    "give the directory that `repro-check run` or `gate` wrote, with one dump per run";

/// Dumps below a directory: `baseline` first, the others by name.
std::vector<std::filesystem::path> dumps_below(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> dumps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::filesystem::path dump = store::leading_dump(entry.path());
    const bool is_dump = std::filesystem::exists(dump / "manifest.json") ||
                         std::filesystem::exists(dump / "trace.h5");
    const bool is_aside = entry.path().extension() == ".digest";
    if (is_dump && !is_aside) dumps.push_back(from_here(entry.path()));
  }
  const auto rank = [](const std::filesystem::path& dump) {
    return std::pair(dump.filename() != "baseline", dump);
  };
  std::ranges::sort(dumps, {}, rank);
  return dumps;
}

std::vector<Report> judge_all(const std::vector<std::filesystem::path>& dumps,
                              comparators::CompareOptions options,
                              Progress& progress) {
  options.progress = comparison_on(progress);
  std::vector<Report> reports;
  for (std::size_t i = 1; i < dumps.size(); ++i) {
    progress.begin(i, dumps.size() - 1, dumps[i].string());
    reports.push_back(judge_runs(dumps.front(), dumps[i], options));
  }
  if (reports.size() < 2) return reports;
  return {sum_up(std::move(reports), assess_dumps(dumps, {}, options.max_items))};
}

/// `repro-check gate`: judges runs among themselves and by what was accepted.
class GateCommand final : public Command {
 public:
  GateCommand()
      : Command({"gate",
                 "Check in CI that runs agree with each other and with the accepted baseline"}) {}

  void define(Options& options) override {
    config_.define(options, false);
    options.value("--against DIR", &against_, {.takes = Takes::kDirectory});
    options.value("-n,--repeat N", &repeat_);
    define_out(options);
    define_place(options);
    numbers_.define(options);
    report_.define(options);
    define_accept(options);
    status_ = &options.verb("status", "List the baselines, and those that no configuration uses");
    prune_ = &options.verb("prune", "Remove the baselines that no configuration uses");
    for (Options* below : {status_, prune_}) {
      config_.define(*below, false);
      define_place(*below);
    }
    prune_->flag("--dry-run  List them, and remove nothing", &dry_run_);
  }

  core::ExitCode run(const GlobalOptions& globals) override {
    if (accept_->is_chosen()) return accept();
    const bool lists = status_->is_chosen() || prune_->is_chosen();
    if (!config_.given() && (lists || !against_)) {
      throw usage_error("-c is required", "for example repro-check gate -c gate.json");
    }
    if (lists) {
      const GatePlace where = place(config_.load());
      write_stdout(status_->is_chosen() ? baseline_status(where)
                                        : prune_baselines(where, dry_run_));
      return core::ExitCode::kReproducible;
    }
    if (against_ && repeat_) {
      throw usage_error("-n means nothing with --against", "the dumps exist already: leave -n out");
    }
    std::optional<configs::Config> config;
    config_.set("/compare/numbers", numbers_.json());
    if (config_.given()) config = against_ ? config_.load() : config_.load(out_, repeat_);
    report_.check_output(config ? &config->report : nullptr);
    const OutputLocks held = hold_output(config ? &*config : nullptr);
    std::optional<RunOutputs> outputs;
    if (!against_) outputs.emplace(output_directories(*config));
    std::vector<RunLog> logs;
    GateCase gate = gate_case(config ? &*config : nullptr);
    if (!against_) follow_accepted_depth(gate, *config);
    {
      Progress progress(globals);
      if (against_) {
        take_dumps(progress, gate);
      } else {
        record(*config, progress, gate, *outputs, logs);
      }
    }
    const std::filesystem::path output = gate.output;
    const std::filesystem::path first = gate.dumps.front();
    GateResult result = judge_gate(std::move(gate));
    const std::vector<std::string> formats =
        config ? config->report.formats : std::vector<std::string>{"text"};
    ReportStyle style = report_.style(globals, formats.front());
    style.options.gate = &result.outcome;
    style.options.logs = std::move(logs);
    report_.add_files(formats, style, output);
    report_.emit(result.reports, style);
    const configs::AuditSpec audit = config ? config->audit : configs::AuditSpec();
    return tell_of_audit(worst_exit(result.reports), first, {audit, {}, config_.words()});
  }

 private:
  void define_accept(Options& options) {
    accept_ = &options.verb("accept", "Accept what the gate found as the new baseline");
    accept_->value(
        "file FILE.new  Pending files (all of the gate)", &files_, {.takes = Takes::kFile});
    config_.define(*accept_, false, false);
    define_out(*accept_);
    define_place(*accept_);
    accept_->value("--from-dir DIR  Take the pending files from a directory",
                   &from_dir_,
                   {.takes = Takes::kDirectory});
    accept_->flag("--yes-in-ci  Accept even in a CI job", &yes_in_ci_);
  }

  /// What the verbs below share with the gate, so that it may stand on either side of them.
  void define_out(Options& options) {
    options.value("-o,--out DIR", &out_, {.takes = Takes::kDirectory});
  }

  void define_place(Options& options) {
    options.value("--baselines DIR", &baselines_, {.takes = Takes::kDirectory});
    options.value("--name NAME", &name_);
  }

  /// What is to be judged, all but the dumps.
  /// @param config  null where none was given
  [[nodiscard]] GateCase gate_case(const configs::Config* config) const {
    GateCase gate;
    if (config != nullptr) {
      gate.spec = config->gate;
      gate.options = compare_options(config->compare);
    } else if (!numbers_.json().empty()) {
      gate.options.spec = configs::compare_of_flags({{"numbers", numbers_.json()}}, std::nullopt);
    }
    gate.spec.baselines = baselines(gate.spec.baselines);
    gate.config = config_.file();
    gate.flags = config_.flags();
    if (baselines_) gate.flags.insert(gate.flags.end(), {"--baselines", *baselines_});
    if (name_) gate.flags.insert(gate.flags.end(), {"--name", *name_});
    gate.directory = out_ ? *out_ : against_.value_or("");
    if (against_) {
      gate.output = out_ ? *out_ : *against_;
    } else {
      gate.output = config->runs.front().dump.directory;
    }
    // What is expected can only be told apart from what is not where everything is listed.
    gate.options.max_items =
        gate.spec.expected.empty() ? report_.max_items() : std::numeric_limits<std::size_t>::max();
    gate.options.keep_trail = report_.wants_trail();
    return gate;
  }

  void record(const configs::Config& config,
              Progress& progress,
              GateCase& gate,
              RunOutputs& outputs,
              std::vector<RunLog>& logs) const {
    require_accepted_seed(gate, config);
    say_kept_seed(config);
    remove_pending(gate.output, gate.spec.baselines.name);
    // The values of a second pair of runs would be of another race.
    const bool digests_first = starts_with_digests(config) && config.gate.expected.empty();
    const std::vector<RecordingJob> jobs =
        plan_jobs(config, digests_first, [](const std::filesystem::path&) { return true; });
    discard_earlier(jobs, outputs);
    comparators::CompareOptions options = gate.options;
    options.progress = comparison_on(progress);
    const RunPlan plan{jobs, options, digests_first, false, config.recording.window};
    Round round = record_runs(config, plan, progress);
    for (const RecordingResult& result : round.results) logs.push_back(result.log);
    for (const RecordingJob& job : jobs) gate.dumps.push_back(job.dump);
    gate.references = references_of(jobs.front());
    gate.reports = std::move(round.reports);
  }

  void take_dumps(Progress& progress, GateCase& gate) const {
    gate.dumps = dumps_below(*against_);
    if (gate.dumps.size() < 2) {
      throw usage_error(*against_ + " holds fewer than two dumps", kAgainstWhat);
    }
    remove_pending(gate.output, gate.spec.baselines.name);
    gate.reports = judge_all(gate.dumps, gate.options, progress);
  }

  /// @param config  null where none was given
  [[nodiscard]] OutputLocks hold_output(const configs::Config* config) const {
    if (!against_ && config != nullptr) return hold_alone(output_directories(*config));
    std::error_code ignored;
    if (!std::filesystem::is_directory(*against_, ignored)) {
      throw usage_error("--against " + *against_ + ": no such directory", kAgainstWhat);
    }
    return hold_alone({out_ ? *out_ : *against_});
  }

  /// Of what a configuration says, and the flags over it.
  [[nodiscard]] configs::BaselinesSpec baselines(configs::BaselinesSpec spec) const {
    if (baselines_) spec.directory = *baselines_;
    if (name_ && !configs::is_gate_name(*name_)) {
      throw usage_error(
          "--name " + *name_ + ": expected letters, digits, dots, dashes and underscores",
          "file names contain it");
    }
    if (name_) spec.name = *name_;
    const bool is_file = config_.given() && config_.file() != "-";
    if (spec.name.empty()) {
      spec.name = is_file ? std::filesystem::path(config_.file()).stem().string() : "gate";
    }
    return spec;
  }

  [[nodiscard]] GatePlace place(const configs::Config& config) const {
    const configs::BaselinesSpec spec = baselines(config.gate.baselines);
    GatePlace place{spec.name, spec.directory, config_.file(), {}, {}};
    if (!config.runs.empty() && !config.runs.front().program) {
      place.model = config.runs.front().model.path;
      place.weights_from = config.runs.front().model.weights_from;
    }
    return place;
  }

  [[nodiscard]] core::ExitCode accept() const {
    if (!config_.given())
      throw usage_error("-c is required", "it names the gate and its baselines");
    if (is_ci() && !yes_in_ci_) {
      throw usage_error("this is a CI job: a person should accept and commit",
                        "add --yes-in-ci if the job is meant to do it");
    }
    const configs::Config config = config_.load(out_);
    const GatePlace where = place(config);
    // Accepting is short, and several gates may keep their baselines in one directory.
    const OutputLock held(
        where.baselines, OutputLock::Mode::kAlone, std::chrono::milliseconds(10'000));
    std::vector<std::filesystem::path> files(files_.begin(), files_.end());
    const std::filesystem::path directory =
        from_dir_ ? std::filesystem::path(*from_dir_) : config.runs.front().dump.directory;
    if (files.empty()) files = pending_files(directory, where.name);
    if (files.empty()) {
      throw usage_error(
          "no pending baseline of gate " + where.name + " in " + from_here(directory).string(),
          "run `repro-check gate -c " + config_.file() + "` first");
    }
    for (const std::filesystem::path& file : files) {
      std::error_code ignored;
      if (std::filesystem::exists(file, ignored)) continue;
      throw usage_error(from_here(file).string() + ": no such file",
                        "was it accepted already? `repro-check gate status -c " + config_.file() +
                            "` lists the baselines");
    }
    write_stdout(accept_pending(where, files));
    return core::ExitCode::kReproducible;
  }

  ConfigOptions config_;
  NumbersFlag numbers_;
  ReportFlags report_;
  std::optional<std::string> against_;
  std::optional<std::string> out_;
  std::optional<std::string> baselines_;
  std::optional<std::string> name_;
  std::optional<std::uint64_t> repeat_;
  Options* accept_ = nullptr;
  Options* status_ = nullptr;
  Options* prune_ = nullptr;
  std::vector<std::string> files_;
  std::optional<std::string> from_dir_;
  bool yes_in_ci_ = false;
  bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> gate_command() { return std::make_unique<GateCommand>(); }

}  // namespace repro_check::cmd
