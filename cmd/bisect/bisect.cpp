// SPDX-License-Identifier: Apache-2.0
#include "cmd/bisect/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "cmd/recording/output_lock.h"
#include "cmd/recording/space.h"
#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/reports/rank_pairs.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"

namespace repro_check::cmd {
namespace {

using comparators::ItemSet;
using comparators::TrialOutcome;

constexpr const char* kLogFormat = "repro-check-bisect-log";
constexpr const char* kLogVersion = "1.0";

/// Thrown to leave the reduction when what everything rests on could not be judged.
struct NotJudged {
  Report report;
  RunLog log;
};

class Bisection {
 public:
  Bisection(const BisectPlan& plan, BisectLog& log, Progress& progress)
      : plan_(plan), log_(log), progress_(progress), taken_(log.trials().size(), false) {
    result_.known = log.trials().size();
  }

  BisectResult run() {
    try {
      record_baseline();
      run_trials();
    } catch (NotJudged& failure) {
      result_.status = BisectStatus::kNotJudged;
      result_.report = std::move(failure.report);
      result_.logs = {RunLog{}, std::move(failure.log)};
    }
    clean_up();
    return std::move(result_);
  }

 private:
  [[nodiscard]] RecordingJob job(const std::string& name, const ItemSet& items) const {
    RecordingJob job;
    job.run = plan_.baseline;
    for (const std::size_t item : items) plan_.items[item].apply(job.run);
    job.run.name = name;
    job.run.dump.level = plan_.level;
    job.dump = plan_.directory / name;
    job.replace_existing = true;
    return job;
  }

  [[nodiscard]] std::filesystem::path baseline_dump() const { return plan_.directory / "baseline"; }

  /// What a dump says it is; empty for one that cannot be read.
  static std::string identity(const std::filesystem::path& dump) {
    try {
      return core::to_hex(open_own(dump)->manifest().trace.index_digest);
    } catch (const core::Error& error) {
      if (core::exit_code_for(error.kind()) != core::ExitCode::kDumpUnusable) throw;
      return {};
    }
  }

  /// The trials of the log were compared with one recording: only that one will do.
  void record_baseline() {
    if (!log_.baseline().empty()) {
      if (identity(baseline_dump()) == log_.baseline()) return;
      throw core::usage_error(
          baseline_dump().string() +
              " is not the recording that the earlier trials were compared with",
          "start again with --force");
    }
    const RecordingJob baseline = job("baseline", {});
    progress_.begin(1, 0, "baseline");
    RecordingResult recorded = record_where_it_fits(baseline, {}, progress_);
    ++result_.recorded;
    if (!recorded.totals) throw NotJudged{failed_run_report({recorded}, {}), recorded.log};
    log_.note_baseline(identity(baseline.dump));
  }

  void run_trials() {
    ItemSet all(plan_.items.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (ask(all) != TrialOutcome::kShows && !result_.trials.back().is_flaky) {
      result_.status = BisectStatus::kReproducible;
      return;
    }
    if (ask({}) != TrialOutcome::kPasses) {
      result_.status = BisectStatus::kNotSettings;
      return;
    }
    result_.reduction = comparators::reduce(all, [&](const ItemSet& items) { return ask(items); });
    result_.status = BisectStatus::kReduced;
    ItemSet rest;
    std::ranges::set_difference(all, result_.reduction.items, std::back_inserter(rest));
    if (!rest.empty()) result_.rest = ask(rest);
  }

  TrialOutcome ask(const ItemSet& items) {
    for (const BisectTrial& trial : result_.trials) {
      if (trial.items == items) return trial.outcome;
    }
    BisectTrial trial;
    trial.items = items;
    std::vector<TrialOutcome> outcomes;
    for (std::uint64_t i = 0; i < plan_.times; ++i) {
      LoggedTrial logged = known_or_recorded(items);
      trial.headline = std::move(logged.headline);
      outcomes.push_back(logged.outcome);
    }
    const auto has = [&](TrialOutcome outcome) {
      return std::ranges::find(outcomes, outcome) != outcomes.end();
    };
    trial.is_flaky = has(TrialOutcome::kShows) && has(TrialOutcome::kPasses);
    const bool agree = std::ranges::count(outcomes, outcomes.front()) == std::ssize(outcomes);
    if (agree) trial.outcome = outcomes.front();
    result_.trials.push_back(trial);
    return trial.outcome;
  }

  LoggedTrial known_or_recorded(const ItemSet& items) {
    std::vector<std::string> changes;
    for (const std::size_t item : items) changes.push_back(plan_.items[item].pointer);
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      if (taken_[i] || log_.trials()[i].changes != changes) continue;
      taken_[i] = true;
      return log_.trials()[i];
    }
    LoggedTrial trial = record_trial(items);
    trial.changes = std::move(changes);
    log_.append(trial);
    return trial;
  }

