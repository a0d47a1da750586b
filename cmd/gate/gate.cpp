// SPDX-License-Identifier: Apache-2.0
#include "cmd/gate/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "baselines/accepted_source.h"
#include "baselines/baseline.h"
#include "cmd/recording/output_lock.h"
#include "cmd/render/text.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "cmd/words/causes.h"
#include "comparators/runs/second_pair.h"
#include "configs/parser/config_parser.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/text.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

using baselines::Baseline;
using baselines::Pending;
using comparators::Phrase;

/// Sorted; none where there is no such directory.
std::vector<std::filesystem::path> files_in(
    const std::filesystem::path& directory,
    const std::function<bool(const std::filesystem::path&)>& is_wanted) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (is_wanted(entry.path())) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

/// Files of baselines in a directory, sorted; none where it does not exist.
std::vector<std::filesystem::path> baseline_files(const std::filesystem::path& directory) {
  return files_in(directory, [](const std::filesystem::path& file) {
    return file.extension() == baselines::kBaselineSuffix;
  });
}

/// Of those the ones that belong neither to gate `name` nor to a configuration beside `config`.
std::vector<std::filesystem::path> orphaned_files(const std::vector<std::filesystem::path>& files,
                                                  const std::string& name,
                                                  const std::filesystem::path& config) {
  std::vector<std::filesystem::path> orphans;
  for (const auto& file : files) {
    const std::string stem = file.stem().string();
    const std::string gate = stem.substr(0, stem.rfind('-'));
    std::error_code ignored;
    const auto beside = config.parent_path() / (gate + ".json");
    if (gate != name && !config.empty() && !std::filesystem::exists(beside, ignored)) {
      orphans.push_back(file);
    }
  }
  return orphans;
}

