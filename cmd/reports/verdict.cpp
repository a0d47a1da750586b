// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/verdict.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <utility>

#include "cmd/recording/output_lock.h"
#include "cmd/recording/recording.h"
#include "cmd/recording/source_files.h"
#include "cmd/reports/process_pairs.h"
#include "cmd/terminal/output.h"
#include "cmd/words/causes.h"
#include "cmd/words/report_words.h"
#include "comparators/align/any_order.h"
#include "comparators/runs/second_pair.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {
namespace {

/// What keeps a dump from being opened, as a status of the report and of the run. The last of them
/// is about another dump than the one that was recorded, which a single one cannot be.
struct Obstacle {
  core::ErrorKind kind;
  Status status;
  const char* state;
};
constexpr std::array kObstacles{
    Obstacle{core::ErrorKind::kDumpIncomplete, Status::kIncomplete, "incomplete"},
    Obstacle{core::ErrorKind::kDumpDamaged, Status::kDamaged, "damaged"},
    Obstacle{core::ErrorKind::kDumpUnknown, Status::kDamaged, "unreadable"},
    Obstacle{core::ErrorKind::kRunFailed, Status::kRunFailed, "failed"},
};

/// Null for what says nothing of a dump.
const Obstacle* obstacle_of(core::ErrorKind kind) {
  const auto* found = std::ranges::find(kObstacles, kind, &Obstacle::kind);
  return found == kObstacles.end() ? nullptr : found;
}

/// One side of a comparison: a dump, or why there is none.
struct Side {
  std::unique_ptr<core::DumpSource> dump;
  std::optional<core::Error> error;
};

core::ExitCode print(const Report& report, const ReportStyle& style) {
  write_stdout(render_reports({&report, 1}, style));
  return worst_exit({&report, 1});
}

/// Half a recording is never taken for a whole one, unless that is asked for.
void expect_whole(const core::DumpSource& dump) {
  if (!comparators::is_cut_short(dump)) return;
  throw core::incomplete_dump(
      fmt::format(
          "{}: a partial recording: {}", dump.location(), dump.manifest().trace.partial->reason),
      "add --partial to compare the recorded part, or record the run again");
}

std::unique_ptr<core::DumpSource> open_either(const std::filesystem::path& path,
                                              const OpenOptions& opening) {
  if (opening.partial) return store::open_partial(path, opening.references);
  if (!store::is_pack(path)) return store::open_dump(path, opening.references);
  return store::open_pack(path, opening.references, opening.unpacking);
}

Side open_side(const std::filesystem::path& directory,
               const std::filesystem::path& other,
               OpenOptions opening) {
  Side side;
  opening.references.push_back(other);
  try {
    side.dump = open_either(directory, opening);
    expect_own(*side.dump, directory);
    if (!opening.partial) expect_whole(*side.dump);
  } catch (const core::Error& error) {
    if (obstacle_of(error.kind()) == nullptr) throw;
    if (opening.named) store::refuse_bare_folder(directory, error);
    side.dump.reset();
    side.error = error;
  }
  return side;
}

std::string name_of(const std::filesystem::path& directory) {
  std::filesystem::path last = directory.filename();
  if (last.empty()) last = directory.parent_path().filename();
  return last.string();
}

RunSummary summarise(const std::filesystem::path& directory, const Side& side) {
  RunSummary summary;
  summary.location = directory.string();
  if (side.dump) {
    summary.manifest = side.dump->manifest();
    summary.name = summary.manifest.run_name;
    return summary;
  }
  summary.name = name_of(directory);
  summary.message = side.error->what();
  summary.status = obstacle_of(side.error->kind())->state;
  if (side.error->kind() == core::ErrorKind::kDumpIncomplete) {
    if (const auto reached = store::summarise_incomplete(directory)) {
      summary.last_op = reached->entered ? reached->entered : reached->last;
    }
  }
  return summary;
}

void add_failure(Report& report, const core::Error& error) {
  const Status status = obstacle_of(error.kind())->status;
  if (report.reasons.empty()) {
    report.status = status;
  } else if (status != report.status) {
    // The worse news of the two first: an unfinished recording can simply be made again.
    const bool is_worse = status == Status::kRunFailed ||
                          (status == Status::kDamaged && report.status != Status::kRunFailed);
    if (is_worse)
      std::swap(report.status, report.also.emplace_back(status));
    else
      report.also.push_back(status);
  }
  report.reasons.push_back(as_said(error.what()));
  if (mend_of(report).empty()) report.mend = as_said(error.hint());
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

int rank(core::ExitCode code) {
  constexpr std::array<core::ExitCode, 5> kFromBest{core::ExitCode::kReproducible,
                                                    core::ExitCode::kNotComparable,
                                                    core::ExitCode::kDivergence,
                                                    core::ExitCode::kDumpUnusable,
                                                    core::ExitCode::kRunFailed};
  const auto* found = std::find(kFromBest.begin(), kFromBest.end(), code);
  return static_cast<int>(found - kFromBest.begin());
}

}  // namespace

namespace {

/// Of two dumps alone.
/// Reads the line of source at the first divergence, where the file is as it was recorded.
void add_code(Report& report) {
  if (!report.first_divergence || report.runs.size() < 2) return;
  comparators::OpDivergence& op = *report.first_divergence;
  const core::OpRecord& record = comparators::shown_record(op);
  const auto* frame = record.site ? core::display_frame(*record.site) : nullptr;
  if (frame == nullptr) return;
  op.code = source_line(report.runs[op.baseline_index ? 0 : 1].manifest.sources, *frame);
}

Report judge_pair(const std::filesystem::path& baseline,
                  const std::filesystem::path& candidate,
                  const comparators::CompareOptions& options,
                  const OpenOptions& opening) {
  const auto start = std::chrono::steady_clock::now();
  const Side first = open_side(baseline, candidate, opening);
  const Side second = open_side(candidate, baseline, opening);
  Report report;
  if (first.dump && second.dump) {
    report = comparators::compare(*first.dump, *second.dump, options);
    add_code(report);
  } else {
    report.runs = {summarise(baseline, first), summarise(candidate, second)};
    if (first.error) add_failure(report, *first.error);
    if (second.error) add_failure(report, *second.error);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

/// What keeps the verdict from being a pass, whatever was compared.
void add_reasons(comparators::Phrases reasons, Report& report) {
  if (reasons.empty()) return;
  if (report.status == Status::kReproducible) {
    report.status = Status::kNotComparable;
  } else {
    const Status also = Status::kNotComparable;
    name_statuses({&also, 1}, report);
  }
  append(std::move(reasons), report.reasons);
  if (mend_of(report).empty()) report.mend = comparators::Phrase("do-record-same-processes");
}

/// The dumps of the workers of pools of one side; empty where one of them cannot be opened.
std::optional<comparators::Processes> open_workers(const std::vector<core::ChildProcess>& processes,
                                                   const std::filesystem::path& dump,
                                                   const OpenOptions& opening) {
  comparators::Processes workers;
  for (const core::ChildProcess& process : processes) {
    if (!process.pool) continue;
    Side side = open_side(dump / process.name, dump, opening);
    if (!side.dump) return std::nullopt;
    workers.push_back(std::move(side.dump));
  }
  return workers;
}

/// Takes the workers of pools out of both sides where they did the same, whichever did what.
/// @return how many records they have; empty where they stay
std::optional<std::uint64_t> take_equal_pools(std::array<std::vector<core::ChildProcess>, 2>& sides,
                                              const Report& report,
                                              const OpenOptions& opening) {
  const auto here = open_workers(sides[0], report.runs[0].location, opening);
  const auto there = open_workers(sides[1], report.runs[1].location, opening);
  if (!here || !there || here->empty()) return std::nullopt;
  const auto same = comparators::same_in_any_order(*here, *there);
  if (!same) return std::nullopt;
  for (auto& side : sides) std::erase_if(side, [](const auto& process) { return process.pool; });
  return same;
}

/// A launcher has no numbers, which is no reason to refuse those of the processes that it started.
void drop_without_numbers(std::vector<Report>& reports) {
  const auto has_none = [](const Report& each) {
    return each.numbers && each.numbers->judged.empty() &&
           each.status == Status::kNothingCompared && each.also.empty();
  };
  if (!std::ranges::all_of(reports, has_none)) std::erase_if(reports, has_none);
}

/// A launcher trains in another process: then that is the one that went on from the checkpoint.
/// @param first  of the processes that were started
Report judge_resumed(Report first,
                     const ProcessPairs& others,
                     const comparators::CompareOptions& options,
                     const OpenOptions& opening) {
  std::vector<Report> met;
  for (const ProcessPair& pair : others.pairs) {
    if (first.resume) break;
    Report other = judge_pair(std::filesystem::path(first.runs[0].location) / pair.baseline,
                              std::filesystem::path(first.runs[1].location) / pair.candidate,
                              options,
                              opening);
    if (!other.resume) continue;
    other.warnings.push_back(comparators::Phrase("went-on-from-checkpoint",
                                                 {{"process", pair.baseline}, {"how", pair.how}}));
    met.push_back(std::move(other));
  }
  if (met.empty()) {
    first.warnings.emplace_back("processes-not-compared");
    return first;
  }
  put_worst_first(met);
  return std::move(met.front());
}

}  // namespace

Report judge(const std::filesystem::path& baseline,
             const std::filesystem::path& candidate,
             const comparators::CompareOptions& options,
             const OpenOptions& opening) {
  std::vector<Report> reports{judge_pair(baseline, candidate, options, opening)};
  if (reports.front().runs.size() < 2) return std::move(reports.front());
  OpenOptions inside = opening;
  inside.named = false;
  std::array sides{reports.front().runs[0].manifest.processes,
                   reports.front().runs[1].manifest.processes};
  if (const auto records = take_equal_pools(sides, reports.front(), inside)) {
    reports.front().warnings.push_back(
        comparators::Phrase("pools-equal", {{"operators", static_cast<std::int64_t>(*records)}}));
  }
  ProcessPairs found = pair_processes(sides[0], sides[1]);
  if (found.pairs.empty() && found.reasons.empty()) return std::move(reports.front());
  comparators::CompareOptions of_process = options;
  of_process.observer = {};
  of_process.fp64 = nullptr;
  if (options.spec.resume) {
    return judge_resumed(std::move(reports.front()), found, of_process, inside);
  }
  const std::filesystem::path here = reports.front().runs[0].location;
  const std::filesystem::path there = reports.front().runs[1].location;
  std::vector<std::string> compared;
  for (const ProcessPair& pair : found.pairs) {
    reports.push_back(judge_pair(here / pair.baseline, there / pair.candidate, of_process, inside));
    compared.push_back(
        fmt::format("{} ({}) {}", pair.baseline, pair.how, word_of(reports.back().status)));
    std::ranges::copy_if(reports.back().warnings,
                         std::back_inserter(reports.front().warnings),
                         [](const auto& warning) { return warning.key == "process-stopped"; });
  }
  drop_without_numbers(reports);
  put_worst_first(reports);
  Report lead = std::move(reports.front());
  for (auto other = reports.begin() + 1; other != reports.end(); ++other) add_to(*other, lead);
  if (!compared.empty()) {
    lead.warnings.push_back(comparators::Phrase("processes-compared", {{"processes", compared}}));
  }
  add_reasons(std::move(found.reasons), lead);
  return lead;
}

std::optional<Report> unreadable_dump(const std::filesystem::path& dump, const core::Error& error) {
  const Obstacle* obstacle = obstacle_of(error.kind());
  if (obstacle == nullptr || obstacle->status == Status::kRunFailed) return std::nullopt;
  Report report;
  report.runs = {summarise(dump, Side{nullptr, error})};
  add_failure(report, error);
  return report;
}

core::ExitCode worse(core::ExitCode left, core::ExitCode right) {
  return rank(right) > rank(left) ? right : left;
}

core::ExitCode worst_exit(std::span<const Report> reports) {
  core::ExitCode worst = core::ExitCode::kReproducible;
  for (const Report& report : reports) {
    worst = worse(worst, comparators::exit_code_of(report));
  }
  return worst;
}

void put_worst_first(std::vector<Report>& reports) {
  std::stable_sort(reports.begin(), reports.end(), [](const Report& left, const Report& right) {
    return rank(comparators::exit_code_of(left)) > rank(comparators::exit_code_of(right));
  });
}

void name_statuses(std::span<const Status> statuses, Report& report) {
  for (const Status status : statuses) {
    const bool is_known = status == Status::kReproducible || status == report.status ||
                          std::ranges::find(report.also, status) != report.also.end();
    if (!is_known) report.also.push_back(status);
  }
}

void add_to(const Report& other, Report& report) {
  carry_over(other, report);
  name_statuses({&other.status, 1}, report);
  name_statuses(other.also, report);
  report.seconds += other.seconds;
}

RenderOptions render_options(const GlobalOptions& globals, bool to_terminal) {
  RenderOptions options;
  options.verbosity = globals.quiet ? -1 : globals.verbosity;
  options.color = use_color(globals.color, to_terminal, &std::getenv);
  if (options.color && use_links(globals.color, to_terminal, &std::getenv))
    options.link_host = host_name();
  options.columns = text_columns(to_terminal, &std::getenv);
  options.pretty_json = to_terminal;
  options.hdf5_version = store::hdf5_version();
  return options;
}

std::string render_reports(std::span<const Report> reports, const ReportStyle& style) {
  return find_format(style.format)
      ->render(reports, DocumentOptions{style.options, "", "", "", false});
}

core::ExitCode report_unreadable(const std::filesystem::path& dump,
                                 const core::Error& error,
                                 const std::string& format,
                                 const GlobalOptions& globals) {
  const auto report = unreadable_dump(dump, error);
  if (!report) throw core::Error(error);
  return print(*report, {format, render_options(globals, stdout_is_terminal())});
}

core::ExitCode report_failed_run(const RecordingResult& failed,
                                 const std::string& config,
                                 const std::string& format,
                                 const GlobalOptions& globals) {
  ReportStyle style{format, render_options(globals, stdout_is_terminal())};
  style.options.config_path = config;
  style.options.logs = {failed.log};
  return print(failed_run_report({failed}, {}), style);
}

}  // namespace repro_check::cmd
