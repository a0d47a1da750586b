// SPDX-License-Identifier: Apache-2.0
#include "comparators/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comparators/detail/cause.h"
#include "comparators/detail/hunks.h"
#include "comparators/detail/observations.h"
#include "comparators/detail/op_judge.h"
#include "comparators/detail/op_text.h"
#include "comparators/detail/pairing.h"
#include "comparators/detail/rng_ledger.h"
#include "comparators/detail/tensor_judge.h"
#include "comparators/detail/verdict.h"
#include "comparators/differences.h"
#include "comparators/named_tensors.h"
#include "comparators/policy.h"
#include "core/error.h"

namespace repro_check::comparators {
namespace {

using detail::Event;
using detail::Hunk;
using detail::OpFindings;
using detail::OpOutcome;

constexpr std::size_t kRememberedScalars = 10'000;

class Comparison {
 public:
  Comparison(const core::DumpSource& baseline,
             const core::DumpSource& candidate,
             const CompareOptions& options)
      : baseline_(baseline),
        candidate_(candidate),
        options_(options),
        judge_(baseline, candidate, options),
        rng_(baseline.manifest(), candidate.manifest()) {}

  Report run() {
    describe_runs();
    if (comparable()) {
      verify_all();
      if (pair()) walk();
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
    evidence_.baseline = &baseline_.manifest();
    evidence_.candidate = &candidate_.manifest();
    evidence_.differences = &report_.differences;
    evidence_.named_tensors = &report_.named_tensors;
    evidence_.pairing = &pairing_;
    evidence_.rng = &rng_;
    evidence_.outcomes.assign(pairing_.candidate_of.size(), OpOutcome::kUnseen);
    return true;
  }

  void walk() {
    const detail::HunkJudge hunks(baseline_, candidate_, pairing_);
    const std::vector<Event> events = detail::order_events(pairing_);
    Hunk hunk;
    for (const Event& event : events) {
      if (event.matched()) {
        if (!hunk.missing.empty() || !hunk.extra.empty()) {
          hunk.rejoined = true;
          take_hunk(hunk, hunks);
          hunk = {};
        }
        take_pair(event);
        hunk.before = event;
      } else if (event.candidate == kUnmatched) {
        hunk.missing.push_back(event.baseline);
      } else {
        hunk.extra.push_back(event.candidate);
      }
    }
    if (!hunk.missing.empty() || !hunk.extra.empty()) take_hunk(hunk, hunks);
    if (hunks.reordered() != 0) {
      report_.reasons.push_back(fmt::format(
          "{} operators were called on both sides in another order", hunks.reordered()));
    }
    if (pairing_.gave_up) {
      report_.warnings.emplace_back(
          "the alignment gave up on a part of the two streams: operators there count as missing "
          "although some may correspond");
    }
  }

  void take_hunk(const Hunk& hunk, const detail::HunkJudge& hunks) {
    if (!report_.control_flow) report_.control_flow = hunks.control_flow(hunk);
    for (const std::uint32_t place : hunk.missing) see_draw(baseline_, place, true);
    for (const std::uint32_t place : hunk.extra) see_draw(candidate_, place, false);
    report_.divergences_total += hunks.items(hunk);
    for (OpDivergence& item : hunks.describe(hunk, first_text(), room())) keep(std::move(item));
  }

  /// Only a dump whose operators draw at all has to be read for it.
  void see_draw(const core::DumpSource& source, std::uint32_t place, bool in_baseline) {
    if (source.manifest().trace.drawing_operators == 0) return;
    rng_.see_unmatched(source.op(place), in_baseline);
  }

  /// The first divergence, for those that come after it.
  [[nodiscard]] std::string first_text() const {
    if (!report_.first_divergence) return {};
    const OpDivergence& first = *report_.first_divergence;
    return detail::op_text(first.baseline_index ? first.baseline : first.candidate);
  }

  [[nodiscard]] std::size_t room() const noexcept {
    const std::size_t used = report_.divergences.size();
    const std::size_t free = used < options_.max_items ? options_.max_items - used : 0;
    // The first one comes on top; without a limit there is nothing above.
    const bool is_first = !report_.first_divergence && free < SIZE_MAX;
    return free + (is_first ? 1U : 0U);
  }

  void keep(OpDivergence item) {
    count_occurrence(item);
    if (!report_.first_divergence) {
      report_.first_divergence = std::move(item);
    } else if (report_.divergences.size() < options_.max_items) {
      report_.divergences.push_back(std::move(item));
    }
  }

  void count_occurrence(OpDivergence& item) const {
    const bool in_baseline = item.baseline_index.has_value();
    const auto& keys = in_baseline ? pairing_.baseline.keys : pairing_.candidate.keys;
    const std::uint64_t place = in_baseline ? *item.baseline_index : *item.candidate_index;
    const auto end = keys.begin() + static_cast<std::ptrdiff_t>(place);
    item.occurrence = static_cast<std::uint64_t>(std::count(keys.begin(), end, *end));
  }

  void take_pair(const Event& event) {
    core::OpRecord from;
    core::OpRecord to;
    try {
      from = baseline_.op(event.baseline);
      to = candidate_.op(event.candidate);
    } catch (const core::Error& error) {
      if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
      judge_.note_damage(error.what());
      if (verdict_.first_not_judged.empty()) {
        verdict_.first_not_judged = fmt::format("op {}: its record is damaged", event.baseline);
      }
      conclude(event.baseline, OpOutcome::kNotJudged);
      return;
    }
    rng_.see(from, to);
    const bool other_device = baseline_.manifest().device != candidate_.manifest().device;
    OpFindings findings = detail::judge_op(from, to, options_, other_device, judge_);
    observations_.see(from, to, findings);
    conclude(event.baseline, findings.outcome);
    note_progress(from, findings);
    if (findings.fails()) diverge(from, to, std::move(findings));
  }

  void conclude(std::uint32_t baseline, OpOutcome outcome) {
    Coverage& coverage = report_.coverage;
    evidence_.outcomes[baseline] = outcome;
    switch (outcome) {
      case OpOutcome::kEqual:
        ++coverage.equal;
        break;
      case OpOutcome::kWithin:
        ++coverage.within_policy;
        break;
      case OpOutcome::kDiverged:
        ++coverage.diverged;
        break;
      case OpOutcome::kMismatched:
        ++coverage.mismatched;
        break;
      case OpOutcome::kSkipped:
        ++coverage.skipped;
        return;
      case OpOutcome::kNotJudged:
      case OpOutcome::kUnseen:
        ++coverage.not_judged;
        return;
    }
    ++coverage.compared;
  }

  void note_progress(const core::OpRecord& from, const OpFindings& findings) {
    Coverage& coverage = report_.coverage;
    coverage.tensors += findings.tensors;
    coverage.sliced += static_cast<std::uint64_t>(std::ranges::count_if(
        findings.outputs, [](const TensorComparison& output) { return output.slice.has_value(); }));
    coverage.elements += findings.elements;
    coverage.bytes += findings.bytes;
    verdict_.values += findings.values;
    if (findings.bits_differ && !report_.first_bit_difference) {
      report_.first_bit_difference = from.index;
    }
    if (findings.outcome == OpOutcome::kNotJudged && verdict_.first_not_judged.empty()) {
      verdict_.first_not_judged = detail::op_text(from);
      for (const TensorComparison& output : findings.outputs) {
        if (output.outcome != TensorOutcome::kUncomparable) continue;
        verdict_.first_not_judged +=
            fmt::format(" output {}: {}", output.baseline.slot, output.note);
        break;
      }
    }
    if (findings.outcome == OpOutcome::kWithin) {
      for (const TensorComparison& output : findings.outputs) {
        double& worst = evidence_.passed_error[from.index];
        if (output.metrics) worst = std::max(worst, output.metrics->l2_rel.value_or(0));
      }
    }
    for (const detail::ScalarDifference& result : findings.results) {
      if (evidence_.scalar_results.size() >= kRememberedScalars) break;
      evidence_.scalar_results.try_emplace({result.baseline, result.candidate}, from.index);
    }
  }

  void diverge(const core::OpRecord& from, const core::OpRecord& to, OpFindings findings) {
    if (!report_.first_divergence) measure_inputs(from, findings);
    detail::Attribution why = detail::attribute(from, to, findings, evidence_);
    const bool has_producer = why.relation == Relation::kPropagated || !why.producers.empty();
    ++(has_producer ? report_.coverage.propagated : report_.coverage.origins);
    const auto root =
        why.producers.empty() ? evidence_.root_of.end() : evidence_.root_of.find(why.producers[0]);
    evidence_.root_of[from.index] =
        root != evidence_.root_of.end()
            ? root->second
            : (why.producers.empty() ? from.index : why.producers.front());
    if (from.parent >= 0) {
      evidence_.divergent_child.try_emplace(static_cast<std::uint64_t>(from.parent), from.index);
    }
    ++report_.divergences_total;
    if (room() == 0) return;
    OpDivergence item;
    item.baseline_index = from.index;
    item.candidate_index = to.index;
    item.baseline = from;
    item.candidate = to;
    item.relation = why.relation;
    item.kind = why.kind;
    item.producers = std::move(why.producers);
    item.cause = std::move(why.cause);
    item.severity = findings.severity;
    item.outputs = std::move(findings.outputs);
    item.inputs = std::move(findings.inputs);
    for (const auto* scalars : {&findings.arguments, &findings.results}) {
      for (const detail::ScalarDifference& scalar : *scalars) item.notes.push_back(scalar.text());
    }
    keep(std::move(item));
  }

  /// Of the first divergence a reader wants to know how far its inputs were apart.
  void measure_inputs(const core::OpRecord& from, OpFindings& findings) {
    for (TensorComparison& input : findings.inputs) {
      if (input.outcome == TensorOutcome::kMismatch || input.metrics) continue;
      input = judge_.judge(input.baseline,
                           input.candidate,
                           detail::Depth::kValues,
                           fmt::format("op {} input {}", from.index, input.baseline.slot));
    }
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
  detail::RngLedger rng_;
  detail::Pairing pairing_;
  detail::Evidence evidence_;
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
