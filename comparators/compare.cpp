// SPDX-License-Identifier: Apache-2.0
#include "comparators/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comparators/align/alignment_summary.h"
#include "comparators/align/pace.h"
#include "comparators/align/pairing.h"
#include "comparators/align/record_bits.h"
#include "comparators/cause/differences.h"
#include "comparators/cause/named_tensors.h"
#include "comparators/cause/observations.h"
#include "comparators/judge/coverage.h"
#include "comparators/judge/error_flow.h"
#include "comparators/judge/fp64_reference.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/judge/verdict.h"
#include "comparators/measure/policy.h"
#include "comparators/report/op_text.h"
#include "comparators/report/report.h"
#include "comparators/walk/walk.h"
#include "core/content/content.h"
#include "core/error.h"
#include "core/trace/content_check.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators {
namespace {

/// Who the two runs are.
std::vector<RunSummary> summarise_runs(const core::DumpSource& baseline,
                                       const core::DumpSource& candidate) {
  std::vector<RunSummary> runs;
  for (const core::DumpSource* source : {&baseline, &candidate}) {
    RunSummary run;
    run.name = source->manifest().run_name;
    run.location = source->location();
    run.manifest = source->manifest();
    run.missing_reference = source->missing_reference();
    runs.push_back(std::move(run));
  }
  return runs;
}

/// The first of two dumps that cannot be read; null where both can.
const core::DumpSource* unreadable(const core::DumpSource& baseline,
                                   const core::DumpSource& candidate) {
  for (const core::DumpSource* source : {&baseline, &candidate}) {
    try {
      for (std::uint64_t i = 0; i < source->op_count(); ++i) static_cast<void>(source->op(i));
    } catch (const core::Error& error) {
      if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
      return source;
    }
  }
  return nullptr;
}

/// What the comparison could not look at, because a dump refers to one that was not given.
std::vector<std::string> missing_references(const std::vector<RunSummary>& runs) {
  std::vector<std::string> sentences;
  for (const RunSummary& run : runs) {
    if (run.missing_reference.empty() || !run.manifest.trace.reference) continue;
    sentences.push_back(fmt::format(
        "{}: the bytes of {} contents were neither verified nor measured, digests alone "
        "decided there: {}",
        run.location,
        run.manifest.trace.reference->contents,
        run.missing_reference));
  }
  return sentences;
}

std::uint64_t readable_bytes(const core::DumpSource& dump) {
  const core::TraceSummary& trace = dump.manifest().trace;
  const bool is_whole = trace.reference && dump.missing_reference().empty();
  return trace.stored_bytes + (is_whole ? trace.reference->bytes : 0);
}

class Comparison {
 public:
  Comparison(const core::DumpSource& baseline,
             const core::DumpSource& candidate,
             const CompareOptions& options)
      : baseline_(baseline),
        candidate_(candidate),
        options_(options),
        judge_(baseline, candidate, options) {}

  Report run() {
    describe_runs();
    if (comparable()) {
      if (pair()) {
        detail::Walk(
            {baseline_, candidate_, options_, pairing_, judge_, observations_, verdict_, report_})
            .run();
        report_.rules = judge_.rules().uses();
        detail::report_unused_rules(options_.spec, report_);
      }
      verify_the_rest();
    }
    finish();
    return std::move(report_);
  }

 private:
  void describe_runs() {
    report_.runs = summarise_runs(baseline_, candidate_);
    report_.policy = describe_policy(options_.spec);
    report_.differences = manifest_differences(baseline_.manifest(), candidate_.manifest());
    report_.coverage.baseline_ops = baseline_.op_count();
    report_.coverage.candidate_ops = candidate_.op_count();
  }

  bool comparable() {
    if (!holds_noise() || !holds_fp64()) return false;
    pairing_options_ =
        detail::pairing_options(baseline_.manifest(), candidate_.manifest(), options_.spec);
    if (pairing_options_) return true;
    refuse(fmt::format("recorded at other depths: baseline \"{}\", candidate \"{}\"",
                       baseline_.manifest().trace.depth,
                       candidate_.manifest().trace.depth));
    return false;
  }

