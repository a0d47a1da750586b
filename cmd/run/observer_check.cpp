// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cmd/recording/space.h"
#include "cmd/run/runs.h"
#include "cmd/terminal/logging.h"
#include "comparators/cause/cause.h"
#include "comparators/compare.h"
#include "core/error.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

using comparators::ObserverFinding;
using comparators::Phrase;
using comparators::Report;
using comparators::Status;
using Outputs = std::vector<RecorderOutput>;
using Outcome = ObserverFinding::Outcome;

/// How often, and how, each run is asked for what it returns.
struct Way {
  const char* note;
  bool bare;
  core::DumpLevel level;
};
constexpr std::array<Way, 4> kWays{{{", bare", true, core::DumpLevel::kDigest},
                                    {", bare again", true, core::DumpLevel::kDigest},
                                    {", digests", false, core::DumpLevel::kDigest},
                                    {", tensors", false, core::DumpLevel::kTensor}}};

/// Runs without recording before it is said to change anything: what does not repeat may have done
/// so twice by chance.
constexpr unsigned kMoreBare = 4;

std::filesystem::path observer_directory(std::filesystem::path dump) { return dump += ".observer"; }

RecordingJob job_for(const RecordingJob& run, const Way& way) {
  RecordingJob job = run;
  job.dump = observer_directory(run.dump);
  job.run.dump.level = way.level;
  job.run.dump.reference.reset();
  // What the recorder substitutes is asked for, and cannot be asked of a run it has no part in.
  job.run.disable_dropout = false;
  job.run.rng = core::RngMode::kDevice;
  job.replace_existing = true;
  job.report_outputs = true;
  job.bare = way.bare;
  return job;
}

/// What is not the same, as far as the first such output.
std::optional<std::pair<std::string, std::string>> difference(const Outputs& one,
                                                              const Outputs& other) {
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    if (one[i] == other[i]) continue;
    const bool bits = one[i].name == other[i].name && one[i].what == other[i].what;
    return std::pair(one[i].name,
                     bits ? one[i].what + ": other values" : one[i].what + " -> " + other[i].what);
  }
  if (one.size() == other.size()) return std::nullopt;
  return std::pair(std::string("0"),
                   std::to_string(one.size()) + " values -> " + std::to_string(other.size()));
}

/// Whether a run of which nothing is recorded draws other numbers each time, which recording it
/// would have spared it.
bool draws_unseeded(const configs::RunSpec& run) {
  return !run.seed && (run.disable_dropout || run.rng != core::RngMode::kDevice);
}

ObserverFinding judge_outputs(const configs::RunSpec& run, const std::vector<Outputs>& answers) {
  ObserverFinding finding;
  finding.run = run.name;
  finding.outputs = answers.front().size();
  if (finding.outputs == 0) {
    finding.outcome = Outcome::kNotJudged;
    finding.detail = "it returned nothing that could be compared";
    return finding;
  }
  if (const auto apart = difference(answers[0], answers[1])) {
    finding.outcome = draws_unseeded(run) ? Outcome::kNotJudged : Outcome::kUnrepeated;
    finding.output = apart->first;
    finding.detail = "two runs without recording differ in output " + apart->first;
    return finding;
  }
  for (std::size_t i = 2; i < answers.size(); ++i) {
    const auto apart = difference(answers[0], answers[i]);
    if (!apart) continue;
    finding.outcome = Outcome::kChanged;
    finding.level = core::name_of(kWays[i].level);
    finding.output = apart->first;
    finding.detail = apart->second;
    return finding;
  }
  return finding;
}

/// The first operator of a recording that reads memory that nobody has written, or else picks some
/// of its elements; empty where there is none.
std::string unwritten_read(const std::filesystem::path& dump) {
  std::string picked;
  try {
    const auto source = store::open_dump(dump);
    for (std::uint64_t op = 0; op < source->op_count(); ++op) {
      const core::OpRecord record = source->op(op);
      if (!record.op || !comparators::may_read_unwritten(record)) continue;
      std::string reader = (core::is_returned(record) ? "the model returns"
                                                      : comparators::op_text(record) + " reads") +
                           std::string(" memory that nobody has written");
      if (comparators::unwritten_argument(record) != nullptr) return reader;
      if (picked.empty()) picked = reader;
    }
  } catch (const core::Error& error) {
    log_debug(std::string("no look for unwritten memory: ") + error.what());
  }
  return picked;
}

bool is_same_run(const RecordingJob& left, const RecordingJob& right) {
  configs::RunSpec renamed = left.run;
  renamed.name = right.run.name;
  return renamed == right.run;
}

