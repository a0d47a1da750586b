// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/recording.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>

#include "cmd/recording/kit.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/program_recording.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "cmd/words/causes.h"
#include "configs/spec/run_config.h"
#include "core/error.h"
#include "core/text/secrets.h"
#include "core/text/text.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/store/directory/dump_directory.h"

namespace repro_check::cmd {
namespace {

using comparators::Report;
using comparators::Status;

/// The line of a log that says how the program ended: the last that is neither empty nor indented,
/// as the recorder's hints are. Where a launcher of several ranks has drawn its table behind what
/// they said, the exception of the first that had one. Only the end of the file is read.
std::string last_words(const std::filesystem::path& file) {
  constexpr std::streamoff kTail = std::streamoff{1} << 16U;
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(0, std::ios::end);
  const std::streamoff size = stream.tellg();
  if (!stream || size <= 0) return {};
  stream.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string last;
  std::string indented;
  std::string of_rank;
  for (std::string line; std::getline(stream, line);) {
    line.erase(line.find_last_not_of("\r \t") + 1);
    if (line.empty()) continue;
    (line.starts_with("  ") ? indented : last) = line;
    const std::size_t said = line.starts_with("[rank") ? line.find("]: ") : std::string::npos;
    if (said == std::string::npos || !of_rank.empty()) continue;
    const std::string_view text = std::string_view(line).substr(said + 3);
    if (!text.starts_with(' ') && !text.starts_with("Traceback ")) of_rank = line;
  }
  if (last.find_first_not_of("=-") == std::string::npos && !of_rank.empty()) return of_rank;
  return last.empty() ? indented : last;
}

struct Unfinished {
  std::filesystem::path directory;
  journal::JournalSummary summary;
};

/// A replacement is recorded beside the dump it replaces.
std::array<std::filesystem::path, 2> working_places(const RecordingJob& job) {
  return {store::recording_beside(job.dump), job.dump};
}

/// When the journals in working_places() were written last.
using JournalTimes = std::array<std::optional<std::filesystem::file_time_type>, 2>;

JournalTimes journal_times(const RecordingJob& job) {
  JournalTimes times;
  const auto places = working_places(job);
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(places[i] / store::kJournalName, error);
    if (!error) times[i] = time;
  }
  return times;
}

/// What an unfinished recording of this job reached.
/// @param before  the times from before the recorder was started: a journal that nobody has touched
///                since is what an earlier command left
std::optional<Unfinished> reached(const RecordingJob& job, const JournalTimes& before) {
  const auto places = working_places(job);
  const JournalTimes now = journal_times(job);
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::error_code ignored;
    const bool is_whole = std::filesystem::exists(places[i] / store::kManifestName, ignored);
    if (!now[i] || now[i] == before[i] || is_whole) continue;
    try {
      return Unfinished{places[i], journal::summarise(places[i] / store::kJournalName)};
    } catch (const core::Error& error) {
      log_warning("the dump of the failed run cannot be read: " + std::string(error.what()));
    }
  }
  return std::nullopt;
}

std::string op_text(std::uint64_t index, const std::string& description) {
  return "op " + std::to_string(index) + (description.empty() ? "" : " " + description);
}

/// `was killed by SIGSEGV` plus where, for failures that could not say it themselves.
std::string where_text(const std::optional<Unfinished>& recording) {
  if (!recording) return " before the first operator";
  const journal::JournalSummary& summary = recording->summary;
  if (summary.entered) return " in " + op_text(*summary.entered, summary.entered_operator);
  if (summary.last) return " after " + op_text(*summary.last, summary.last_operator);
  return " before the first operator";
}

void describe_failure(const RecordingJob& job,
                      const RecorderOutcome& outcome,
                      const JournalTimes& before,
                      RecordingResult& result) {
  const RecorderFailure& failure = *outcome.failure;
  comparators::RunSummary& summary = result.summary;
  const std::optional<Unfinished> recording = reached(job, before);
  // A recorder that could still speak has named the operator; one that could not has its journal.
  const bool spoke = outcome.signal.empty();
  summary.status = "failed";
  summary.signal = outcome.signal;
  const bool sees_operators = job.run.dump.depth != core::DumpDepth::kBlocks;
  summary.message = failure.message + (spoke || !sees_operators ? "" : where_text(recording));
  if (recording) {
    const journal::JournalSummary& progress = recording->summary;
    summary.last_op = progress.entered ? progress.entered : progress.last;
    if (progress.completed != 0) summary.unfinished = recording->directory.string();
  }
  result.hint = failure.hint;
  if (!spoke && !sees_operators) {
    result.hint = "to see which operator it was in, record operators: --set /dump/depth=top";
  }
}