std::string attempt_of_job() {
  for (const char* name : {"GITHUB_RUN_ATTEMPT", "CI_JOB_RETRY", "BUILDKITE_RETRY_COUNT"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return std::string(name) + '=' + value;
  }
  return {};
}

bool ends_without_pending(core::ExitCode code) {
  return code == core::ExitCode::kDumpUnusable || code == core::ExitCode::kRunFailed;
}

/// What the first run gave. Borrows.
struct Results {
  const core::DumpSource& dump;
  const Baseline& now;     ///< a line an operator
  const Baseline& folded;  ///< as it would be written
  /// Where the program ran on several: the dumps of its ranks, the one that leads first.
  const std::vector<store::RankDump>& ranks;
};

struct Candidate {
  std::filesystem::path file;
  Baseline baseline;
};

void set_status(Status status, Phrase reason, Report& report) {
  report.status = status;
  report.also.clear();
  report.reasons = {std::move(reason)};
  report.mend.reset();
}

std::string accept_command(const GateCase& gate) {
  const std::string out = gate.directory.empty() ? "" : " --out " + shell_quote(gate.directory);
  return gate_command("accept", gate.config.string(), gate.flags) + out;
}

/// Baselines of this gate: the platform's own, and all others.
struct Found {
  std::vector<Candidate> asked;
  std::vector<Candidate> others;
};

bool is_named(const std::filesystem::path& file, const std::string& gate) {
  const std::string stem = file.stem().string();
  const std::size_t dash = stem.rfind('-');
  return dash != std::string::npos && stem.substr(0, dash) == gate;
}

Found find_baselines(const GateCase& gate, const core::Digest& key) {
  Found found;
  std::vector<Candidate> allowed;
  for (const auto& file : baseline_files(gate.spec.baselines.directory)) {
    if (!is_named(file, gate.spec.baselines.name)) continue;
    Candidate candidate{from_here(file),
                        baselines::baseline_from_text(read_text_file(file), file.string())};
    const core::Digest its_key = candidate.baseline.platform.key();
    if (candidate.baseline.gate != gate.spec.baselines.name ||
        baselines::file_name(candidate.baseline) != file.filename().string()) {
      throw core::damaged_dump(file.string() + ": the content of the file does not match its name",
                               "files are named GATE-KEY.repro: restore its name");
    }
    const std::string hex = core::to_hex(its_key);
    const bool is_allowed =
        std::ranges::any_of(gate.spec.baselines.any_of,
                            [&](const std::string& prefix) { return hex.starts_with(prefix); });
    if (its_key == key) {
      found.asked = {std::move(candidate)};
    } else if (is_allowed) {
      allowed.push_back(std::move(candidate));
    } else {
      found.others.push_back(std::move(candidate));
    }
  }
  if (found.asked.empty()) found.asked = std::move(allowed);
  return found;
}

/// The baselines of a gate, of whatever platform. None where one of them cannot be read: that is
/// told when the results are compared.
std::vector<Candidate> accepted_before(const GateCase& gate) {
  std::vector<Candidate> accepted;
  for (const auto& file : baseline_files(gate.spec.baselines.directory)) {
    if (!is_named(file, gate.spec.baselines.name)) continue;
    try {
      accepted.push_back(
          {from_here(file), baselines::baseline_from_text(read_text_file(file), file.string())});
    } catch (const core::Error& error) {
      if (core::exit_code_for(error.kind()) != core::ExitCode::kDumpUnusable) throw;
      return {};
    }
  }
  return accepted;
}

void say_missing(const GateCase& gate,
                 const Baseline& now,
                 const std::vector<Candidate>& others,
                 Report& report,
                 GateOutcome& outcome) {
  outcome.baseline = BaselineState::kMissing;
  outcome.file = from_here(gate.spec.baselines.directory / baselines::file_name(now)).string();
  Phrase reason("nothing-accepted",
                {{"platform", baselines::short_key(now.platform.key())},
                 {"machine", baselines::describe(now.platform)},
                 {"command", accept_command(gate)}});
  const Candidate* nearest = nullptr;
  for (const Candidate& other : others) {
    auto changes = baselines::platform_changes(other.baseline.platform, now.platform);
    if (nearest != nullptr && changes.size() >= outcome.nearest_changes.size()) continue;
    nearest = &other;
    outcome.nearest_changes = std::move(changes);
  }
  if (nearest != nullptr) {
    outcome.nearest = nearest->file.string();
    std::vector<std::string> names;
    for (const auto& change : outcome.nearest_changes) names.push_back(change.name);
    reason.with("nearest", outcome.nearest).with("names", std::move(names));
  }
  set_status(Status::kNoBaseline, std::move(reason), report);
}

Report compare_lines(const GateCase& gate,
                     const Candidate& accepted,
                     const core::DumpSource& dump,
                     const std::filesystem::path& place) {
  baselines::AcceptedSource source(accepted.baseline, accepted.file.string(), dump);
  comparators::CompareOptions options = gate.options;
  options.paired = [&](auto candidate_of) { source.take_partners(candidate_of); };
  Report report = comparators::compare(source, dump, options);
  report.runs.front().name = "accepted";
  report.runs.front().location = accepted.file.string();
  report.runs.at(1).location = place.string();
  if (report.status == Status::kNotComparable) report.mend = Phrase("do-store-dumps");
  return report;
}

/// What does not agree with a folded baseline, as far as its lines tell, of operators or records,
/// calls of blocks, and parameters.
struct Apart {
  std::uint64_t operators = 0;
  std::uint64_t calls = 0;
  std::uint64_t parameters = 0;
};

Apart modules_apart(const Baseline& accepted, const Baseline& folded) {
  Apart apart;
  for (const baselines::AcceptedModule& module : folded.modules) {
    const bool is_same = std::ranges::find(accepted.modules, module) != accepted.modules.end();
    if (!is_same && module.path != core::kReturnedOperator) apart.operators += module.operators;
  }
  return apart;
}

/// @param now  the same as `folded`, with a line each
Apart steps_apart(const Baseline& accepted, const Baseline& folded, const Baseline& now) {
  const auto& known = accepted.blocks->folded;
  std::set<std::pair<std::uint32_t, std::uint32_t>> same;
  for (const baselines::AcceptedSteps& steps : folded.blocks->folded) {
    if (std::ranges::find(known, steps) != known.end())
      same.insert({steps.rank, steps.first / steps.width});
  }
  const auto is_apart = [&, width = known.front().width](std::uint32_t rank, std::uint32_t step) {
    return !same.contains({rank, step / width});
  };
  const auto in_apart = [&](const auto& item) { return is_apart(item.rank, item.row.step); };
  const auto is_record_apart = [&](const std::string& line) {
    const core::OpRecord record = baselines::op_of(line).record;
    return !core::is_returned(record) && is_apart(record.rank, record.step);
  };
  const auto count = [](const auto& items, const auto& is_one) {
    return static_cast<std::uint64_t>(std::ranges::count_if(items, is_one));
  };
  return {count(now.ops, is_record_apart),
          count(now.blocks->calls, in_apart),
          count(now.blocks->parameters, in_apart)};
}

/// Where only modules, or steps, are told apart: which ones.
Report compare_folded(const GateCase& gate,
                      const Candidate& accepted,
                      const Results& results,
                      bool has_same_weights,
                      Report report) {
  const bool is_of_blocks = accepted.baseline.blocks.has_value();
  const Baseline folded = baselines::folded_like(results.now, accepted.baseline);
  const std::string changes = baselines::describe_changes(accepted.baseline, folded);
  // A digest of a module says that some bit of it is another one, and not whether that matters.
  if (!gate.options.spec.rules.empty() || gate.options.spec.numbers ||
      !comparators::can_start_with_digests(gate.options.spec)) {
    const char* key = is_of_blocks ? "only-digests-of-steps" : "only-digests-of-modules";
    set_status(Status::kNotComparable, Phrase(key, {{"changes", changes}}), report);
    return report;
  }
  const Apart apart = is_of_blocks ? steps_apart(accepted.baseline, folded, results.now)
                                   : modules_apart(accepted.baseline, folded);
  report.status = Status::kDiverged;
  report.kind = has_same_weights ? DivergenceKind::kOrigin : DivergenceKind::kWeights;
  report.reasons = {
      Phrase(is_of_blocks ? "steps-differ-from-baseline" : "modules-differ-from-baseline",
             {{"changes", changes}})};
  comparators::Coverage& coverage = report.coverage;
  const std::uint64_t moved = std::min(apart.operators, coverage.equal);
  coverage.equal -= moved;
  coverage.compared -= moved;
  coverage.not_judged += moved;
  if (!report.blocks) return report;
  report.blocks->compared -= std::min(apart.calls, report.blocks->compared);
  report.blocks->parameters -= std::min(apart.parameters, report.blocks->parameters);
  return report;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

/// The dump that the baseline was made from, if it is where the configuration says.
std::optional<std::filesystem::path> stored_dump(const GateCase& gate,
                                                 const Baseline& baseline,
                                                 GateOutcome& outcome) {
  std::string path = gate.spec.baselines.store;
  if (path.empty()) return std::nullopt;
  path = replaced(path, "{root}", core::to_hex(baseline.root));
  path = replaced(path, "{gate}", gate.spec.baselines.name);
  path = replaced(path, "{key}", baselines::short_key(baseline.platform.key()));
  try {
    const auto dump = store::open_dump(path);
    if (dump->manifest().trace.index_digest == baseline.root) return path;
    outcome.notes.push_back(path + " is another dump than the one that was accepted");
  } catch (const core::Error& error) {
    outcome.notes.push_back(std::string("the accepted dump was not read: ") + error.what());
  }
  return std::nullopt;
}

/// The first rank that gave something else than was accepted of it: the one that leads where that
/// is not known.
std::size_t place_of_difference(const Candidate& accepted, const Results& results) {
  if (baselines::is_folded(accepted.baseline)) return 0;
  for (std::size_t i = 0; i < results.ranks.size(); ++i) {
    const std::uint32_t number = i == 0 ? 0 : results.ranks[i].rank;
    const Baseline was = baselines::of_rank(accepted.baseline, number);
    if (!baselines::same_results(was, baselines::of_rank(results.now, number))) return i;
  }
  return 0;
}

Report compare_rank(const GateCase& gate,
                    const Candidate& accepted,
                    const Results& results,
                    std::size_t place) {
  if (results.ranks.size() < 2) {
    return compare_lines(gate, accepted, results.dump, gate.dumps.front());
  }
  const store::RankDump& rank = results.ranks[place];
  const Candidate own{accepted.file,
                      baselines::of_rank(accepted.baseline, place == 0 ? 0 : rank.rank)};
  const auto dump = open_own(rank.path, gate.references);
  return compare_lines(gate, own, *dump, rank.path);
}

/// What exactly differs from the baseline, where something does.
Report find_difference(const GateCase& gate,
                       const Candidate& accepted,
                       const Results& results,
                       const Report& on_runs,
                       GateOutcome& outcome) {
  const bool has_same_weights =
      baselines::weight_changes(accepted.baseline, results.folded).empty();
  Report report;
  const std::size_t place = place_of_difference(accepted, results);
  const auto stored = place == 0 ? stored_dump(gate, accepted.baseline, outcome) : std::nullopt;
  if (stored) {
    report = judge(
        *stored, store::leading_dump(gate.dumps.front()), gate.options, {false, gate.references});
  } else if (!baselines::is_folded(accepted.baseline)) {
    report = compare_rank(gate, accepted, results, place);
  } else {
    report = compare_folded(gate, accepted, results, has_same_weights, on_runs);
  }
  if (!accepted.baseline.folded.empty() && !has_same_weights) {
    outcome.notes.emplace_back(
        "parameters or buffers differ from the accepted ones; the baseline has too many to name "
        "them");
  }
  report.from_accepted = true;
  // The accepted side is not there to be recorded again.
  const Phrase in_both("do-record-operators");
  if (report.first_divergence && report.first_divergence->cause.advice == in_both) {
    report.first_divergence->cause.advice = Phrase("do-record-both-revisions");
  }
  return report;
}

void say_other_depth(const GateCase& gate,
                     const Baseline& accepted,
                     const Baseline& now,
                     Report& report,
                     GateOutcome& outcome) {
  const std::string was = baselines::depth_of(accepted);
  const std::string is = baselines::depth_of(now);
  outcome.baseline = BaselineState::kStale;
  outcome.summary = fmt::format("accepted at depth {}, recorded at depth {}", was, is);
  set_status(Status::kNotComparable,
             Phrase("accepted-at-other-depth",
                    {{"file", outcome.file},
                     {"accepted", was},
                     {"now", is},
                     {"command", accept_command(gate)}}),
             report);
}

/// @return whether the results are what was accepted
bool compare_with(const GateCase& gate,
                  const Candidate& accepted,
                  const Results& results,
                  Report& report,
                  GateOutcome& outcome) {
  outcome.file = accepted.file.string();
  outcome.changes = baselines::stale_reasons(accepted.baseline, results.folded);
  if (accepted.baseline.blocks.has_value() != results.now.blocks.has_value()) {
    say_other_depth(gate, accepted.baseline, results.now, report, outcome);
    return false;
  }
  Baseline shown = results.now;
  if (!baselines::holds_returned(accepted.baseline) && baselines::holds_returned(shown)) {
    shown = baselines::without_returned(std::move(shown));
    outcome.notes.emplace_back(
        "the baseline has no results of the model, so they were not compared: accept again to "
        "include them");
  }
  if (results.ranks.size() > 1 && baselines::ranks_in(accepted.baseline).size() < 2) {
    shown = baselines::of_rank(std::move(shown), 0);
    outcome.notes.push_back(
        fmt::format("the baseline has only rank {}: accept again to include all ranks",
                    results.ranks.front().rank));
  }
  shown = baselines::folded_like(std::move(shown), accepted.baseline);
  if (baselines::same_results(accepted.baseline, shown)) {
    // No reason to doubt the results, and to be told all the same.
    std::ranges::move(baselines::weight_changes(accepted.baseline, results.folded),
                      std::back_inserter(outcome.changes));
    outcome.baseline = outcome.changes.empty() ? BaselineState::kSame : BaselineState::kRefresh;
    return true;
  }
  outcome.summary = baselines::describe_changes(accepted.baseline, shown);
  if (!outcome.changes.empty()) {
    outcome.baseline = BaselineState::kStale;
    const baselines::Change& first = outcome.changes.front();
    set_status(Status::kStaleBaseline,
               Phrase("accepted-for-other-settings",
                      {{"file", outcome.file},
                       {"name", first.name},
                       {"accepted", first.accepted},
                       {"now", first.now},
                       {"more", outcome.changes.size() - 1},
                       {"changes", outcome.summary},
                       {"command", accept_command(gate)}}),
               report);
    return false;
  }
  outcome.baseline = BaselineState::kDiffers;
  report = find_difference(gate, accepted, results, report, outcome);
  // A rule may ignore what differs.
  if (report.status == Status::kReproducible) outcome.baseline = BaselineState::kSame;
  return report.status == Status::kReproducible;
}

/// The second question of a gate: compares runs that agree with what was accepted.
/// @param report  on the runs; becomes the report of the gate
void ask_baseline(const GateCase& gate,
                  const Results& results,
                  Report& report,
                  GateOutcome& outcome) {
  Found found;
  try {
    found = find_baselines(gate, results.now.platform.key());
  } catch (const core::Error& error) {
    if (core::exit_code_for(error.kind()) != core::ExitCode::kDumpUnusable) throw;
    outcome.baseline = BaselineState::kDamaged;
    outcome.file = gate.spec.baselines.directory.string();
    set_status(Status::kDamaged, as_said(error.what()), report);
    report.mend = as_said(error.hint());
    return;
  }
  if (found.asked.empty()) {
    say_missing(gate, results.now, found.others, report, outcome);
    return;
  }
  // With several that may be asked, one that agrees is enough, and the first is reported otherwise.
  std::optional<std::pair<Report, GateOutcome>> first;
  for (const Candidate& accepted : found.asked) {
    Report its_report = report;
    GateOutcome its_outcome = outcome;
    const bool agrees = compare_with(gate, accepted, results, its_report, its_outcome);
    if (!first || agrees) first.emplace(std::move(its_report), std::move(its_outcome));
    if (agrees) break;
  }
  report = std::move(first->first);
  outcome = std::move(first->second);
}

void write_pending(const GateCase& gate,
                   const core::DumpSource& dump,
                   const Baseline& folded,
                   GateOutcome& outcome) {
  const core::RunManifest& manifest = dump.manifest();
  baselines::Pending pending{
      outcome.runs_agree, outcome.runs, {manifest.model_digest, manifest.model_path}, folded};
  if (const auto* word = core::environment_fact(manifest, "model.weights_digest")) {
    const auto digest = core::parse_digest(*word);
    if (digest) {
      pending.weights = {
          *digest, core::text_or_empty(core::environment_fact(manifest, "model.weights_path"))};
    }
  }
  const std::filesystem::path file =
      from_here(gate.output / (baselines::file_name(pending.baseline) + ".new"));
  write_file(file, baselines::to_text(pending));
  outcome.pending = file.string();
  if (!outcome.runs_agree) outcome.refusal = "the runs do not agree with each other";
}

void note_orphans(const GateCase& gate, Report& report, GateOutcome& outcome) {
  const auto orphans = orphaned_files(
      baseline_files(gate.spec.baselines.directory), gate.spec.baselines.name, gate.config);
  for (const auto& file : orphans) outcome.orphans.push_back(from_here(file).string());
  if (orphans.empty()) return;
  Phrase reason("baseline-of-no-configuration",
                {{"file", outcome.orphans.front()},
                 {"command", gate_command("prune", gate.config.string(), gate.flags)}});
  if (report.status != Status::kReproducible) {
    outcome.notes.push_back(words_of(reason));
    return;
  }
  set_status(Status::kStaleBaseline, std::move(reason), report);
}

/// What follows once the runs are whole.
void judge_whole(const GateCase& gate, std::vector<Report>& reports, GateOutcome& outcome) {
  const auto dump = open_own(gate.dumps.front(), gate.references);
  const auto platform = baselines::platform_of(dump->manifest());
  if (platform) outcome.key = core::to_hex(platform->key());
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  if (!gate.spec.expected.empty() && dump->manifest().is_of_blocks()) {
    throw core::usage_error("/expected: it names operators, and the runs recorded blocks",
                            "record operators with \"depth\": \"top\" in \"dump\", and accept "
                            "them; or leave \"expected\" out");
  }
  comparators::Expectations expectations(gate.spec.expected, outcome.key, today);
  if (!expectations.empty()) expectations.require_matches(*dump);
  for (Report& report : reports) expectations.excuse(report);
  put_worst_first(reports);
  Report& lead = reports.front();
  outcome.runs_agree = worst_exit(reports) == core::ExitCode::kReproducible;

  std::optional<Baseline> folded;
  if (platform) {
    const std::string policy(configs::name_of(gate.options.spec.policy.kind));
    Baseline now = baselines::summarise(*dump, *platform, gate.spec.baselines.name, policy);
    const auto ranks = store::rank_dumps(gate.dumps.front());
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      const auto other = open_own(ranks[i].path, gate.references);
      now = baselines::with_rank(
          std::move(now),
          baselines::summarise(*other, *platform, gate.spec.baselines.name, policy),
          ranks[i].rank);
    }
    folded = baselines::fold(now);
    if (outcome.runs_agree) {
      ask_baseline(gate, {*dump, now, *folded, ranks}, lead, outcome);
      expectations.excuse(lead);
      note_orphans(gate, lead, outcome);
    }
  } else {
    outcome.baseline = BaselineState::kNoKey;
    if (outcome.runs_agree) {
      set_status(Status::kNoBaseline,
                 Phrase("no-platform-key", {{"dump", gate.dumps.front().string()}}),
                 lead);
    }
  }
  outcome.expected = expectations.settle(gate.spec.min_judged, lead);
  if (folded && !ends_without_pending(worst_exit(reports))) {
    write_pending(gate, *dump, *folded, outcome);
  }
}

core::Error refused(const std::filesystem::path& file, const std::string& why, std::string mend) {
  return core::usage_error(core::printable(file.string()) + " cannot be accepted: " + why,
                           std::move(mend));
}

/// Why the files that the gate loads now are not those of the runs; empty where they are.
std::string changed_files(const GatePlace& place, const Pending& pending) {
  if (!place.model) return {};
  if (core::digest_file(*place.model) != pending.model.digest) return "the model has changed";
  if (place.weights_from.has_value() != pending.weights.has_value()) {
    return place.weights_from ? "the configuration now takes weights from another file"
                              : "the configuration no longer takes weights from another file";
  }
  if (place.weights_from && core::digest_file(*place.weights_from) != pending.weights->digest) {
    return core::printable(place.weights_from->string()) + " has changed";
  }
  return {};
}

void check(const GatePlace& place, const std::filesystem::path& file, const Pending& pending) {
  const char* again = "run the gate again, and accept its new result";
  if (!pending.agreed) {
    throw refused(file,
                  fmt::format("the {} runs behind it do not agree with each other", pending.runs),
                  "fix that first: a result that differs from run to run cannot be a baseline");
  }
  if (pending.baseline.gate != place.name) {
    throw refused(
        file,
        fmt::format("it is of gate {}, not {}", core::printable(pending.baseline.gate), place.name),
        "give the configuration of its gate with -c");
  }
  const baselines::AcceptedBlocks blocks =
      pending.baseline.blocks.value_or(baselines::AcceptedBlocks{});
  if (pending.baseline.operators + blocks.call_count + blocks.parameter_count == 0) {
    throw refused(file, "it holds no operator", again);
  }
  const std::string changed = changed_files(place, pending);
  if (!changed.empty()) throw refused(file, changed + " since the runs were recorded", again);
}

/// Of what `accept` tells of one file.
constexpr std::size_t kMostChanges = 8;

std::string size_text(const Baseline& baseline) {
  if (!baseline.blocks) return format_count(baselines::operator_calls(baseline), "operator");
  return fmt::format("{} of {} and {}",
                     format_count(baseline.blocks->call_count, "call"),
                     format_count(baseline.blocks->blocks, "block"),
                     format_count(baseline.blocks->parameter_count, "parameter"));
}

std::string summary_line(const std::filesystem::path& target, const Baseline& now) {
  const std::string name = core::printable(from_here(target).string());
  std::error_code ignored;
  if (!std::filesystem::exists(target, ignored)) {
    return fmt::format("{}: new, {} on {}\n",
                       name,
                       size_text(now),
                       core::printable(baselines::describe(now.platform)));
  }
  try {
    const Baseline before = baselines::baseline_from_text(read_text_file(target), target.string());
    std::string line = name + ": " + core::printable(baselines::describe_changes(before, now));
    std::vector<baselines::Change> changes = baselines::stale_reasons(before, now);
    std::ranges::move(baselines::weight_changes(before, now), std::back_inserter(changes));
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if (i == kMostChanges) return line + fmt::format("; and {} more\n", changes.size() - i);
      const auto& [what, accepted, given] = changes[i];
      line += core::printable(fmt::format("; {} {} -> {}", what, accepted, given));
    }
    return line + '\n';
  } catch (const core::Error&) {
    return name + ": replaces a file that could not be read\n";
  }
}