  /// Floors are about the baseline: what the candidate is, they are there to judge.
  bool holds_noise() {
    if (!configs::uses_noise(options_.spec) || !options_.noise) return true;
    const configs::NoiseFloors& noise = *options_.noise;
    const auto others =
        configs::differences(noise.subject, configs::noise_subject(baseline_.manifest()));
    if (!others.empty()) {
      refuse(
          fmt::format("{} was not made of the baseline: {}", noise.file, fmt::join(others, ", ")));
      verdict_.mend = "calibrate with the configuration of the baseline";
    } else if (noise.runs < configs::kFewestNoiseRuns) {
      refuse(fmt::format(
          "{} was made of {}, which is no floor", noise.file, counted(noise.runs, "run")));
      verdict_.mend = fmt::format("calibrate with -n {} or more", configs::kFewestNoiseRuns);
    } else {
      return true;
    }
    return false;
  }

  /// What is held against the float64 run has to be its like.
  bool holds_fp64() {
    if (!configs::uses_fp64(options_.spec) || !options_.fp64) return true;
    const core::RunManifest& exact = options_.fp64->manifest();
    const core::RunManifest& baseline = baseline_.manifest();
    const auto options = detail::pairing_options(baseline, exact, options_.spec);
    std::string why;
    if (exact.model_digest != baseline.model_digest ||
        exact.model_method != baseline.model_method) {
      why = "it ran another model";
    } else if (exact.seed != baseline.seed) {
      why = fmt::format("its seed is {}, the baseline's {}", exact.seed, baseline.seed);
    } else if (!options) {
      why = fmt::format("it was recorded at depth \"{}\", the baseline at \"{}\"",
                        exact.trace.depth,
                        baseline.trace.depth);
    } else {
      why = align_fp64(*options);
    }
    if (why.empty()) return true;
    refuse(fmt::format("{} is not the baseline in float64: {}", options_.fp64->location(), why));
    verdict_.mend =
        "record it with the configuration of the baseline: `repro-check record -c "
        "config.json --set /dtype=float64 --set /dump/level=tensor -o fp64`";
    return false;
  }

  /// Why it cannot be aligned, or nothing.
  std::string align_fp64(detail::PairingOptions options) {
    options.map = nullptr;  // the candidate's
    try {
      fp64_.emplace(baseline_, *options_.fp64, options);
    } catch (const core::Error& error) {
      if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
      judge_.note_damage(unreadable(baseline_, *options_.fp64), error.what());
      return "it is damaged";
    }
    judge_.rules().set_fp64(&*fp64_);
    return fp64_->matched() == 0 ? "it has no operator of the baseline" : std::string();
  }

  void refuse(std::string sentence) {
    verdict_.incomparable.push_back(std::move(sentence));
    report_.coverage.missing_in_baseline = report_.coverage.candidate_ops;
    report_.coverage.missing_in_candidate = report_.coverage.baseline_ops;
  }

  /// What was compared has been verified with it.
  void verify_the_rest() {
    if (!options_.verify_all) return;
    detail::Pace pace(
        options_, ComparePhase::kVerifying, readable_bytes(baseline_) + readable_bytes(candidate_));
    std::mutex mutex;
    const auto count = [&](std::uint64_t bytes) {
      const std::lock_guard lock(mutex);
      pace.add(bytes);
    };
    for (const core::DumpSource* source : {&baseline_, &candidate_}) {
      core::ContentCheck rest;
      rest.threads = options_.spec.threads.value_or(0);
      rest.skip = [&](const core::ContentKey& key) {
        const bool is_checked = judge_.has_checked(*source, key);
        if (is_checked && options_.progress) count(core::content_size(key));
        return is_checked;
      };
      // Nobody is told, nobody waits for his turn to tell.
      if (options_.progress) rest.progress = count;
      try {
        core::verify_contents(*source, rest);
      } catch (const core::Error& error) {
        if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
        judge_.note_damage(source, error.what());
      }
    }
    pace.finish();
  }

  void look_for_renames(detail::PairingOptions& options) {
    // Whoever brings a map, or wants places alone, says himself what belongs together.
    if (!options_.spec.map.entries.empty() || options.mode != configs::AlignMode::kKeyed) return;
    try {
      renames_ = detail::find_renames(baseline_, candidate_, options);
      options.renames = &renames_;
    } catch (const core::Error& error) {
      if (error.kind() != core::ErrorKind::kDumpDamaged) throw;  // pairing will say so
    }
  }

