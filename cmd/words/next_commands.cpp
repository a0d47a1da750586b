// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/words/report_words.h"
#include "comparators/blocks/blocks.h"
#include "comparators/cause/differences.h"
#include "configs/setting_changes.h"
#include "core/text/secrets.h"
#include "core/text/text.h"
#include "core/trace/given_seed.h"
#include "core/trace/program_records.h"

namespace repro_check::cmd {
namespace {

// A path that begins with a dash would be read as an option.
std::string path_word(std::string_view path) {
  return shell_quote(path.starts_with('-') ? fmt::format("./{}", path) : std::string(path));
}

/// What came on stdin is gone.
bool can_be_typed_again(std::string_view config) { return !config.empty() && config != "-"; }

/// `repro-check run -c config.json`, or `repro-check run -- python train.py`, with the user's own
/// options.
/// @param behind  further options, which win over the user's
std::string on_config(const RenderOptions& options,
                      std::string_view verb,
                      std::string_view more,
                      std::string_view behind = "") {
  std::string command = fmt::format("repro-check {}", verb);
  if (options.command.empty()) command += " -c " + path_word(options.config_path);
  command += more;
  for (const std::string& word : options.config_flags) command += " " + shell_quote(word);
  command += behind;
  if (!options.command.empty()) command += " --";
  for (const std::string& word : options.command) command += " " + shell_quote(word);
  return command;
}

std::string run_command(const Report& report,
                        const RenderOptions& options,
                        const std::string& setting) {
  const std::string set = setting.empty() ? "" : " --set " + shell_quote(setting);
  const std::string times = report.repeat ? fmt::format(" -n {}", report.repeat->runs.size()) : "";
  const std::string& out = options.output_directory;
  // A run replaces what an earlier one has left, which a damaged dump no longer shows to be.
  const char* force = report.status == Status::kDamaged ? " --force" : "";
  return on_config(
      options, "run", times, set + (out.empty() ? "" : " --out " + path_word(out)) + force);
}

std::string inspect_words(const RunSummary& run) {
  const char* partial = run.status == "partial" ? " --partial" : "";
  return fmt::format("repro-check inspect {}{}", path_word(run.location), partial);
}

// What the operators say, where numbers were judged.
std::string diff_operators(const Report& report) {
  if (!report.numbers || report.runs.size() != 2) return {};
  const std::string& baseline = report.runs[0].location;
  const std::string& candidate = report.runs[1].location;
  if (baseline.empty() || candidate.empty()) return {};
  return fmt::format("repro-check diff {} {}", path_word(baseline), path_word(candidate));
}

// ` --reference DIR` where what `run` refers to is the other run's dump.
std::string reference_words(const Report& report, const RunSummary& run) {
  const auto& reference = run.manifest.trace.reference;
  for (const RunSummary& other : report.runs) {
    if (!reference || other.location.empty()) continue;
    if (other.manifest.trace.index_digest == reference->index_digest) {
      return " --reference " + path_word(other.location);
    }
  }
  return {};
}

// What records the step of a block with operators: one command a run, and what compares them.
std::vector<std::string> record_operators(const Report& report) {
  const core::OpRange steps = comparators::steps_to_open(report);
  std::vector<std::string> commands;
  std::string compare = "repro-check diff";
  for (const RunSummary& run : report.runs) {
    const std::vector<std::string> words = core::command_in(run.manifest.configuration);
    if (words.empty() || run.location.empty()) return {};
    // A baseline is a file, and kept under version control.
    const bool is_baseline = report.from_accepted && &run == &report.runs.front();
    const std::string beside = is_baseline ? std::filesystem::path(report.runs.back().location)
                                                 .replace_filename("accepted")
                                                 .string()
                                           : run.location;
    const std::string place = path_word(fmt::format("{}-step-{}", beside, steps.last));
    const auto seed = core::given_seed(run.manifest);
    std::string command = fmt::format("repro-check exec --depth top --steps {}:{}{} -o {} --",
                                      steps.first,
                                      steps.last + 1,
                                      seed ? fmt::format(" --seed {}", *seed) : "",
                                      place);
    for (const std::string& word : words) command += " " + shell_quote(word);
    commands.push_back(std::move(command));
    compare += " " + place;
  }
  commands.push_back(std::move(compare));
  return commands;
}

std::string inspect_divergence(const Report& report) {
  if (!report.first_divergence || report.runs.size() < 2) return {};
  const auto& op = *report.first_divergence;
  // A resumed run counts its operators and steps from where it begins: the report shows the whole
  // run's.
  const bool of_candidate = op.candidate_index && !(report.resume && op.baseline_index);
  const RunSummary& run = report.runs[of_candidate ? 1 : 0];
  if (run.location.empty()) return {};
  const std::uint64_t index = of_candidate ? *op.candidate_index : shown_index(op);
  std::string command = fmt::format("{} --op {}", inspect_words(run), index);
  const auto* output = leading_output(op);
  const core::TensorRecord* tensor = output == nullptr ? nullptr
                                     : of_candidate    ? &output->candidate
                                                       : &output->baseline;
  if (tensor != nullptr && tensor->stored) {
    command += fmt::format(" --tensor {} --values", shell_quote("out:" + tensor->slot));
    command += reference_words(report, run);
  }
  return command;
}

// What the configuration gave the two runs that is not the same, as far as it can be given again in
// one word.
std::vector<std::string> given_apart(const Report& report) {
  std::vector<std::string> settings;
  const auto add = [&](const std::string& pointer, const std::string& value, int run = 1) {
    settings.push_back(fmt::format("/runs/{}{}={}", run, pointer, value));
  };
  const auto& baseline = report.runs[0].manifest;
  const auto& candidate = report.runs[1].manifest;
  for (const auto& suspect : comparators::suspects_of(baseline, candidate, report.differences)) {
    if (!suspect.pointer.empty()) add(suspect.pointer, suspect.value, suspect.run);
  }
  for (const auto& change :
       configs::recorded_changes(baseline.configuration, candidate.configuration)) {
    constexpr std::array<std::string_view, 7> kOthers{"/model/path",
                                                      "/model/mode",
                                                      "/model/method",
                                                      "/seed",
                                                      "/disable_dropout",
                                                      "/rng",
                                                      "/dtype"};
    const bool is_one = std::find(kOthers.begin(), kOthers.end(), change.pointer) != kOthers.end();
    if (is_one && change.baseline != "unset") add(change.pointer, change.baseline);
  }
  return settings;
}

// A seed from outside comes before it.
bool is_seeded_by_program(const comparators::Cause& cause) {
  return cause.advice &&
         (cause.advice->key == "do-seed-generator" || cause.advice->key == "do-seed-alike");
}

// What mends the cause by itself, where it is a setting.
std::string remedy_for(const Report& report, comparators::CauseKind cause) {
  using comparators::CauseKind;
  const core::RunManifest& baseline = report.runs[0].manifest;
  const core::RunManifest& candidate = report.runs[1].manifest;
  const OpDivergence& first = *report.first_divergence;
  const auto& from = first.baseline.generator;
  const auto& to = first.candidate.generator;
  // By the program itself: draws on the host follow its seeds.
  const bool is_seeded_apart = from && to && from->seed != to->seed;
  const auto is_lenient = [](const RunSummary& run) { return run.manifest.determinism != "error"; };
  const auto& op = shown_record(first).op;
  const bool has_inside =
      (op == nullptr || !core::is_launch(*op)) &&
      core::environment_fact(report.runs.front().manifest, core::kFramework) == nullptr;
  const auto is_shallow = [&](const RunSummary& run) {
    return has_inside && run.manifest.trace.depth != "all" && run.manifest.trace.operators > 0;
  };
  switch (cause) {
    case CauseKind::kRngStream:
      if (core::given_seed(baseline) != core::given_seed(candidate)) {
        return "/runs/1/seed=" + core::given_seed_text(baseline);
      }
      if (!is_seeded_apart) return "/rng=host";
      return core::given_seed(baseline) || is_seeded_by_program(first.cause) ? "" : "/seed=0";
    case CauseKind::kGeneratorAlgorithm:
      return "/rng=host";
    case CauseKind::kNondeterministicKernel:
    case CauseKind::kUninitialised:
      return std::ranges::any_of(report.runs, is_lenient) ? "/determinism=error" : "";
    case CauseKind::kUnexplained:
      return std::ranges::any_of(report.runs, is_shallow) ? "/dump/depth=all" : "";
    default:
      return {};
  }
}

// The one setting to change for another try, as `--set` takes it, or a search for it.
std::string try_again(const Report& report, const RenderOptions& options) {
  if (report.runs.size() < 2 || !report.first_divergence || report.resume) return {};
  const comparators::CauseKind cause = report.first_divergence->cause.kind;
  // Memory that nobody has written holds anything, whatever the runs were given.
  if (cause != comparators::CauseKind::kUninitialised) {
    // A difference the runs were given is no chance: taking it away shows whether it is the cause.
    const std::vector<std::string> apart = given_apart(report);
    if (apart.size() == 1) return run_command(report, options, apart.front());
    if (apart.size() > 1 && !report.repeat) return on_config(options, "bisect", "");
    if (core::is_returned(shown_record(*report.first_divergence))) return {};
  }
  const std::string setting = remedy_for(report, cause);
  return setting.empty() ? "" : run_command(report, options, setting);
}

std::string run_again(const Report& report, const RenderOptions& options) {
  if (options.command.empty() && !can_be_typed_again(options.config_path)) return {};
  if (report.status == Status::kDamaged || report.status == Status::kIncomplete) {
    return run_command(report, options, "");
  }
  // After a single pass level auto saw that nothing of the first divergence could be measured.
  const bool needs_tensors = report.status == Status::kNotComparable ||
                             (report.status == Status::kDiverged && report.passes.size() != 1);
  const auto is_below_tensor = [](const RunSummary& run) {
    return run.manifest.trace.level != "tensor" && run.manifest.trace.operators > 0;
  };
  if (needs_tensors && !report.lacks_rule && std::ranges::any_of(report.runs, is_below_tensor)) {
    return run_command(report, options, "/dump/level=tensor");
  }
  return report.status == Status::kDiverged ? try_again(report, options) : "";
}

std::string look_at_run(const Report& report, const RenderOptions& options) {
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const RunSummary& run = report.runs[i];
    if (run.status == "complete") continue;
    if (i < options.logs.size() && !options.logs[i].path.empty()) {
      return "cat " + path_word(options.logs[i].path);
    }
    if (run.status == "damaged" && !run.location.empty()) return inspect_words(run) + " --verify";
  }
  return {};
}

std::string look_at_unfinished(const Report& report) {
  for (const RunSummary& run : report.runs) {
    if (run.unfinished.empty()) continue;
    return fmt::format("repro-check inspect {} --partial", path_word(run.unfinished));
  }
  return {};
}

// What makes the results of a gate the accepted ones, where they may be.
std::string accept_results(const RenderOptions& options) {
  const GateOutcome* gate = options.gate;
  if (gate == nullptr || gate->pending.empty() || !gate->refusal.empty()) return {};
  const bool is_accepted = gate->baseline == BaselineState::kSame;
  if (is_accepted || !can_be_typed_again(gate->config)) return {};
  return gate_command("accept", gate->config, gate->flags) + " " + path_word(gate->pending);
}

}  // namespace

