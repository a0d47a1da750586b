// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cmd/bisect/bisect.h"
#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/compare_options.h"
#include "cmd/options/config_options.h"
#include "cmd/recording/kit.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/recorder_process.h"
#include "cmd/recording/recording.h"
#include "cmd/render/json_form.h"
#include "cmd/render/page.h"
#include "cmd/render/text.h"
#include "cmd/reports/verdict.h"
#include "cmd/run/runs.h"
#include "cmd/terminal/output.h"
#include "comparators/measure/policy.h"
#include "configs/parser/config_parser.h"
#include "configs/setting_changes.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/text.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

using comparators::ItemSet;
using comparators::TrialOutcome;

/// What a recorder says of two versions of a model file.
struct Versions {
  std::vector<std::string> names;
  std::vector<configs::DifferingWeight> different;
  std::string obstacle;
  std::string mend;
};

std::string difference_text(const nlohmann::json& entry) {
  std::string what = entry.at("what").get<std::string>();
  if (entry.at("differing").is_null()) return what;
  return fmt::format("{} of {} elements, {}",
                     entry.at("differing").get<std::uint64_t>(),
                     entry.at("elements").get<std::uint64_t>(),
                     what);
}

Versions parse(const std::string& answer) {
  try {
    const nlohmann::json document = nlohmann::json::parse(answer);
    Versions versions;
    versions.names = document.at("names").get<std::vector<std::string>>();
    versions.obstacle = document.at("obstacle").get<std::string>();
    versions.mend = document.at("mend").get<std::string>();
    for (const nlohmann::json& entry : document.at("different")) {
      auto names = entry.at("names").get<std::vector<std::string>>();
      if (names.empty()) throw core::internal_error("a tensor without a name");
      versions.different.push_back({std::move(names), difference_text(entry)});
    }
    return versions;
  } catch (const nlohmann::json::exception& error) {
    throw core::internal_error(
        std::string("the recorder's comparison of two model files makes no sense: ") +
        error.what());
  }
}

Versions compare(const configs::RunSpec& run, const configs::WeightFiles& files) {
  RecorderCall call{{require_recorder(run.recorder), {}}};
  for (const std::filesystem::path& library : run.extensions) {
    call.arguments.insert(call.arguments.end(), {"--extension", library.string()});
  }
  call.arguments.insert(call.arguments.end(),
                        {"weights", files.first.string(), files.second.string()});
  if (run.timeout) call.timeout = std::chrono::seconds(*run.timeout);
  call.environment = run.env;
  return parse(ask_recorder(call));
}

void require_names(const configs::RunSpec& run, const Versions& versions) {
  for (const std::string& name : run.model.weights) {
    if (std::ranges::find(versions.names, name) != versions.names.end()) continue;
    const std::vector<std::string_view> known(versions.names.begin(), versions.names.end());
    const auto near = core::near_miss(name, known);
    throw core::usage_error(fmt::format("/model/weights: {} has no \"{}\"{}",
                                        run.model.path.string(),
                                        core::printable(name),
                                        near ? fmt::format("; did you mean \"{}\"?", *near) : ""),
                            "`repro-check inspect DUMP -v` lists the names of a recorded model");
  }
}

constexpr std::size_t kShownTrials = 10;

std::string change_text(const configs::SettingChange& item) {
  return fmt::format("{} {} -> {}", item.pointer, item.baseline, item.candidate);
}

std::string names_of(const BisectPlan& plan, const ItemSet& items) {
  if (items.empty()) return "nothing";
  return joined(items, ", ", [&](std::size_t item) { return plan.items[item].pointer; });
}

