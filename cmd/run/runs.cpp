// SPDX-License-Identifier: Apache-2.0
#include "cmd/run/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cmd/recording/space.h"
#include "cmd/render/render.h"
#include "cmd/reports/rank_pairs.h"
#include "cmd/reports/report_flags.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "cmd/words/report_words.h"
#include "comparators/blocks/blocks.h"
#include "comparators/runs/repeatability.h"
#include "configs/parser/config_parser.h"
#include "core/error.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/directory/rank_dumps.h"

namespace repro_check::cmd {
namespace {

using comparators::RepeatSummary;
using comparators::Report;
using comparators::Status;

std::vector<std::string> names_after(const std::vector<RecordingJob>& jobs, std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = count; i < jobs.size(); ++i) names.push_back(jobs[i].run.name);
  return names;
}

/// One a job, where something is known of it; may be shorter than the jobs.
using Estimates = std::vector<std::optional<SpaceEstimate>>;

/// What an older command left of the other runs is no pair of the first run's new dump: were this
/// command to end now, the two would be taken for one.
void discard_older(const std::vector<RecordingJob>& jobs) {
  for (const RecordingJob& job : std::span(jobs).subspan(1)) {
    const bool is_referred_to = std::ranges::any_of(jobs, [&](const RecordingJob& other) {
      const auto& reference = other.run.dump.reference;
      return reference && store::is_same_place(*reference, job.dump);
    });
    if (job.replace_existing && !is_referred_to) store::discard_recording(job.dump);
  }
}

/// Up to the first that fails: later runs would be compared with nothing.
std::vector<RecordingResult> record_all(const std::vector<RecordingJob>& jobs,
                                        const std::string& note,
                                        const Estimates& estimates,
                                        Progress& progress) {
  std::vector<RecordingResult> results;
  for (const RecordingJob& job : jobs) {
    const std::size_t place = results.size();
    progress.begin(place + 1, jobs.size(), job.run.name + note);
    std::optional<SpaceEstimate> estimate =
        place < estimates.size() ? estimates[place] : std::nullopt;
    const RecordingJob& first = jobs.front();
    if (!estimate && place > 0) estimate = estimate_from(first.run, first.dump, job.run);
    results.push_back(record_where_it_fits(job, estimate, progress));
    if (!results.back().totals) break;
    if (place == 0) discard_older(jobs);
  }
  return results;
}

/// The dumps make way for those of the second round, and are named where they are kept.
void keep_digests(const std::vector<RecordingJob>& jobs, std::vector<Report>& reports) {
  for (const RecordingJob& job : jobs) set_aside(job);
  const auto move = [](comparators::RunSummary& run, const RecordingJob& job) {
    const auto below = std::filesystem::path(run.location).lexically_relative(job.dump);
    const std::filesystem::path moved = digest_directory(job.dump);
    run.location = (below == "." ? moved : moved / below).string();
  };
  for (std::size_t i = 0; i < reports.size(); ++i) {
    move(reports[i].runs[0], jobs.front());
    move(reports[i].runs[1], jobs[i + 1]);
  }
}

const Report& first_diverged(const std::vector<Report>& reports) {
  return *std::ranges::find(reports, Status::kDiverged, &Report::status);
}

Report judge_by_first(const RecordingJob& first,
                      const RecordingJob& job,
                      const comparators::CompareOptions& options,
                      const std::optional<std::uint32_t>& alone = {}) {
  return judge_runs(first.dump, job.dump, options, {false, references_of(job)}, alone);
}

/// What was recorded before a run failed, each judged by the first run: the whole dumps, and of the
/// failed run as much as it left.
std::vector<Report> judge_what_is_left(const std::vector<RecordingJob>& jobs,
                                       const std::vector<RecordingResult>& results,
                                       const comparators::CompareOptions& options) {
  std::vector<Report> reports;
  for (std::size_t i = 1; i < results.size(); ++i) {
    const std::string& unfinished = results[i].summary.unfinished;
    const bool whole = results[i].totals.has_value();
    if (!whole && unfinished.empty()) continue;
    // Of a program on several ranks that failed, one process is left.
    reports.push_back(whole ? judge_by_first(jobs.front(), jobs[i], options)
                            : judge(store::leading_dump(jobs.front().dump),
                                    unfinished,
                                    options,
                                    {true, references_of(jobs[i])}));
  }
  return reports;
}

bool was_compared(const Report& report) {
  return report.status == Status::kDiverged || report.status == Status::kReproducible ||
         report.status == Status::kPartial;
}

/// The one of them that says most; null where nothing was compared.
const Report* telling(const std::vector<Report>& left) {
  const Report* shown = nullptr;
  for (const Report& seen : left) {
    if (!was_compared(seen)) continue;
    const bool diverged = seen.status == Status::kDiverged;
    if (shown == nullptr || (diverged && shown->status != Status::kDiverged)) {
      shown = &seen;
    }
  }
  return shown;
}

/// A failed run takes nothing back: the report on it says what the operators before show.
void add_what_is_left(const Report* shown, Report& failed) {
  if (shown == nullptr) return;
  comparators::carry_over(*shown, failed);
  failed.coverage = shown->coverage;
  failed.policy = shown->policy;
  failed.policy_kind = shown->policy_kind;
  failed.differences = shown->differences;
  if (shown->status == Status::kPartial) {
    failed.reasons.push_back(comparators::Phrase(
        "dump-of-failed", {{"what", comparators::Phrases{shown->reasons.front()}}}));
  } else if (shown->runs.at(1).status == "partial" && shown->coverage.candidate_ops > 0) {
    failed.reasons.push_back(
        comparators::Phrase("failed-compared-up-to", {{"op", shown->coverage.candidate_ops - 1}}));
  }
}

core::Error interrupted_after(const Report& report, const core::Error& error) {
  return {error.kind(),
          error.what(),
          "the first pair of runs had ended: " + cmd::headline(report) + "; it is kept in " +
              report.runs[0].location + " and " + report.runs[1].location};
}

/// A second pair that looked at one rank says nothing of the others: what the first said stays.
void keep_ranks(const Report& first, Report& closer) {
  closer.ranks = first.ranks;
  closer.rank_divergences = first.rank_divergences;
  name_statuses(first.also, closer);
}

/// @param before  what a first round said of the same jobs; empty in a first round
Round record_and_judge(const std::vector<RecordingJob>& jobs,
                       const comparators::CompareOptions& options,
                       const std::string& note,
                       const Estimates& estimates,
                       Progress& progress,
                       const std::vector<Report>& before = {}) {
  Round round;
  round.results = record_all(jobs, note, estimates, progress);
  if (round.failed()) {
    const std::vector<Report> left = judge_what_is_left(jobs, round.results, options);
    const Report* shown = telling(left);
    round.reports = {failed_run_report(
        round.results, names_after(jobs, round.results.size()), shown != nullptr)};
    add_what_is_left(shown, round.reports.front());
    return round;
  }
  progress.stage("comparing");
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    progress.begin(i, jobs.size() - 1, jobs[i].run.name + note);
    const auto alone = before.empty() ? std::nullopt : rank_of(before[i - 1]);
    round.reports.push_back(judge_by_first(jobs.front(), jobs[i], options, alone));
    if (alone) keep_ranks(before[i - 1], round.reports.back());
  }
  progress.clear();
  return round;
}