std::string gate_command(std::string_view verb,
                         const std::string& config,
                         const std::vector<std::string>& flags) {
  std::string command =
      fmt::format("repro-check gate {} -c {}", verb, config.empty() ? "CONFIG" : path_word(config));
  for (const std::string& word : flags) command += " " + shell_quote(word);
  return command;
}

std::vector<std::string> next_commands(const Report& report, const RenderOptions& options) {
  if (report.status == Status::kReproducible) return {};
  const bool is_judged = report.status == Status::kDiverged;
  const auto& first = report.first_divergence;
  const auto asks_for_operators = [](const core::OpRecord& record) {
    if (core::is_of_blocks(record)) return true;
    return record.op && (record.op->name == core::kLossRecord || core::is_of_ranks(*record.op));
  };
  if (is_judged && report.blocks && first && asks_for_operators(shown_record(*first))) {
    std::vector<std::string> commands = record_operators(report);
    commands.push_back(accept_results(options));
    std::erase(commands, "");
    return commands;
  }
  std::vector<std::string> commands{
      is_judged ? diff_operators(report) : "",
      is_judged ? inspect_divergence(report) : look_at_run(report, options),
      look_at_unfinished(report),
      run_again(report, options),
      accept_results(options)};
  std::erase(commands, "");
  return commands;
}

}  // namespace repro_check::cmd