Line verdict(const BisectPlan& plan, const BisectResult& result) {
  const std::string of = format_count(plan.items.size(), "change");
  Line line;
  switch (result.status) {
    case BisectStatus::kReduced: {
      const ItemSet& items = result.reduction.items;
      line.put("REDUCED", Role::kBad);
      line.put(fmt::format(" to {} of {}: ", format_count(items.size()), of));
      line.put(change_text(plan.items[items.front()]));
      if (items.size() > 1) line.put(fmt::format(", and {} more", items.size() - 1));
      return line;
    }
    case BisectStatus::kReproducible:
      line.put("REPRODUCIBLE", Role::kGood);
      return line.put(fmt::format(": {} make no difference; there is nothing to reduce", of));
    default:
      line.put("NOT REDUCED", Role::kBad);
      return line.put(
          ": two runs of the baseline alone diverge, so the divergence does not depend on the "
          "changes alone");
  }
}

void add_reduction(Page& page, const BisectPlan& plan, const BisectResult& result) {
  const ItemSet& items = result.reduction.items;
  for (const std::size_t item : items) {
    page.prose(item == items.front() ? "needed" : "", change_text(plan.items[item]));
  }
  const auto trial = std::ranges::find(result.trials, items, &BisectTrial::items);
  if (trial != result.trials.end()) page.prose("with it", trial->headline);
  if (result.rest) {
    ItemSet rest;
    for (std::size_t item = 0; item < plan.items.size(); ++item) {
      if (std::ranges::find(items, item) == items.end()) rest.push_back(item);
    }
    const std::string what =
        *result.rest == TrialOutcome::kPasses ? "make no difference alone"
        : *result.rest == TrialOutcome::kShows
            ? "the runs diverge without it too: run bisect again without these changes"
            : "could not be judged alone";
    page.prose("the rest", fmt::format("{}: {}", names_of(plan, rest), what));
  }
  if (!result.reduction.is_certain) {
    page.prose("",
               "some of these changes may not be needed: a trial without them could not be judged");
  }
}

void add_trials(Page& page, const BisectPlan& plan, const BisectResult& result, bool everything) {
  page.prose("trials",
             fmt::format("{}; {} recorded now, {} known from before",
                         format_count(result.trials.size()),
                         format_count(result.recorded, "run"),
                         format_count(result.known)));
  std::size_t left =
      everything ? result.trials.size() : std::min(kShownTrials, result.trials.size());
  for (const BisectTrial& trial : result.trials) {
    if (left-- == 0) break;
    page.prose("",
               fmt::format("{}{}: {}",
                           word_of(trial.outcome),
                           trial.is_flaky ? " (its runs do not agree)" : "",
                           names_of(plan, trial.items)));
  }
  if (!everything && result.trials.size() > kShownTrials) {
    page.prose("", fmt::format("... and {} more: -v", result.trials.size() - kShownTrials));
  }
}

Json json_names(const BisectPlan& plan, const ItemSet& items) {
  Json out = Json::array();
  for (const std::size_t item : items) out.push_back(json_text(plan.items[item].pointer));
  return out;
}

constexpr std::uint64_t kMostTimes = 1000;

/// Of the content, so that a model that was saved again under its name is not taken for the old
/// one.
std::string content_of(const std::filesystem::path& file) {
  return core::to_hex(core::digest_file(file));
}

constexpr std::array kRecordings{"baseline", "trial"};

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
  return core::to_hex(core::digest_bytes(text));
}

void require_two_runs(const configs::Config& config) {
  if (config.compare.resume) {
    throw core::usage_error("/program/resume: bisect compares two runs with different settings",
                            "`run` says which state was not restored");
  }
  if (config.repeat != 0) {
    throw core::usage_error(
        "/runs: missing; bisect compares two runs with different settings",
        "list both: \"runs\": [{\"name\": \"baseline\"}, {\"name\": \"candidate\", "
        "\"threads\": 1}]; to repeat one configuration, use `run -n 10`");
  }
  if (config.runs.size() != 2) {
    throw core::usage_error("/runs: bisect compares two runs, and the configuration has " +
                                std::to_string(config.runs.size()),
                            "keep two of them");
  }
}