std::string age_text(const std::filesystem::path& file) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(file, error);
  if (error) return "of unknown age";
  const auto age = std::filesystem::file_time_type::clock::now() - written;
  const auto days = std::chrono::floor<std::chrono::days>(age).count();
  return days <= 0 ? "today" : fmt::format("{} days old", days);
}

}  // namespace

void require_accepted_seed(const GateCase& gate, const configs::Config& config) {
  const configs::RunSpec& first = config.runs.front();
  if (!first.program || first.seed || config.names_seed) return;
  const auto seed_of = [](const Candidate& accepted) {
    return baselines::fact_of(accepted.baseline, "/seed");
  };
  const auto has_none = [](const std::string& seed) { return seed.empty() || seed == "null"; };
  const std::vector<Candidate> accepted = accepted_before(gate);
  if (accepted.empty() || std::ranges::any_of(accepted, has_none, seed_of)) return;
  const std::string seed = seed_of(accepted.back());
  throw core::not_comparable(
      fmt::format("{} was accepted under seed {}, and no seed is configured",
                  core::printable(accepted.back().file.string()),
                  core::printable(seed)),
      fmt::format("set \"seed\": {} in the configuration; or set \"seed\": null and accept again",
                  core::printable(seed)));
}

void follow_accepted_depth(const GateCase& gate, configs::Config& config) {
  if (config.recording.names_depth) return;
  std::set<std::string> depths;
  for (const Candidate& accepted : accepted_before(gate)) {
    depths.insert(baselines::depth_of(accepted.baseline));
  }
  // Which of several is this platform's is known when it has recorded.
  if (depths.size() != 1) return;
  const auto depth = core::parse_name<core::DumpDepth>(*depths.begin());
  if (!depth) return;
  const bool is_refused =
      *depth == core::DumpDepth::kBlocks && std::ranges::any_of(config.runs, [](const auto& run) {
        return configs::needs_operators(run);
      });
  if (is_refused) return;
  for (configs::RunSpec& run : config.runs) run.dump.depth = *depth;
}