/// @return false when a run failed
bool ask(const RecordingJob& run,
         std::size_t number,
         std::size_t total,
         Progress& progress,
         ObserverCheck& check) {
  std::vector<Outputs> answers;
  std::optional<SpaceEstimate> tensors;
  std::string unwritten;
  const auto answer = [&](const Way& way) -> std::optional<Outputs> {
    const RecordingJob job = job_for(run, way);
    progress.begin(number, total, run.run.name + way.note);
    RecordingResult result = record_where_it_fits(job, tensors, progress);
    std::optional<Outputs> outputs;
    if (result.totals) outputs = std::move(result.outputs);
    check.results.push_back(std::move(result));
    if (!outputs) return outputs;
    if (!way.bare && way.level == core::DumpLevel::kDigest) {
      tensors = estimate_values(job.dump, job_for(run, kWays.back()), {});
      unwritten = unwritten_read(job.dump);
    }
    if (!way.bare) store::discard_recording(job.dump);
    std::error_code ignored;
    std::filesystem::remove(job.log(), ignored);
    return outputs;
  };
  for (const Way& way : kWays) {
    std::optional<Outputs> outputs = answer(way);
    if (!outputs) return false;
    answers.push_back(*std::move(outputs));
  }
  ObserverFinding finding = judge_outputs(run.run, answers);
  for (unsigned more = 0; more < kMoreBare && finding.outcome == Outcome::kChanged; ++more) {
    std::optional<Outputs> outputs = answer(kWays[1]);
    if (!outputs) return false;
    answers[1] = *std::move(outputs);
    finding = judge_outputs(run.run, answers);
  }
  finding.unwritten = std::move(unwritten);
  check.findings.push_back(std::move(finding));
  return true;
}

}  // namespace

bool ObserverCheck::changed() const {
  return std::ranges::find(findings, Outcome::kChanged, &ObserverFinding::outcome) !=
         findings.end();
}

ObserverCheck check_observer(const std::vector<RecordingJob>& jobs, Progress& progress) {
  std::vector<const RecordingJob*> distinct;
  for (const RecordingJob& job : jobs) {
    const auto same = [&](const RecordingJob* known) { return is_same_run(*known, job); };
    if (std::ranges::none_of(distinct, same)) distinct.push_back(&job);
  }
  for (const RecordingJob* job : distinct) {
    store::require_discardable(observer_directory(job->dump));
  }
  ObserverCheck check;
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    if (!ask(*distinct[i], i + 1, distinct.size(), progress, check)) break;
  }
  return check;
}

void add_observed(const ObserverCheck& check, bool is_program, Report& report) {
  report.observer = check.findings;
  const auto found =
      std::ranges::find(check.findings, Outcome::kUnrepeated, &ObserverFinding::outcome);
  if (found == check.findings.end() || report.status == Status::kDiverged) return;
  report.kind = comparators::DivergenceKind::kUnrepeated;
  Phrase reason("does-not-repeat",
                {{"run", found->run},
                 {"detail", found->detail},
                 {"is_program", is_program},
                 {"reading", found->unwritten}});
  const core::ExitCode code = comparators::exit_code_of(report);
  if (code == core::ExitCode::kRunFailed || code == core::ExitCode::kDumpUnusable) {
    report.also.push_back(Status::kDiverged);
    report.reasons.push_back(std::move(reason));
    return;
  }
  if (report.status != Status::kReproducible) report.also.push_back(report.status);
  report.status = Status::kDiverged;
  report.reasons.insert(report.reasons.begin(), std::move(reason));
  report.mend = found->unwritten.empty() ? Phrase("do-remove-races", {{"is_program", is_program}})
                                         : Phrase("do-fill-tensor");
}

Report observer_report(const std::vector<RecordingJob>& jobs, const ObserverCheck& check) {
  Report report;
  report.status = Status::kObserverEffect;
  report.observer = check.findings;
  report.mend = Phrase("do-fill-tensor");
  for (const ObserverFinding& finding : check.findings) {
    if (finding.outcome != Outcome::kChanged) continue;
    report.reasons.push_back(Phrase("recording-changes",
                                    {{"run", finding.run},
                                     {"level", finding.level},
                                     {"output", finding.output},
                                     {"detail", finding.detail},
                                     {"reading", finding.unwritten}}));
    if (finding.unwritten.empty()) report.mend = Phrase("do-report-recorder");
  }
  for (const RecordingJob& job : jobs) {
    comparators::RunSummary summary;
    summary.name = job.run.name;
    report.runs.push_back(std::move(summary));
  }
  return report;
}

}  // namespace repro_check::cmd
