// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include "cmd/replay/replay.h"
#include "cmd/run/runs.h"
#include "comparators/cause/explanation.h"
#include "core/error.h"
#include "core/text/text.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {
namespace {

using comparators::ReplayEvidence;
using comparators::RunSummary;

constexpr unsigned kCalls = 20;
constexpr const char* kNoOrigin =
    "no operator that both runs have is an origin, so there is nothing to execute again";

/// 0 where it was not recorded.
int threads_of(const RunSummary& run) {
  const std::string* used = core::used_setting(run.manifest, "threads.intra_op");
  return used == nullptr ? 0 : core::parse_number<int>(*used).value_or(0);
}

/// Those of the two runs, the baseline's first, and one.
std::vector<int> thread_counts(const comparators::Report& report) {
  std::vector<int> counts;
  for (const int count : {threads_of(report.runs[0]), threads_of(report.runs[1]), 1}) {
    if (count > 0 && std::ranges::find(counts, count) == counts.end()) counts.push_back(count);
  }
  return counts;
}

/// As recorded, and without the widest vectors where the run had them.
std::vector<std::string> instruction_sets(const RunSummary& run) {
  std::vector<std::string> sets{""};
  const std::string* found = core::environment_fact(run.manifest, "cpu.capability");
  if (found != nullptr && found->starts_with("avx512")) sets.emplace_back("avx2");
  return sets;
}

ReplayPlan plan_for(const std::vector<RecordingJob>& jobs,
                    const RunSummary& run,
                    const RunSummary& other,
                    std::uint64_t op) {
  ReplayPlan plan;
  plan.question.recorded = {run.location, {other.location}, op};
  plan.question.how = {op, kCalls, {}, {}};
  const auto job = std::ranges::find_if(
      jobs, [&](const RecordingJob& recorded) { return recorded.made(run.location); });
  if (job != jobs.end()) {
    plan.recorder = job->run.recorder;
    const auto& reference = job->run.dump.reference;
    if (reference) plan.question.recorded.references.push_back(*reference);
  }
  return plan;
}

void take(const ReplayFindings& findings, bool of_baseline, ReplayEvidence& evidence) {
  for (const ReplaySetting& setting : findings.settings) {
    ReplayEvidence::Setting& taken = evidence.settings.emplace_back();
    taken.of_baseline = of_baseline;
    taken.isa = setting.isa;
    taken.cpu_capability = setting.cpu_capability;
    taken.threads = static_cast<std::uint64_t>(std::max(setting.round.threads, 0));
    taken.calls = setting.round.sequence.size();
    taken.as_recorded = true;
    for (const replay::Result& result : setting.round.results) {
      taken.results.push_back(result.digest);
      if (!result.as_recorded) {
        taken.as_recorded.reset();
      } else if (taken.as_recorded) {
        taken.as_recorded = *taken.as_recorded && *result.as_recorded;
      }
    }
  }
}

void execute_again(const std::vector<RecordingJob>& jobs,
                   const comparators::Report& report,
                   const comparators::ExplainedCall& call,
                   ReplayEvidence& evidence) {
  const RunSummary& baseline = report.runs[0];
  const RunSummary& candidate = report.runs[1];
  ReplayPlan first = plan_for(jobs, baseline, candidate, call.baseline_op);
  first.question.against = ReplaySide{candidate.location, {}, 0};
  first.question.float64 = true;
  first.question.how.threads = thread_counts(report);
  first.against_op = call.candidate_op;
  first.isas = instruction_sets(baseline);
  const ReplayFindings of_baseline = replay(first);
  evidence.same_inputs = of_baseline.same_inputs;
  evidence.other_arguments = of_baseline.other_arguments;
  evidence.baseline_rmse = rms_distance(of_baseline.baseline);
  evidence.candidate_rmse = rms_distance(of_baseline.candidate);
  evidence.reference_ratio = of_baseline.reference_ratio();
  take(of_baseline, true, evidence);
  take(replay(plan_for(jobs, candidate, baseline, call.candidate_op)), false, evidence);
}

}  // namespace

void explain_origin(const std::vector<RecordingJob>& jobs,
                    comparators::Report& report,
                    Progress& progress) {
  if (report.status != comparators::Status::kDiverged || report.runs.size() < 2) return;
  ReplayEvidence evidence;
  if (const auto call = comparators::call_to_explain(report)) {
    evidence.baseline_op = call->baseline_op;
    evidence.candidate_op = call->candidate_op;
    progress.stage("executing op " + std::to_string(call->baseline_op) + " again");
    try {
      execute_again(jobs, report, *call, evidence);
    } catch (const core::Error& error) {
      if (error.kind() == core::ErrorKind::kInterrupted) throw;
      evidence.settings.clear();
      evidence.problem = error.what();
      if (!error.hint().empty()) evidence.problem += "; " + error.hint();
    }
    progress.clear();
  } else {
    evidence.problem = kNoOrigin;
  }
  comparators::explain(std::move(evidence), report);
}

}  // namespace repro_check::cmd