/// Whatever else may come to lie in the place, what is judged is what this recorder made.
void take_ownership(const RecordingJob& job, RecorderOutcome& outcome) {
  if (!outcome.totals) return;
  if (outcome.totals->dump) return note_own(job.dump, *outcome.totals->dump);
  outcome.totals.reset();
  outcome.failure =
      RecorderFailure{core::ErrorKind::kRunFailed,
                      "the recorder did not name its dump",
                      "use a repro-check-recorder of the same version as repro-check"};
}

RecorderOutcome record_model(const configs::RecordRequest& asked,
                             const std::filesystem::path& log,
                             const std::function<void(const RecorderProgress&)>& on_progress) {
  const TemporaryFile request("repro-check-request");
  write_file(request.path(), configs::to_json_text(asked));
  RecorderCall call{require_recorder_of_model(asked.run.model.path, asked.run.recorder)};
  call.arguments.insert(call.arguments.end(), {"record", request.path().string()});
  call.environment = configs::pinned_environment(asked.run);
  if (asked.run.timeout) call.timeout = std::chrono::seconds(*asked.run.timeout);
  log_debug("starting " + call.program.string() + " for run " + asked.run.name);
  // A recorder in Python writes into a place that is free.
  if (is_onnx_model(asked.run.model.path) && asked.replace_existing)
    store::discard_recording(asked.dump);
  return run_recorder(call, log, on_progress);
}

void create_parent(const std::filesystem::path& directory, const std::filesystem::path& dump) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  // The log is made here beside the dump, before the recorder could say anything of the dump.
  if (!error && ::access(directory.c_str(), W_OK | X_OK) != 0) {
    const std::error_code why(errno, std::generic_category());
    throw core::usage_error(
        "cannot record " + dump.string() + ": " + directory.string() +
            " cannot be written: " + why.message(),
        "allow writing there (chmod u+w), or choose another directory with --out");
  }
  if (!error) return;
  throw core::usage_error("cannot create directory " + directory.string() + ": " + error.message(),
                          "choose another directory with --out");
}

}  // namespace

std::map<std::string, std::optional<std::string>> found_environment(const configs::RunSpec& run) {
  std::map<std::string, std::optional<std::string>> found;
  for (const auto& [name, pinned] : configs::pinned_environment(run)) {
    if (core::is_secret_name(name)) continue;
    const char* value = std::getenv(name.c_str());
    found[name] = value == nullptr ? std::nullopt : std::optional(core::printable(value));
  }
  return found;
}

void require_recorder_of(const configs::RunSpec& run) {
  if (run.program) {
    static_cast<void>(require_libexec());
  } else {
    static_cast<void>(require_recorder_of_model(run.model.path, run.recorder));
  }
}

void require_free(const RecordingJob& job) {
  std::error_code error;
  if (store::has_pack_name(job.dump) && !std::filesystem::is_directory(job.dump, error)) {
    throw core::usage_error(
        job.dump.string() + " is the name of a packed dump, and a recording is a " + "directory",
        std::string("leave ") + store::kPackSuffix +
            " out; `repro-check pack` packs it afterwards");
  }
  const bool exists = std::filesystem::exists(std::filesystem::symlink_status(job.dump, error));
  if (!exists || job.replace_existing) return;
  if (std::filesystem::is_directory(job.dump, error) &&
      std::filesystem::is_empty(job.dump, error) && !error) {
    return;
  }
  const bool whole = std::filesystem::exists(job.dump / "manifest.json", error);
  throw core::usage_error(job.dump.string() + (whole ? " holds a dump already" : " exists already"),
                          "replace it with --force, or record into another directory with --out");
}