  /// False when there is nothing to walk through.
  bool pair() {
    detail::Pace pace(
        options_, ComparePhase::kAligning, baseline_.op_count() + candidate_.op_count());
    std::vector<std::uint64_t> renamed_tensors;
    detail::PairingOptions pairing_options = *pairing_options_;
    pairing_options.pace = &pace;
    look_for_renames(pairing_options);
    report_.named_tensors =
        differing_named_tensors(baseline_.manifest(),
                                candidate_.manifest(),
                                detail::NameRewriter(options_.spec.map, &renames_),
                                judge_,
                                renamed_tensors);
    try {
      pairing_ = detail::pair_records(baseline_, candidate_, pairing_options);
      if (options_.spec.order == configs::OperatorOrder::kRelaxed) {
        detail::pair_moved(baseline_, candidate_, pairing_);
      }
      if (options_.paired) options_.paired(pairing_.candidate_of);
    } catch (const core::Error& error) {
      if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
      judge_.note_damage(unreadable(baseline_, candidate_), error.what());
      report_.coverage.missing_in_baseline = report_.coverage.candidate_ops;
      report_.coverage.missing_in_candidate = report_.coverage.baseline_ops;
      return false;
    }
    pace.finish();
    const bool both = !pairing_.baseline.ranks.empty() && !pairing_.candidate.ranks.empty();
    if (both && pairing_.baseline.ranks != pairing_.candidate.ranks) {
      refuse(fmt::format("rank sets differ: {} against {}",
                         detail::ranks_text(pairing_.baseline.ranks),
                         detail::ranks_text(pairing_.candidate.ranks)));
      return false;
    }
    report_.alignment = detail::summarise(pairing_);
    for (std::string& note : detail::rename_notes(renames_)) {
      report_.warnings.push_back(std::move(note));
    }
    report_.name_map = detail::map_use(options_.spec.map, pairing_, renamed_tensors);
    report_.coverage.baseline_ops = pairing_.baseline.completion.size();
    report_.coverage.candidate_ops = pairing_.candidate.completion.size();
    verdict_.matched = pairing_.matched;
    report_.coverage.missing_in_candidate = report_.coverage.baseline_ops - pairing_.matched;
    report_.coverage.missing_in_baseline = report_.coverage.candidate_ops - pairing_.matched;
    return true;
  }

  /// Each is a reason, and the first of a run is why that is damaged.
  void take_damage() {
    for (const auto& [sentence, source] : judge_.damage()) {
      verdict_.damage.push_back(sentence);
      if (source != &baseline_ && source != &candidate_) continue;
      RunSummary& run = report_.runs.at(source == &baseline_ ? 0 : 1);
      if (std::exchange(run.status, "damaged") != "damaged") run.message = sentence;
    }
  }

  void finish() {
    if (fp64_ && !fp64_->damage().empty()) {
      judge_.note_damage(options_.fp64.get(), fp64_->damage());
    }
    take_damage();
    for (std::string& warning :
         observations_.warnings(baseline_.manifest(), candidate_.manifest())) {
      report_.warnings.push_back(std::move(warning));
    }
    const std::vector<std::string> non_finite = observations_.non_finite();
    report_.warnings.insert(report_.warnings.begin(), non_finite.begin(), non_finite.end());
    for (std::string& warning : missing_references(report_.runs)) {
      report_.warnings.push_back(std::move(warning));
    }
    detail::judge_growth(options_.spec.max_growth, report_);
    detail::check_coverage(report_.coverage, verdict_.matched);
    detail::decide(verdict_, report_);
  }

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  const CompareOptions& options_;
  detail::TensorJudge judge_;
  std::optional<detail::PairingOptions> pairing_options_;
  detail::ModuleRenames renames_;
  detail::Pairing pairing_;
  std::optional<detail::Fp64Reference> fp64_;
  detail::Observations observations_;
  detail::VerdictInput verdict_;
  Report report_;
};

}  // namespace

Report compare(const core::DumpSource& baseline,
               const core::DumpSource& candidate,
               const CompareOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  Report report = Comparison(baseline, candidate, options).run();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace repro_check::comparators