/// Records the jobs again, to see more than `before` shows, whose dumps were set aside.
Round record_again(Round before,
                   const std::vector<RecordingJob>& jobs,
                   const comparators::CompareOptions& options,
                   const std::string& note,
                   const Estimates& estimates,
                   Progress& progress) {
  Round round;
  try {
    round = record_and_judge(jobs, options, note, estimates, progress, before.reports);
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kInterrupted) throw;
    throw interrupted_after(first_diverged(before.reports), error);
  }
  if (round.failed()) {
    round.reports = {
        comparators::settle(first_diverged(before.reports), std::move(round.reports.front()))};
    return round;
  }
  for (std::size_t i = 0; i < round.reports.size(); ++i) {
    round.reports[i] =
        comparators::settle(std::move(before.reports[i]), std::move(round.reports[i]));
  }
  return round;
}

/// After a round of digests: records the values around the first divergences.
Round look_closer(Round digests,
                  std::vector<RecordingJob> jobs,
                  const comparators::CompareOptions& options,
                  std::uint64_t window,
                  Progress& progress) {
  const comparators::MissingValues missing = comparators::missing_values(digests.reports, window);
  if (missing.operators.empty()) {
    for (Report& report : digests.reports) report = comparators::settle(std::move(report));
    return digests;
  }
  log_info("the runs diverged: recording them again with values of " +
           core::describe(missing.operators));
  keep_digests(jobs, digests.reports);
  ask_for_values(jobs, missing);
  Estimates estimates;
  for (const RecordingJob& job : jobs) {
    estimates.push_back(estimate_values(digest_directory(job.dump), job, missing.operators));
  }
  return record_again(std::move(digests), jobs, options, ", values", estimates, progress);
}

/// The same jobs, which record the blocks of their programs.
std::vector<RecordingJob> of_blocks(std::vector<RecordingJob> jobs) {
  for (RecordingJob& job : jobs) job.run.dump.depth = core::DumpDepth::kBlocks;
  return jobs;
}

