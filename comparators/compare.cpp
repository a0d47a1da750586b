// SPDX-License-Identifier: Apache-2.0
#include "comparators/compare.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "comparators/detail/coverage.h"
#include "comparators/detail/growth_judge.h"
#include "comparators/detail/observations.h"
#include "comparators/detail/pairing.h"
#include "comparators/detail/tensor_judge.h"
#include "comparators/detail/verdict.h"
#include "comparators/detail/walk.h"
#include "comparators/differences.h"
#include "comparators/named_tensors.h"
#include "comparators/policy.h"
#include "core/error.h"

namespace repro_check::comparators {
namespace {

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
      verify_all();
      if (pair()) {
        detail::Walk(
            {baseline_, candidate_, options_, pairing_, judge_, observations_, verdict_, report_})
            .run();
        report_.rules = judge_.rules().uses();
        detail::report_unused_rules(options_.spec, report_);
      }
    }
    finish();
    return std::move(report_);
  }

 private:
  void describe_runs() {
    for (const core::DumpSource* source : {&baseline_, &candidate_}) {
      RunSummary run;
      run.name = source->manifest().run_name;
      run.location = source->location();
      run.manifest = source->manifest();
      run.missing_reference = source->missing_reference();
      report_.runs.push_back(std::move(run));
    }
    report_.policy = describe_policy(options_.spec);
    report_.differences = manifest_differences(baseline_.manifest(), candidate_.manifest());
    report_.coverage.baseline_ops = baseline_.op_count();
    report_.coverage.candidate_ops = candidate_.op_count();
  }

  bool comparable() {
    const std::string& here = baseline_.manifest().trace.depth;
    const std::string& there = candidate_.manifest().trace.depth;
    if (here == there) return true;
    refuse(fmt::format("baseline was recorded at depth \"{}\", candidate at \"{}\"", here, there));
    return false;
  }

  void refuse(std::string sentence) {
    verdict_.incomparable.push_back(std::move(sentence));
    report_.coverage.missing_in_baseline = report_.coverage.candidate_ops;
    report_.coverage.missing_in_candidate = report_.coverage.baseline_ops;
  }

  void verify_all() {
    if (!options_.verify_all) return;
    for (const core::DumpSource* source : {&baseline_, &candidate_}) {
      try {
        source->verify_contents();
      } catch (const core::Error& error) {
        if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
        judge_.note_damage(error.what());
      }
    }
  }

  /// False when there is nothing to walk through.
  bool pair() {
    report_.named_tensors =
        differing_named_tensors(baseline_.manifest(), candidate_.manifest(), judge_);
    try {
      pairing_ = detail::pair_records(baseline_, candidate_);
    } catch (const core::Error& error) {
      if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
      judge_.note_damage(error.what());
      report_.coverage.missing_in_baseline = report_.coverage.candidate_ops;
      report_.coverage.missing_in_candidate = report_.coverage.baseline_ops;
      return false;
    }
    const bool both = baseline_.op_count() != 0 && candidate_.op_count() != 0;
    if (both && pairing_.baseline.ranks != pairing_.candidate.ranks) {
      refuse("the two dumps were recorded by different sets of ranks");
      return false;
    }
    verdict_.matched = pairing_.matched;
    report_.coverage.missing_in_candidate = report_.coverage.baseline_ops - pairing_.matched;
    report_.coverage.missing_in_baseline = report_.coverage.candidate_ops - pairing_.matched;
    return true;
  }

  void finish() {
    verdict_.damage = judge_.damage();
    for (std::string& warning :
         observations_.warnings(baseline_.manifest(), candidate_.manifest())) {
      report_.warnings.push_back(std::move(warning));
    }
    for (RunSummary& run : report_.runs) {
      mark_damage(run);
      warn_of_missing_reference(run);
    }
    detail::judge_growth(options_.spec.max_growth, report_);
    detail::check_coverage(report_.coverage, verdict_.matched);
    detail::decide(verdict_, report_);
  }

  void warn_of_missing_reference(const RunSummary& run) {
    if (run.missing_reference.empty() || !run.manifest.trace.reference) return;
    const core::TraceReference& reference = *run.manifest.trace.reference;
    report_.warnings.push_back(fmt::format(
        "{}: the bytes of {} contents were neither verified nor measured, digests alone "
        "decided there: {}",
        run.location,
        reference.contents,
        run.missing_reference));
  }

  void mark_damage(RunSummary& run) const {
    for (const std::string& sentence : verdict_.damage) {
      if (sentence.find(run.location) == std::string::npos) continue;
      run.status = "damaged";
      run.message = sentence;
      return;
    }
  }

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  const CompareOptions& options_;
  detail::TensorJudge judge_;
  detail::Pairing pairing_;
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