/// @throws core::Error{kUsage} when what is there is no recording
void clear(const BisectPlan& plan) {
  for (const char* name : kRecordings) discard_with_log(plan.directory / name);
  std::error_code error;
  std::filesystem::remove(plan.directory / kBisectLogName, error);
}

/// Where no bisect has been, what lies there belongs to somebody else.
void require_no_recordings(const BisectPlan& plan) {
  for (const char* name : kRecordings) {
    RecordingJob job;
    job.dump = plan.directory / name;
    require_free(job);
  }
}

/// In what two runs are set up differently, and why two model files are one change and not one a
/// tensor, where they are. Two versions of a model's file are taken apart into the
/// tensors that differ between them, for which a recorder is asked.
/// @throws core::Error{kUsage} when `weights_from` names a file whose tensors cannot be taken, or
///         `weights` a tensor that is not there; what ask_recorder() throws
void find_changes(const configs::RunSpec& baseline,
                  const configs::RunSpec& candidate,
                  BisectPlan& plan) {
  plan.items = configs::setting_changes(baseline, candidate);
  const auto files = configs::weight_files(baseline, candidate);
  if (!files) return;
  const bool is_onnx = is_onnx_model(files->first) || is_onnx_model(files->second);
  const Versions versions = is_onnx ? Versions{{}, {}, "ONNX models are taken as they are", ""}
                                    : compare(baseline, *files);
  if (!versions.obstacle.empty()) {
    if (baseline.model.weights_from || candidate.model.weights_from) {
      throw core::usage_error("/model/weights_from: " + versions.obstacle, versions.mend);
    }
    plan.note = fmt::format(
        "the two model files are one change, since tensors of one cannot "
        "stand in the other: {}",
        core::printable(versions.obstacle));
    return;
  }
  for (const configs::RunSpec* run : {&baseline, &candidate}) require_names(*run, versions);
  std::erase_if(plan.items, configs::is_of_weights);
  std::vector<configs::SettingChange> weights =
      configs::weight_changes(baseline, candidate, *files, versions.different);
  plan.items.insert(plan.items.begin(),
                    std::make_move_iterator(weights.begin()),
                    std::make_move_iterator(weights.end()));
}

/// What a bisect found, as text: the verdict first.
/// @param result  judged: for the others there is a report
std::string bisect_text(const BisectPlan& plan,
                        const BisectResult& result,
                        const RenderOptions& options) {
  std::string first = verdict(plan, result).str(options.color) + "\n";
  if (options.verbosity < 0) return first;
  Page page;
  if (result.status == BisectStatus::kReduced) add_reduction(page, plan, result);
  if (result.is_flaky()) {
    page.prose("flaky",
               "some runs of one and the same setting do not agree: the divergence does not depend "
               "on the changes alone");
    page.prose("fix", "see which operator is not repeatable: run -n 10", Role::kHint);
  }
  page.prose("note", plan.note);
  add_trials(page, plan, result, options.verbosity > 0 || options.all);
  page.prose("log", (plan.directory / kBisectLogName).string());
  return first + page.str(options.color, {}, options.columns);
}