/// Jobs that record what follows blocks: operators.
std::vector<RecordingJob> of_operators(std::vector<RecordingJob> jobs) {
  for (RecordingJob& job : jobs) {
    job.run.dump.depth = core::DumpDepth::kTop;
    job.run.dump.blocks.clear();
    job.run.dump.every = 0;
  }
  return jobs;
}

/// Whether that is all that can be said of blocks: a pass, or a place where they diverged. Of a
/// backward pass they show nothing but what a step of an optimizer makes of it.
bool is_decided(const Report& report) {
  if (report.status == Status::kDiverged) return report.first_divergence.has_value();
  return report.status == Status::kReproducible &&
         (!report.blocks || report.blocks->losses == 0 || report.blocks->updates > 0);
}

/// After a round of blocks: records the operators of the steps in which the first divergences
/// began, with their values; of what is large the first elements.
Round look_inside(Round blocks,
                  std::vector<RecordingJob> jobs,
                  const comparators::CompareOptions& options,
                  Progress& progress) {
  constexpr std::uint64_t kStoredWhole = std::uint64_t{1} << 20U;
  constexpr std::uint64_t kElements = std::uint64_t{1} << 16U;
  core::OpRanges steps;
  for (const Report& report : blocks.reports) {
    if (report.status != Status::kDiverged) continue;
    steps.push_back(comparators::steps_to_open(report));
  }
  if (steps.empty()) return blocks;
  steps = core::united(std::move(steps));
  log_info("the runs diverged: recording them again with the operators of " +
           core::describe(steps, "step"));
  keep_digests(jobs, blocks.reports);
  jobs = of_operators(std::move(jobs));
  ask_for_values(jobs, {});
  for (RecordingJob& job : jobs) {
    job.run.dump.steps = steps;
    job.run.dump.keep_steps = steps;
    if (!job.run.dump.slice) job.run.dump.slice = core::SliceRule{kElements, 1, kStoredWhole};
  }
  return record_again(std::move(blocks), jobs, options, ", operators", {}, progress);
}

/// The round that decides whether there is another one: of blocks where the plan says so and they
/// show something, else of operators.
Round record_first(const RunPlan& plan, Progress& progress) {
  const std::vector<RecordingJob>& jobs = plan.jobs;
  if (!plan.blocks_first) return record_and_judge(jobs, plan.options, "", {}, progress);
  std::string why;
  try {
    Round round = record_and_judge(of_blocks(jobs), plan.options, ", blocks", {}, progress);
    const auto open = std::ranges::find_if_not(round.reports, is_decided);
    if (round.failed() || open == round.reports.end()) return round;
    why = cmd::headline(*open);
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kNotComparable) throw;
    why = error.what();
  }
  log_info("blocks do not tell (" + why + "): recording the runs again with operators");
  std::vector<RecordingJob> again = of_operators(jobs);
  for (RecordingJob& job : again) job.replace_existing = true;
  return record_and_judge(again, plan.options, "", {}, progress);
}

/// What a divergence of the first round is looked at with.
Round go_on(Round round,
            const std::vector<RecordingJob>& jobs,
            const RunPlan& plan,
            Progress& progress) {
  if (!plan.digests_first) return round;
  const auto& reports = round.reports;
  if (std::ranges::any_of(reports, [](const Report& report) { return report.blocks.has_value(); }))
    return look_inside(std::move(round), jobs, plan.options, progress);
  return look_closer(std::move(round), of_operators(jobs), plan.options, plan.window, progress);
}

RepeatSummary summarise(const std::vector<Report>& reports, comparators::OpRepeatability ops) {
  RepeatSummary summary;
  const comparators::RunSummary& first = reports.front().runs.front();
  summary.runs.push_back({first.name, first.location, "", {}});
  for (const Report& report : reports) {
    const comparators::RunSummary& run = report.runs.at(1);
    comparators::RepeatedRun item{run.name, run.location, std::string(word_of(report.status)), {}};
    if (report.first_divergence) item.first_divergence = report.first_divergence->baseline_index;
    summary.runs.push_back(std::move(item));
    const bool differs = report.status == Status::kDiverged;
    if (differs || report.status == Status::kReproducible) ++summary.judged;
    if (differs) ++summary.differing;
    if (std::ranges::any_of(report.differences, &comparators::Difference::affects_numbers)) {
      summary.alike = false;
    }
  }
  summary.ops = std::move(ops);
  return summary;
}

