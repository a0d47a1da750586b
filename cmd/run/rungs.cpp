// SPDX-License-Identifier: Apache-2.0
#include "cmd/run/rungs.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cmd/options/config_options.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/recording.h"
#include "cmd/recording/space.h"
#include "cmd/relate/shadow.h"
#include "cmd/render/text.h"
#include "cmd/reports/verdict.h"
#include "cmd/run/rungs_view.h"
#include "cmd/run/runs.h"
#include "cmd/terminal/logging.h"
#include "comparators/relate/left_numbers.h"
#include "comparators/relate/regions.h"
#include "comparators/relate/rung_judgement.h"
#include "core/text/text.h"
#include "dumpers/store/directory/rank_dumps.h"

namespace repro_check::cmd {
namespace {

using comparators::Finding;
using comparators::FindingId;
using comparators::NoVerdict;
using core::CompileRung;

constexpr std::array kRungs{CompileRung::kOff,
                            CompileRung::kEager,
                            CompileRung::kAotEager,
                            CompileRung::kAotEagerDecomposed,
                            CompileRung::kInductor,
                            CompileRung::kAsWritten};

/// That are recorded where nothing else is asked for: the second one begins with what the first has
/// written.
constexpr std::uint64_t kSteps = 2;

/// The run on each rung, below the folder of the configuration.
configs::Config on_rungs(const configs::Config& config) {
  configs::Config varied = config;
  varied.runs.clear();
  for (const CompileRung rung : kRungs) {
    configs::RunSpec run = config.runs.front();
    run.name = core::name_of(rung);
    run.compile = rung;
    run.dump.level = core::DumpLevel::kTensor;
    run.dump.depth = rung == CompileRung::kEager ? core::DumpDepth::kAll : core::DumpDepth::kTop;
    if (run.dump.steps.empty()) run.dump.steps = {{0, kSteps - 1}};
    varied.runs.push_back(std::move(run));
  }
  return varied;
}

class Climb {
 public:
  Climb(const configs::Config& config,
        std::vector<RecordingJob> jobs,
        bool force,
        Progress& progress)
      : config_(config), jobs_(std::move(jobs)), force_(force), progress_(progress) {}

  /// @return false where a run has failed
  bool climb() {
    if (!record(jobs_[0], 1) || !record(jobs_[1], 2)) return false;
    off_ = open_own(jobs_[0].dump);
    eager_ = comparators::read_regions(open_own(jobs_[1].dump));
    for (const auto& [digest, region] : eager_.regions) ladder_.calls += region.calls;
    ladder_.regions = eager_.regions.size();
    ladder_.reached = CompileRung::kEager;
    if (eager_.regions.empty()) {
      stop(NoVerdict::kNothingRelated,
           "the program has nothing compiled for Inductor in the steps that were recorded");
      return true;
    }
    if (!is_same_as_off()) return failed_ == nullptr;
    for (std::size_t i = 2; i < jobs_.size() && !is_done(); ++i) {
      if (!record(jobs_[i], i + 1) || !judge_rung(i)) return false;
    }
    return true;
  }

  [[nodiscard]] const Ladder& ladder() const noexcept { return ladder_; }
  /// Null where none has.
  [[nodiscard]] const RecordingResult* failed() const noexcept { return failed_.get(); }
  [[nodiscard]] const core::DumpSource& off() const { return *off_; }

 private:
  [[nodiscard]] bool is_done() const {
    return ladder_.no_verdict != NoVerdict::kNone || ladder_.has_diverged();
  }
  void stop(NoVerdict why, std::string undecided) {
    ladder_.no_verdict = why;
    ladder_.undecided = std::move(undecided);
  }

  /// @param position  of the rung, from 1; 0 of none. @return false where the run has failed
  bool record(const RecordingJob& job, std::size_t position) {
    progress_.begin(position, position == 0 ? 0 : jobs_.size(), job.run.name);
    RecordingResult result = record_where_it_fits(job, {}, progress_);
    progress_.clear();
    if (result.totals && !store::rank_dumps(job.dump.string()).empty()) {
      throw core::not_comparable("the program runs on several ranks, and --vary compile is of one",
                                 "run it on one: without torchrun");
    }
    if (result.totals) return true;
    result.summary.location = job.dump.string();
    failed_ = std::make_unique<RecordingResult>(std::move(result));
    return false;
  }

  /// Records one more run of a rung, in a folder beside its own. What an earlier command of this
  /// kind has left there discard_earlier() has removed; what is somebody's stays.
  /// @throws core::Error{kUsage} where something is
  bool record_beside(RecordingJob& job, const std::string& suffix) {
    job.run.name += suffix;
    job.dump = config_.dump_directory(job.run);
    job.replace_existing = force_;
    require_free(job);
    return record(job, 0);
  }