  LoggedTrial record_trial(const ItemSet& items) {
    const RecordingJob trial = job("trial", items);
    const bool is_candidate = items.size() == plan_.items.size();
    ++trial_number_;
    progress_.begin(
        trial_number_,
        0,
        fmt::format("trial {}: {} of {} changed", trial_number_, items.size(), plan_.items.size()));
    ++result_.recorded;
    RecordingResult recorded;
    try {
      recorded = record_where_it_fits(
          trial, estimate_from(job("baseline", {}).run, baseline_dump(), trial.run), progress_);
    } catch (const core::Error& error) {
      // Settings that contradict each other are no trial; all of them together are the user's.
      if (error.kind() != core::ErrorKind::kUsage || is_candidate || items.empty()) throw;
      return {{}, TrialOutcome::kUnresolved, error.what()};
    }
    if (!recorded.totals) {
      const Report failed = failed_run_report({recorded}, {});
      if (is_candidate || items.empty()) throw NotJudged{failed, recorded.log};
      return {{}, TrialOutcome::kUnresolved, headline(failed)};
    }
    progress_.stage("comparing");
    Report report = judge_runs(baseline_dump(), trial.dump, plan_.options);
    progress_.clear();
    TrialOutcome outcome = TrialOutcome::kUnresolved;
    if (report.status == Status::kDiverged) outcome = TrialOutcome::kShows;
    if (report.status == Status::kReproducible) outcome = TrialOutcome::kPasses;
    const bool is_decided = outcome != TrialOutcome::kUnresolved;
    if (!is_decided && (is_candidate || items.empty())) {
      throw NotJudged{std::move(report), recorded.log};
    }
    return {{}, outcome, headline(report)};
  }

  void clean_up() const {
    if (result_.status != BisectStatus::kNotJudged) discard_with_log(plan_.directory / "trial");
  }

  const BisectPlan& plan_;
  BisectLog& log_;
  Progress& progress_;
  std::vector<bool> taken_;  ///< trials of the log that have been used
  std::uint64_t trial_number_ = 0;
  BisectResult result_;
};

}  // namespace

DESCRIBE(LoggedTrial, MEMBER(changes) MEMBER(outcome) MEMBER(headline))

BisectLog::BisectLog(std::filesystem::path file, std::string key)
    : file_(std::move(file)), key_(std::move(key)) {
  std::error_code error;
  if (std::filesystem::exists(file_, error)) read();
  if (resumed_) return;
  write_line({{"format", kLogFormat}, {"version", kLogVersion}, {"key", key_}});
}

void BisectLog::read() {
  const std::string text = read_text_file(file_);
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (whole != text.size()) {
    std::error_code error;
    std::filesystem::resize_file(file_, whole, error);
    if (error) {
      throw core::io_error("cannot write " + file_.string() + ": " + error.message());
    }
    log_info(file_.string() + ": removed a line that was not written to its end");
  }
  std::size_t number = 0;
  std::istringstream lines(text.substr(0, whole));
  for (std::string line; std::getline(lines, line);) take_line(line, ++number);
  resumed_ = number != 0;
}

void BisectLog::take_line(const std::string& line, std::size_t number) {
  const Json json = Json::parse(line, nullptr, false);
  const std::string where = "line " + std::to_string(number);
  if (!json.is_object()) refuse(where + " is not a JSON object");
  try {
    if (number == 1) {
      if (json.value("format", "") != kLogFormat) refuse("it is not a log of bisect");
      if (json.value("version", "") != kLogVersion) refuse("it is of another version");
      if (json.value("key", "") != key_) {
        refuse("it belongs to another configuration, or a model or input file has changed since");
      }
    } else if (json.contains("baseline")) {
      baseline_ = json.at("baseline").get<std::string>();
    } else {
      describe(JsonReader(json), trials_.emplace_back());
    }
  } catch (const Json::exception&) {
    refuse(where + " is not what a bisect writes");
  } catch (const std::invalid_argument&) {
    refuse(where + " is not what a bisect writes");
  }
}

void BisectLog::note_baseline(const std::string& digest) {
  baseline_ = digest;
  write_line({{"baseline", digest}});
}

void BisectLog::append(const LoggedTrial& trial) {
  trials_.push_back({trial.changes, trial.outcome, clean_utf8(trial.headline)});
  write_line(json_of(trials_.back()));
}

void BisectLog::write_line(const Json& line) {
  std::ofstream stream(file_, std::ios::binary | std::ios::app);
  stream << to_document(line, false) << std::flush;
  if (!stream) {
    throw core::io_error("cannot write " + file_.string(),
                         "is the disk full? the bisect goes on from here when it is run again");
  }
}

void BisectLog::refuse(const std::string& why) const {
  throw core::usage_error(file_.string() + " cannot be continued: " + why,
                          "start again with --force, or in another directory with --out");
}

bool BisectResult::is_flaky() const noexcept {
  return status == BisectStatus::kNotSettings ||
         std::ranges::any_of(trials, &BisectTrial::is_flaky);
}

BisectResult bisect(const BisectPlan& plan, BisectLog& log, Progress& progress) {
  return Bisection(plan, log, progress).run();
}

core::ExitCode exit_code_of(const BisectResult& result) noexcept {
  switch (result.status) {
    case BisectStatus::kReproducible:
      return core::ExitCode::kReproducible;
    case BisectStatus::kReduced:
    case BisectStatus::kNotSettings:
      return core::ExitCode::kDivergence;
    case BisectStatus::kNotJudged:
      break;
  }
  return result.report ? comparators::exit_code_of(*result.report) : core::ExitCode::kInternal;
}

}  // namespace repro_check::cmd