GateResult judge_gate(GateCase gate) {
  GateResult result;
  result.reports = std::move(gate.reports);
  result.outcome.gate = gate.spec.baselines.name;
  result.outcome.config = gate.config.string();
  result.outcome.flags = gate.flags;
  result.outcome.runs = gate.dumps.size();
  result.outcome.attempt = attempt_of_job();
  put_worst_first(result.reports);
  if (!ends_without_pending(worst_exit(result.reports))) {
    judge_whole(gate, result.reports, result.outcome);
    put_worst_first(result.reports);
  }
  return result;
}

bool is_ci() {
  const char* value = std::getenv("CI");
  const std::string text = value == nullptr ? "" : value;
  return !text.empty() && text != "0" && text != "false";
}

std::vector<std::filesystem::path> pending_files(const std::filesystem::path& directory,
                                                 const std::string& gate) {
  return files_in(directory, [&](const std::filesystem::path& file) {
    const std::string name = file.filename().string();
    // Dashes may be in the name of a gate, and are not in a key.
    return name.substr(0, name.rfind('-')) == gate && name.ends_with(baselines::kPendingSuffix);
  });
}

void remove_pending(const std::filesystem::path& directory, const std::string& gate) {
  for (const std::filesystem::path& file : pending_files(directory, gate)) {
    std::error_code error;
    std::filesystem::remove(file, error);
    if (!error) continue;
    throw core::io_error(
        "cannot remove " + core::printable(file.string()) + ": " + error.message(),
        "it is from an earlier run of the gate, and `gate accept` would accept it");
  }
}