std::vector<std::filesystem::path> dumps_of(std::span<const RecordingJob> jobs) {
  std::vector<std::filesystem::path> dumps;
  for (const RecordingJob& job : jobs) dumps.push_back(job.dump);
  return dumps;
}

/// What the runs before one that failed say; an empty status where they are too few.
void add_what_was_seen(const RunPlan& plan, Round& round) {
  const std::size_t whole = round.results.size() - 1;
  if (whole < 2) return;
  const std::span<const RecordingJob> jobs(plan.jobs.data(), whole);
  std::vector<Report> reports;
  for (const RecordingJob& job : jobs.subspan(1)) {
    reports.push_back(judge_by_first(jobs.front(), job, plan.options));
  }
  const Report seen =
      sum_up(std::move(reports),
             assess_dumps(dumps_of(jobs), references_of(jobs.front()), plan.options.max_items));
  Report& failed = round.reports.front();
  const bool known = std::ranges::find(failed.also, Status::kDiverged) != failed.also.end();
  add_to(seen, failed);
  // The numbers go with the divergence that is shown.
  if (!known) {
    failed.coverage = seen.coverage;
    failed.policy = seen.policy;
    failed.policy_kind = seen.policy_kind;
  }
  failed.repeat = seen.repeat;
}

/// The run that a summed up report is about.
std::size_t shown_run(const std::vector<RecordingJob>& jobs, const Report& report) {
  const auto found = std::ranges::find_if(
      jobs, [&](const RecordingJob& job) { return job.made(report.runs.at(1).location); });
  return static_cast<std::size_t>(found - jobs.begin());
}

/// Records all runs, each in a process of its own, judges each by the first, and records the values
/// of two of them, the first and one that differs from it, where digests were recorded first.
/// @return one report; when a run failed, with what the runs before it show
Round record_repeats(const RunPlan& plan, Progress& progress) {
  Round round = record_first(plan, progress);
  if (round.failed()) {
    add_what_was_seen(plan, round);
    return round;
  }
  const RecordingJob& first = plan.jobs.front();
  Report all =
      sum_up(std::move(round.reports),
             assess_dumps(dumps_of(plan.jobs), references_of(first), plan.options.max_items));
  std::ranges::for_each(plan.jobs, discard_aside);
  const std::size_t other = shown_run(plan.jobs, all);
  Round pair;
  pair.results = {std::move(round.results.front()), std::move(round.results.at(other))};
  // Of all of them, not of the pair that is looked at closer.
  const std::optional<RepeatSummary> summary = std::exchange(all.repeat, std::nullopt);
  const std::vector<Status> also = all.also;
  pair.reports.push_back(std::move(all));
  pair = go_on(std::move(pair), {first, plan.jobs.at(other)}, plan, progress);
  Report& report = pair.reports.front();
  name_statuses(also, report);
  report.repeat = summary;
  return pair;
}

/// From 1; none where the files are equal, or are not there.
std::optional<std::size_t> first_other_line(const std::filesystem::path& one,
                                            const std::filesystem::path& other) {
  std::array<std::ifstream, 2> files{std::ifstream(one), std::ifstream(other)};
  if (!files[0] || !files[1]) return std::nullopt;
  std::array<std::string, 2> lines;
  for (std::size_t number = 1;; ++number) {
    const bool more = static_cast<bool>(std::getline(files[0], lines[0]));
    const bool other_more = static_cast<bool>(std::getline(files[1], lines[1]));
    if (more != other_more || (more && lines[0] != lines[1])) return number;
    if (!more) return std::nullopt;
  }
}

/// A pass is one of operators: what programs print is not compared, and may be a time as well as a
/// number that was computed elsewhere.
void tell_of_printing(const std::vector<RecordingJob>& jobs, const std::vector<Report>& reports) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const RecordingJob& job = jobs[i + 1];
    if (reports[i].status != Status::kReproducible || !job.run.program) continue;
    if (const auto line = first_other_line(jobs.front().log(), job.log())) {
      log_info(fmt::format(
          "the programs' printed output differs, and is not compared: line {} of {}, {}",
          *line,
          jobs.front().log().string(),
          job.log().string()));
    }
  }
}

/// Every run is one of its own, and gets a report of its own.
Round record_each(const RunPlan& plan, Progress& progress) {
  Round round = record_first(plan, progress);
  if (round.failed()) return round;
  tell_of_printing(plan.jobs, round.reports);
  std::ranges::for_each(plan.jobs, discard_aside);
  return go_on(std::move(round), plan.jobs, plan, progress);
}

}  // namespace