/// The same as one JSON object.
std::string bisect_json(const BisectPlan& plan,
                        const BisectResult& result,
                        const RenderOptions& options) {
  const ItemSet& needed = result.reduction.items;
  const bool is_reduced = result.status == BisectStatus::kReduced;
  Json changes = Json::array();
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const bool is_needed = std::ranges::find(needed, i) != needed.end();
    changes.push_back({{"name", json_text(plan.items[i].pointer)},
                       {"baseline", json_text(plan.items[i].baseline)},
                       {"candidate", json_text(plan.items[i].candidate)},
                       {"needed", is_reduced ? Json(is_needed) : Json()}});
  }
  Json trials = Json::array();
  for (const BisectTrial& trial : result.trials) {
    trials.push_back({{"changes", json_names(plan, trial.items)},
                      {"outcome", word_of(trial.outcome)},
                      {"flaky", trial.is_flaky},
                      {"headline", json_text(trial.headline)}});
  }
  return to_document({{"format", "repro-check-bisect"},
                      {"version", "1.1"},
                      {"status", word_of(result.status)},
                      {"exit_code", static_cast<int>(exit_code_of(result))},
                      {"headline", json_text(verdict(plan, result).raw())},
                      {"changes", std::move(changes)},
                      {"note", json_of(OrNull{plan.note})},
                      {"reduced", is_reduced ? json_names(plan, needed) : Json()},
                      {"certain", result.reduction.is_certain},
                      {"rest", result.rest ? Json(word_of(*result.rest)) : Json()},
                      {"flaky", result.is_flaky()},
                      {"trials", std::move(trials)},
                      {"recorded", json_integer(result.recorded)},
                      {"known", json_integer(result.known)},
                      {"log", json_text((plan.directory / kBisectLogName).string())}},
                     options.pretty_json);
}

/// `repro-check bisect`: which of the differences between two runs make them diverge.
class BisectCommand final : public Command {
 public:
  BisectCommand()
      : Command({"bisect", "Find the smallest set of settings that makes two runs diverge"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    const configs::Config config = config_.load({}, {}, configs::ProgramSeed::kZero);
    BisectPlan bisect_plan = plan(config);
    bisect_plan.times = times_;
    for (const configs::RunSpec& run : config.runs) require_recorder_of(run);
    const OutputLock held(bisect_plan.directory);
    std::error_code error;
    if (force_) clear(bisect_plan);
    if (!std::filesystem::exists(bisect_plan.directory / kBisectLogName, error)) {
      require_no_recordings(bisect_plan);
    }
    say_kept_seed(config);
    BisectLog log(bisect_plan.directory / kBisectLogName, key_of(config, bisect_plan));
    Progress progress(globals);
    bisect_plan.options.progress = comparison_on(progress);
    const BisectResult result = bisect(bisect_plan, log, progress);
    progress.clear();
    return print(globals, bisect_plan, result);
  }

 private:
  [[nodiscard]] BisectPlan plan(const configs::Config& config) const {
    require_two_runs(config);
    BisectPlan plan;
    plan.baseline = config.runs[0];
    find_changes(config.runs[0], config.runs[1], plan);
    if (plan.items.empty()) {
      throw core::usage_error(
          "/runs: both runs have the same settings and weights: there is nothing to reduce",
          "to repeat one configuration, use `run -n 10`");
    }
    plan.directory = from_here(out_ ? std::filesystem::absolute(*out_).lexically_normal()
                                    : config.runs[0].dump.directory / "bisect");
    plan.options = compare_options(config.compare);
    const bool by_digests = starts_with_digests(config);
    plan.level = by_digests ? core::DumpLevel::kDigest : config.runs[0].dump.level;
    return plan;
  }

  [[nodiscard]] core::ExitCode print(const GlobalOptions& globals,
                                     const BisectPlan& plan,
                                     const BisectResult& result) const {
    RenderOptions options = render_options(globals, stdout_is_terminal());
    if (result.report) {
      options.logs = result.logs;
      write_stdout(render_reports({&*result.report, 1}, {format_, options}));
    } else {
      write_stdout(format_ == "json" ? bisect_json(plan, result, options)
                                     : bisect_text(plan, result, options));
    }
    return exit_code_of(result);
  }

  ConfigOptions config_ = group(&config_, true);
  std::uint64_t times_ =
      value(&times_, "-n,--repeat N", {.range = {{std::uint64_t{1}, kMostTimes}}}, 1);
  std::optional<std::string> out_ = value(&out_, "-o,--out DIR", {.takes = Takes::kDirectory});
  bool force_ = flag(&force_, "--force");
  std::string format_ = word(&format_, "--format text|json", "text");
};

}  // namespace

std::unique_ptr<Command> bisect_command() { return std::make_unique<BisectCommand>(); }

}  // namespace repro_check::cmd