std::string accept_pending(const GatePlace& place,
                           const std::vector<std::filesystem::path>& files) {
  std::vector<Pending> all;
  for (const std::filesystem::path& file : files) {
    all.push_back(baselines::pending_from_text(read_text_file(file), file.string()));
    check(place, file, all.back());
  }
  std::error_code error;
  std::filesystem::create_directories(place.baselines, error);
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::filesystem::path target = place.baselines / baselines::file_name(all[i].baseline);
    text += summary_line(target, all[i].baseline);
    write_file(target, baselines::to_text(all[i].baseline));
    std::filesystem::remove(files[i], error);
  }
  return text;
}

std::string baseline_status(const GatePlace& place) {
  const auto files = baseline_files(place.baselines);
  const auto orphans = orphaned_files(files, place.name, place.config);
  std::string text;
  for (const std::filesystem::path& file : files) {
    const std::string name = core::printable(from_here(file).string());
    if (std::ranges::find(orphans, file) != orphans.end()) {
      text += name + ": no configuration has this name\n";
      continue;
    }
    try {
      const Baseline baseline = baselines::baseline_from_text(read_text_file(file), file.string());
      text += fmt::format("{}: {} on {}, policy {}, {}\n",
                          name,
                          size_text(baseline),
                          core::printable(baselines::describe(baseline.platform)),
                          core::printable(baseline.policy),
                          age_text(file));
      if (baselines::holds_values(baseline)) {
        text += fmt::format("{}: holds values of variables or arguments: accept again\n", name);
      }
    } catch (const core::Error& problem) {
      text += fmt::format("{}: {}\n", name, problem.what());
    }
  }
  if (text.empty()) {
    return fmt::format("no baselines in {}\n",
                       core::printable(from_here(place.baselines).string()));
  }
  return text;
}

std::string prune_baselines(const GatePlace& place, bool dry_run) {
  std::string text;
  for (const auto& file :
       orphaned_files(baseline_files(place.baselines), place.name, place.config)) {
    std::error_code error;
    if (!dry_run) std::filesystem::remove(file, error);
    if (error) throw core::io_error("cannot remove " + file.string());
    text +=
        (dry_run ? "would remove " : "removed ") + core::printable(from_here(file).string()) + '\n';
  }
  return text.empty() ? "no orphans\n" : text;
}

}  // namespace repro_check::cmd