void ask_for_values(std::vector<RecordingJob>& jobs, const comparators::MissingValues& missing) {
  for (RecordingJob& job : jobs) {
    job.run.dump.level = core::DumpLevel::kTensor;
    job.run.dump.keep_ops = missing.operators;
    job.run.dump.open_steps = missing.steps;
    job.replace_existing = false;
  }
}

std::vector<std::filesystem::path> references_of(const RecordingJob& job) {
  if (!job.run.dump.reference) return {};
  return {*job.run.dump.reference};
}

bool starts_with_digests(const configs::Config& config) {
  return config.recording.level != configs::LevelChoice::kFixed &&
         comparators::can_start_with_digests(config.compare);
}

bool starts_with_blocks(const configs::Config& config) {
  const auto takes_blocks = [&](const configs::RunSpec& run) {
    const bool is_left_open =
        run.dump.depth == core::DumpDepth::kTop && !config.recording.names_depth;
    return (is_left_open || run.dump.depth == core::DumpDepth::kBlocks) && run.dump.steps.empty() &&
           !configs::needs_operators(run);
  };
  return starts_with_digests(config) && comparators::can_start_with_blocks(config.compare) &&
         std::ranges::all_of(config.runs, takes_blocks);
}

comparators::OpRepeatability assess_dumps(const std::vector<std::filesystem::path>& dumps,
                                          const std::vector<std::filesystem::path>& references,
                                          std::size_t max_items) {
  std::vector<std::unique_ptr<core::DumpSource>> opened;
  std::vector<std::string> notes;
  std::vector<std::filesystem::path> places = references;
  places.push_back(dumps.front());
  for (const std::filesystem::path& dump : dumps) {
    if (opened.size() == comparators::kMostAssessed) break;
    try {
      opened.push_back(open_own(dump, places));
    } catch (const core::Error& error) {
      // Whoever compares the dump says so in the verdict.
      if (!unreadable_dump(dump, error)) throw;
      notes.emplace_back(error.what());
      if (opened.empty()) break;
    }
  }
  std::vector<const core::DumpSource*> sources;
  sources.reserve(opened.size());
  for (const auto& source : opened) sources.push_back(source.get());
  comparators::OpRepeatability ops = comparators::assess_ops(sources, max_items);
  if (dumps.size() > comparators::kMostAssessed) {
    notes.push_back("operators of the first " + std::to_string(comparators::kMostAssessed) +
                    " runs were assessed");
  }
  ops.notes.insert(ops.notes.begin(), notes.begin(), notes.end());
  return ops;
}

Report sum_up(std::vector<Report> reports, comparators::OpRepeatability ops) {
  RepeatSummary summary = summarise(reports, std::move(ops));
  put_worst_first(reports);
  Report report = std::move(reports.front());
  for (const Report& other : std::span(reports).subspan(1)) add_to(other, report);
  report.repeat = std::move(summary);
  return report;
}

std::vector<std::filesystem::path> output_directories(const configs::Config& config) {
  std::vector<std::filesystem::path> directories;
  for (const configs::RunSpec& run : config.runs) directories.push_back(run.dump.directory);
  return directories;
}

void discard_earlier(const std::vector<RecordingJob>& jobs, RunOutputs& outputs) {
  std::vector<std::filesystem::path> kept;
  for (const RecordingJob& job : jobs) {
    kept.push_back(job.dump);
    kept.push_back(digest_directory(job.dump));
    if (job.run.dump.reference) kept.push_back(*job.run.dump.reference);
  }
  outputs.discard_others(kept);
  for (const std::filesystem::path& directory : outputs.used_before()) remove_reports(directory);
}

std::vector<RecordingJob> plan_jobs(
    const configs::Config& config,
    bool digests_first,
    const std::function<bool(const std::filesystem::path&)>& may_replace) {
  std::vector<RecordingJob> jobs;
  for (const configs::RunSpec& run : config.runs) {
    RecordingJob job;
    job.run = run;
    job.dump = from_here(config.dump_directory(run));
    job.replace_existing = may_replace(job.dump);
    job.replace_aside = may_replace(digest_directory(job.dump));
    require_free(job);
    if (digests_first) job.run.dump.level = core::DumpLevel::kDigest;
    if (digests_first || job.replace_aside) require_free_aside(job);
    // Found now, so that a missing one does not show after the first run was recorded.
    require_recorder_of(run);
    jobs.push_back(std::move(job));
  }
  std::vector<RecordingJob> with_values = jobs;
  if (digests_first) ask_for_values(with_values, {});
  require_references(with_values);
  return jobs;
}

Round record_runs(const configs::Config& config, const RunPlan& plan, Progress& progress) {
  return config.repeat > 2 ? record_repeats(plan, progress) : record_each(plan, progress);
}

}  // namespace repro_check::cmd