  /// Whether the program computes what it does with nothing compiled. Where not, whether that
  /// repeats is asked first.
  bool is_same_as_off() {
    const comparators::LeftNumbers left = comparators::compare_left(*off_, *eager_.dump);
    ladder_.climbed.push_back({CompileRung::kEager, {}, left.alike});
    if (left.alike == comparators::LeftAlike::kNothing) {
      stop(NoVerdict::kNothingRelated,
           "the program leaves no losses, parameters or numbers by which eager and off compare");
    }
    if (left.alike != comparators::LeftAlike::kApart) return !is_done();
    ladder_.climbed.clear();
    RecordingJob again = jobs_[0];
    if (!record_beside(again, "-again")) return false;
    const auto repeated = open_own(again.dump);
    if (comparators::compare_left(*off_, *repeated).alike != comparators::LeftAlike::kSame) {
      stop(NoVerdict::kNothingRelated,
           "the program gives other numbers each time, with nothing compiled");
      return false;
    }
    ladder_.findings.push_back(comparators::captured_otherwise(left));
    ladder_.next = fmt::format("repro-check diff {} {}",
                               shell_quote(jobs_[0].dump.string()),
                               shell_quote(jobs_[1].dump.string()));
    return false;
  }

  bool judge_rung(std::size_t i) {
    const CompileRung rung = jobs_[i].run.compile;
    ladder_.reached = rung;
    comparators::RungReport report = judged(jobs_[i]);
    if (report.no_verdict != NoVerdict::kNone) stop(report.no_verdict, report.undecided);
    const bool draws =
        report.has_diverged() && report.findings.front().id == FindingId::kCompiledDrawsItsOwn;
    auto& findings = draws ? ladder_.notes : ladder_.findings;
    findings.insert(findings.end(), report.findings.begin(), report.findings.end());
    if (!is_done()) ladder_.climbed.push_back({rung, std::move(report), std::nullopt});
    const bool is_generated = ladder_.has_diverged() && rung == CompileRung::kInductor;
    return !is_generated || find_lowering(jobs_[i]);
  }

  /// Of operators that PyTorch does not define, one at a time is left to eager PyTorch: where all
  /// agrees then, its lowering is at fault.
  /// @return false where a run has failed
  bool find_lowering(const RecordingJob& diverged) {
    Finding& finding = ladder_.findings.front();
    std::size_t tried = 0;
    for (const auto& [digest, region] : eager_.regions) {
      for (const auto& [name, node] : region.custom) {
        RecordingJob job = diverged;
        job.run.compile_fallback = name;
        if (!record_beside(job, fmt::format("-fallback-{}", ++tried))) return false;
        const comparators::RungReport report = judged(job);
        if (report.no_verdict != NoVerdict::kNone || report.has_diverged()) continue;
        comparators::blame_operator(region, node, name, finding);
        return true;
      }
    }
    return true;
  }

  comparators::RungReport judged(const RecordingJob& job) {
    const comparators::RegionSide side = comparators::read_regions(open_own(job.dump));
    const comparators::TwoRungs rungs = comparators::pair_rungs(eager_, side);
    progress_.stage("executing in float64");
    ShadowPlan plan;
    plan.dump = jobs_[1].dump;
    shadow_ = shadow_of(plan, rungs);
    progress_.clear();
    ladder_.shadow = shadow_.get();
    return comparators::judge_rung(
        rungs,
        job.run.compile,
        [&](std::size_t place, std::size_t output) { return shadow_->numbers(place, output); },
        shadow_->cut_operators());
  }

  const configs::Config& config_;
  std::vector<RecordingJob> jobs_;
  bool force_;
  Progress& progress_;
  std::unique_ptr<core::DumpSource> off_;
  comparators::RegionSide eager_;
  std::unique_ptr<ShadowDump> shadow_;
  Ladder ladder_;
  std::unique_ptr<RecordingResult> failed_;
};

}  // namespace

core::ExitCode climb_rungs(const configs::Config& config,
                           bool force,
                           const ReportFlags& flags,
                           const GlobalOptions& globals) {
  if (!config.runs.front().program) {
    throw core::usage_error("--vary compile is of programs: a TorchScript file is not compiled",
                            "repro-check run --vary compile -- python train.py");
  }
  const configs::Config varied = on_rungs(config);
  const OutputLocks held = hold_alone(output_directories(varied));
  RunOutputs outputs(output_directories(varied));
  const std::vector<RecordingJob> jobs =
      plan_jobs(varied, false, [&](const std::filesystem::path& place) {
        return force || outputs.may_replace(place);
      });
  discard_earlier(jobs, outputs);
  log_info(fmt::format("your program will run up to {} times; each run writes its files again",
                       kRungs.size()));
  say_kept_seed(config);
  Progress progress(globals);
  Climb climb(varied, jobs, force, progress);
  if (!climb.climb()) {
    return report_failed_run(*climb.failed(), "", flags.style(globals, "text").format, globals);
  }
  return emit_ladder(climb.ladder(), climb.off(), flags, globals);
}

}  // namespace repro_check::cmd
