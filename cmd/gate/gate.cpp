// SPDX-License-Identifier: Apache-2.0
#include "cmd/gate/gate.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "baselines/pending.h"
#include "baselines/platform.h"
#include "baselines/summary.h"
#include "cmd/gate/gate_baseline.h"
#include "cmd/recording/own_recordings.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "configs/parser/config_parser.h"
#include "core/error.h"
#include "core/trace/manifest_lookup.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

using comparators::Report;
using comparators::Status;

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

void write_pending(const GateCase& gate,
                   const core::DumpSource& dump,
                   const baselines::Baseline& folded,
                   GateOutcome& outcome) {
  const core::RunManifest& manifest = dump.manifest();
  baselines::Pending pending{
      outcome.runs_agree, outcome.runs, manifest.model_digest, manifest.model_path, folded};
  if (const auto* digest = core::environment_fact(manifest, "model.weights_digest")) {
    pending.weights_file = core::parse_digest(*digest);
    pending.weights_path =
        core::text_or_empty(core::environment_fact(manifest, "model.weights_path"));
  }
  const std::filesystem::path file =
      from_here(gate.output / (baselines::file_name(pending.baseline) + ".new"));
  write_file(file, baselines::to_text(pending));
  outcome.pending = file.string();
  if (!outcome.runs_agree) outcome.refusal = "the runs do not agree with each other";
}

void note_orphans(const GateCase& gate, Report& report, GateOutcome& outcome) {
  const auto orphans =
      orphaned_files(baseline_files(gate.spec.baselines.directory), gate.name, gate.config);
  for (const auto& file : orphans) outcome.orphans.push_back(from_here(file).string());
  if (orphans.empty()) return;
  const std::string reason = outcome.orphans.front() + " belongs to no configuration";
  if (report.status != Status::kReproducible) {
    outcome.notes.push_back(reason);
    return;
  }
  report.status = Status::kStaleBaseline;
  report.reasons = {reason};
  report.mend = "repro-check gate prune -c " + gate.config.string();
}

/// What follows once the runs are whole.
void judge_whole(const GateCase& gate, std::vector<Report>& reports, GateOutcome& outcome) {
  const auto dump = store::open_dump(gate.dumps.front(), gate.references);
  expect_own(*dump, gate.dumps.front());
  const auto platform = baselines::platform_of(dump->manifest());
  if (platform) outcome.key = core::to_hex(platform->key());
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  comparators::Expectations expectations(gate.spec.expected, outcome.key, today);
  if (!expectations.empty()) expectations.require_matches(*dump);
  for (Report& report : reports) expectations.excuse(report);
  put_worst_first(reports);
  Report& lead = reports.front();
  outcome.runs_agree = worst_exit(reports) == core::ExitCode::kReproducible;

  std::optional<baselines::Baseline> folded;
  if (platform) {
    const std::string policy(configs::name_of(gate.options.spec.policy.kind));
    const baselines::Baseline now =
        baselines::summarise_unfolded(*dump, *platform, gate.name, policy);
    folded = baselines::fold(now);
    if (outcome.runs_agree) {
      ask_baseline(gate, {*dump, now, *folded}, lead, outcome);
      expectations.excuse(lead);
      note_orphans(gate, lead, outcome);
    }
  } else {
    outcome.baseline = BaselineState::kNoKey;
    if (outcome.runs_agree) {
      lead.status = Status::kNoBaseline;
      lead.reasons = {"no platform key can be made: " + gate.dumps.front().string() +
                      " holds no numeric probe"};
      lead.mend = "record again with a repro-check-recorder of this version";
    }
  }
  outcome.expected = expectations.settle(gate.spec.min_judged, lead);
  if (folded && !ends_without_pending(worst_exit(reports))) {
    write_pending(gate, *dump, *folded, outcome);
  }
}

}  // namespace

std::string read_text_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw core::Error(core::ErrorKind::kIo, "cannot read " + file.string());
  return text;
}

std::vector<std::filesystem::path> baseline_files(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == baselines::kBaselineSuffix) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

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

GateResult judge_gate(GateCase gate) {
  GateResult result;
  result.reports = std::move(gate.reports);
  result.outcome.gate = gate.name;
  result.outcome.config = gate.config.string();
  result.outcome.runs = gate.dumps.size();
  result.outcome.attempt = attempt_of_job();
  put_worst_first(result.reports);
  if (!ends_without_pending(worst_exit(result.reports))) {
    judge_whole(gate, result.reports, result.outcome);
    put_worst_first(result.reports);
  }
  return result;
}

}  // namespace repro_check::cmd