void require_references(std::span<const RecordingJob> jobs) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const configs::DumpSpec& dump = jobs[i].run.dump;
    if (!dump.reference || dump.level != core::DumpLevel::kTensor) continue;
    bool is_made_here = false;
    for (std::size_t other = 0; other < jobs.size(); ++other) {
      if (!store::is_same_place(*dump.reference, jobs[other].dump)) continue;
      is_made_here = true;
      if (other <= i) break;
      throw core::usage_error("/dump/reference: is the dump of run \"" + jobs[other].run.name +
                                  "\", which is recorded after run \"" + jobs[i].run.name + "\"",
                              "refer to the dump of the first run");
    }
    if (!is_made_here) store::require_reference(*dump.reference);
  }
}

std::filesystem::path log_beside(std::filesystem::path dump) { return dump += ".log"; }

std::filesystem::path digest_directory(std::filesystem::path dump) { return dump += ".digest"; }

void require_free_aside(const RecordingJob& job) {
  RecordingJob aside = job;
  aside.dump = digest_directory(job.dump);
  aside.replace_existing = job.replace_aside;
  require_free(aside);
  if (job.replace_aside) store::require_discardable(aside.dump);
}

void discard_with_log(const std::filesystem::path& dump) {
  store::discard_recording(dump);
  std::error_code ignored;
  std::filesystem::remove(log_beside(dump), ignored);
}

void discard_aside(const RecordingJob& job) {
  if (job.replace_aside) discard_with_log(digest_directory(job.dump));
}

void set_aside(const RecordingJob& job) {
  const std::filesystem::path aside = digest_directory(job.dump);
  std::error_code error;
  if (std::filesystem::exists(job.log(), error)) {
    std::filesystem::rename(job.log(), log_beside(aside), error);
  }
  if (!error) std::filesystem::rename(job.dump, aside, error);
  if (!error) return note_own_moved(job.dump, aside);
  throw core::io_error(
      "cannot move " + job.dump.string() + " to " + aside.string() + ": " + error.message(),
      "with --set /dump/level=tensor every run is recorded once");
}

RecordingResult record(const RecordingJob& job, Progress& progress) {
  RecordingResult result;
  result.summary.name = job.run.name;
  result.summary.location = job.dump.string();
  create_parent(std::filesystem::absolute(job.log()).parent_path(), job.dump);

  configs::RecordRequest asked = job;
  asked.dump = std::filesystem::absolute(job.dump);
  asked.found_environment = found_environment(job.run);
  const auto on_progress = [&](const RecorderProgress& state) { progress.update(state); };
  const JournalTimes before = journal_times(job);
  RecorderOutcome outcome = job.run.program ? record_program(asked, job.log(), on_progress)
                                            : record_model(asked, job.log(), on_progress);
  progress.clear();
  if (!job.bare) take_ownership(job, outcome);
  const bool is_usage = outcome.failure && outcome.failure->kind == core::ErrorKind::kUsage;
  if (!is_usage) progress.end(outcome.totals);

  std::error_code ignored;
  if (std::filesystem::exists(job.log(), ignored)) {
    result.log = {job.log().string(), last_words(job.log())};
  }
  result.totals = outcome.totals;
  result.outputs = outcome.outputs;
  if (is_usage) {
    // What it printed is the message that follows; a log would be all that is left of the attempt.
    std::filesystem::remove(job.log(), ignored);
    throw core::usage_error("run \"" + job.run.name + "\": " + outcome.failure->message,
                            outcome.failure->hint);
  }
  if (outcome.failure) describe_failure(job, outcome, before, result);
  return result;
}

Report failed_run_report(const std::vector<RecordingResult>& results,
                         const std::vector<std::string>& not_started,
                         bool is_compared) {
  Report report;
  report.status = Status::kRunFailed;
  std::vector<std::string> whole;
  for (const RecordingResult& result : results) {
    comparators::RunSummary summary = result.summary;
    if (result.totals) {
      whole.push_back(summary.name);
      summary.manifest = open_own(summary.location)->manifest();
    } else {
      const std::string joint = summary.signal.empty() ? ": " : " ";
      report.reasons.insert(report.reasons.begin(),
                            as_said(summary.name + joint + summary.message));
      report.mend = as_said(result.hint);
    }
    report.runs.push_back(std::move(summary));
  }
  if (!whole.empty() && !is_compared) {
    report.reasons.push_back(comparators::Phrase("only-some-whole", {{"runs", whole}}));
  }
  for (const std::string& name : not_started) {
    report.reasons.push_back(comparators::Phrase("run-not-started", {{"run", name}}));
  }
  return report;
}

}  // namespace repro_check::cmd
