// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "comparators/align/alignment_summary.h"
#include "comparators/align/events.h"
#include "comparators/align/pace.h"
#include "comparators/judge/coverage.h"
#include "comparators/judge/op_tensors.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/report/compare_options.h"
#include "comparators/report/op_text.h"
#include "comparators/walk/returned.h"
#include "core/content/content.h"
#include "core/error.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators::detail {
namespace {

/// Where operators differ, reads on in the order of the walk and has the outputs that differ
/// measured together: most are too small to keep more than one thread busy. It changes how long a
/// comparison takes, and nothing else. Everything is borrowed.
class Lookahead {
 public:
  Lookahead(const core::DumpSource& baseline,
            const core::DumpSource& candidate,
            const CompareOptions& options,
            std::span<const Event> events,
            TensorJudge& judge);

  /// To be called for every event before it is walked.
  void reach(std::size_t at);
  /// An operator differs, so that more of them probably will.
  void expect_more() noexcept { expected_ = true; }

 private:
  /// @return bytes a side
  std::uint64_t add_outputs(const Event& event, std::vector<TensorJudge::Upcoming>& into);

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  std::span<const Event> events_;
  TensorJudge& judge_;
  bool useful_;
  bool expected_ = false;
  std::size_t end_ = 0;  ///< of what was looked at
};

constexpr std::size_t kEvents = 256;
/// A side: enough that all threads end at about the same time.
constexpr std::uint64_t kBytes = std::uint64_t{128} << 20U;

bool will_be_measured(const core::TensorRecord& from, const core::TensorRecord& to) {
  return from.state == core::ContentState::kHashed && to.state == core::ContentState::kHashed &&
         from.digest != to.digest && from.dtype == to.dtype && from.shape == to.shape &&
         from.layout == to.layout && from.attributes == to.attributes;
}

bool has_contents(const core::DumpSource& source) { return source.manifest().trace.contents != 0; }

Lookahead::Lookahead(const core::DumpSource& baseline,
                     const core::DumpSource& candidate,
                     const CompareOptions& options,
                     std::span<const Event> events,
                     TensorJudge& judge)
    : baseline_(baseline),
      candidate_(candidate),
      events_(events),
      judge_(judge),
      // The run in float64 is asked for one output after the other.
      useful_(options.fp64 == nullptr && judge.same_algorithm() && has_contents(baseline) &&
              has_contents(candidate)) {}

void Lookahead::reach(std::size_t at) {
  if (!useful_ || !expected_ || at < end_) return;
  expected_ = false;
  end_ = at;
  std::vector<TensorJudge::Upcoming> upcoming;
  std::uint64_t bytes = 0;
  const std::size_t last = std::min(at + kEvents, events_.size());
  while (end_ < last && bytes < kBytes) bytes += add_outputs(events_[end_++], upcoming);
  judge_.measure_ahead(upcoming);
}

std::uint64_t Lookahead::add_outputs(const Event& event, std::vector<TensorJudge::Upcoming>& into) {
  if (!event.matched()) return 0;
  core::OpRecord from;
  core::OpRecord to;
  try {
    from = baseline_.op(event.baseline);
    to = candidate_.op(event.candidate);
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
    return 0;  // the walk says so
  }
  const auto left = tensors_of(from, core::TensorRole::kOutput);
  const auto right = tensors_of(to, core::TensorRole::kOutput);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (!will_be_measured(*left[i], *right[i])) continue;
    const RuleBook::Choice choice = judge_.rules().choose_for_output(from, *left[i]);
    const bool judged =
        choice.policy != nullptr && choice.policy->kind != configs::PolicyKind::kIgnore;
    if (!judged || choice.policy->flush_subnormals) continue;
    into.push_back({left[i]->content_key(), right[i]->content_key(), choice});
    bytes += core::content_size(into.back().baseline);
  }
  return bytes;
}

constexpr std::size_t kRememberedScalars = 10'000;
constexpr std::uint64_t kMostAlone = 100'000;

ModuleOutcome module_outcome(const OpFindings& findings) {
  if (findings.fails()) return ModuleOutcome::kNotFine;
  const bool is_judged =
      findings.outcome == OpOutcome::kEqual || findings.outcome == OpOutcome::kWithin;
  return is_judged ? ModuleOutcome::kFine : ModuleOutcome::kNotJudged;
}

}  // namespace

bool read_pair(const WalkContext& context,
               std::uint32_t baseline,
               std::uint32_t candidate,
               core::OpRecord& from,
               core::OpRecord& to) {
  const core::DumpSource* reading = &context.baseline;
  try {
    from = reading->op(baseline);
    lift_producers(context.pairing.baseline, from);
    reading = &context.candidate;
    to = reading->op(candidate);
    lift_producers(context.pairing.candidate, to);
    return true;
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
    context.judge.note_damage(reading, error.what());
    return false;
  }
}

OpDivergence to_item(const core::OpRecord& from,
                     const core::OpRecord& to,
                     OpFindings findings,
                     Attribution why) {
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
    for (const ScalarDifference& scalar : *scalars) item.notes.push_back(scalar.text());
  }
  return item;
}

Walk::Walk(const WalkContext& context)
    : context_(context),
      other_device_(context.baseline.manifest().device != context.candidate.manifest().device),
      rng_(context.baseline.manifest(), context.candidate.manifest()),
      taint_(context.pairing),
      list_(context.options.max_items, context.report),
      modules_(context.report),
      trail_(context.baseline, context.candidate, context.options.keep_trail),
      occurrences_(context.pairing),
      rank_firsts_(context.pairing.baseline.ranks) {
  evidence_.baseline = &context.baseline.manifest();
  evidence_.candidate = &context.candidate.manifest();
  evidence_.baseline_dump = &context.baseline;
  evidence_.candidate_dump = &context.candidate;
  evidence_.differences = &context.report.differences;
  evidence_.suspects =
      suspects_of(*evidence_.baseline, *evidence_.candidate, context.report.differences);
  evidence_.named_tensors = &context.report.named_tensors;
  evidence_.pairing = &context.pairing;
  evidence_.rng = &rng_;
  evidence_.baseline_writes = &baseline_writes_;
  evidence_.candidate_writes = &candidate_writes_;
  evidence_.baseline_allocations = &baseline_allocations_;
  evidence_.candidate_allocations = &candidate_allocations_;
  evidence_.outcomes.assign(context.pairing.candidate_of.size(), OpOutcome::kUnseen);
}

void Walk::run() {
  const HunkJudge hunks(
      context_.baseline, context_.candidate, context_.pairing, evidence_.suspects);
  const core::LargeVector<Event> events = order_events(context_.pairing);
  Lookahead ahead(context_.baseline, context_.candidate, context_.options, events, context_.judge);
  Pace pace(context_.options, ComparePhase::kComparing, events.size());
  Hunk hunk;
  for (std::size_t at = 0; at < events.size(); ++at) {
    const Event& event = events[at];
    ahead.reach(at);
    pace.add(1);
    if (event.matched()) {
      if (!hunk.empty()) {
        hunk.rejoined = true;
        take_hunk(hunk, hunks);
        hunk = {};
      }
      if (take_pair(event)) ahead.expect_more();
      hunk.before = event;
    } else if (event.candidate == kUnmatched) {
      hunk.missing.push_back(event.baseline);
    } else {
      hunk.extra.push_back(event.candidate);
    }
  }
  if (!hunk.empty()) take_hunk(hunk, hunks);
  pace.finish();
  judge_returned(context_, evidence_, other_device_);
  context_.report.draws = rng_.draws();
  taint_.finish(context_.baseline, context_.report);
  context_.report.trail = trail_.finish();
  rank_firsts_.finish(context_.report);
  if (!context_.pairing.moved.empty()) {
    context_.report.reasons.push_back(fmt::format(
        "{} operators were called on both sides in another order", context_.pairing.moved.size()));
  }
  for (std::string& warning : alignment_warnings(context_.report)) {
    context_.report.warnings.push_back(std::move(warning));
  }
}

void Walk::take_hunk(const Hunk& hunk, const HunkJudge& hunks) {
  Report& report = context_.report;
  const PartingContext context{list_.first_text(), decisions_.last()};
  if (!report.control_flow) report.control_flow = hunks.control_flow(hunk, context);
  note_ranks(hunk);
  for (const std::uint32_t op : hunk.missing) {
    modules_.see(context_.baseline.op_head(op), ModuleOutcome::kNotFine);
  }
  for (const std::uint32_t op : hunk.extra) {
    modules_.see(context_.candidate.op_head(op), ModuleOutcome::kNotFine);
  }
  for (const std::uint32_t place : hunk.missing) see_alone(context_.baseline, place, true);
  for (const std::uint32_t place : hunk.extra) see_alone(context_.candidate, place, false);
  taint_.see_hunk(hunk, context_.baseline, context_.candidate);
  trail_.see_hunk(hunk);
  for (const Hunk& part :
       split_by_module(hunk, context_.baseline, context_.candidate, context_.pairing.names)) {
    report.divergences_total += hunks.items(part);
    hunks.describe(part,
                   {list_.first_text(), context.decision},
                   context_.options.observer.see ? SIZE_MAX : list_.room(),
                   [this](OpDivergence item) { keep(std::move(item)); });
  }
}

void Walk::note_ranks(const Hunk& hunk) {
  if (context_.pairing.baseline.ranks.size() < 2) return;
  for (const std::uint32_t op : hunk.missing) {
    rank_firsts_.see(context_.baseline.op_head(op), true);
  }
  for (const std::uint32_t op : hunk.extra) {
    rank_firsts_.see(context_.candidate.op_head(op), false);
  }
}

/// All of them are read only where some may draw: traces of another order have millions.
void Walk::see_alone(const core::DumpSource& source, std::uint32_t place, bool in_baseline) {
  const bool draws = source.manifest().trace.drawing_operators != 0;
  if (!draws && alone_ >= kMostAlone) return;
  ++alone_;
  try {
    const core::OpRecord record = source.op(place);
    if (draws) rng_.see_unmatched(record, in_baseline);
    context_.observations.see_alone(record, in_baseline);
  } catch (const core::Error& error) {
    if (draws || error.kind() != core::ErrorKind::kDumpDamaged) throw;
  }
}

bool Walk::take_pair(const Event& event) {
  core::OpRecord from;
  core::OpRecord to;
  if (!read_pair(context_, event.baseline, event.candidate, from, to)) {
    std::string& first = context_.verdict.first_not_judged;
    if (first.empty()) first = fmt::format("op {}: its record is damaged", event.baseline);
    conclude(event.baseline, OpOutcome::kNotJudged);
    trail_.see_damaged(event);
    OpDivergence item;
    item.baseline_index = event.baseline;
    item.candidate_index = event.candidate;
    tell_fine(std::move(item), OpState::kNotJudged);
    return false;
  }
  rng_.see(from, to);
  OpFindings findings = judge_op(from, to, context_.options, other_device_, context_.judge);
  context_.observations.see(from, to, findings);
  context_.observations.note_unwritten(from, to, evidence_);
  decisions_.see(from, to, findings);
  const bool differs = findings.bits_differ;
  conclude(event.baseline, findings.outcome);
  modules_.see(from, module_outcome(findings));
  note_progress(from, findings);
  remember(from, findings);
  if (findings.fails()) {
    Attribution why = diverge(from, to, findings);
    taint_.see(from, to, findings, &why);
    trail_.see(from, to, findings, &why);
    if (list_.room() != 0 || context_.options.observer.see) {
      OpDivergence item = to_item(from, to, std::move(findings), std::move(why));
      item.matched_by = context_.pairing.how[from.index];
      keep(std::move(item));
    }
  } else {
    taint_.see(from, to, findings, nullptr);
    trail_.see(from, to, findings, nullptr);
    if (context_.options.observer.see_fine) {
      const OpState state = state_of(findings.outcome, nullptr);
      OpDivergence item = to_item(from, to, std::move(findings), {});
      item.matched_by = context_.pairing.how[from.index];
      tell_fine(std::move(item), state);
    }
  }
  baseline_writes_.see(from, differs);
  candidate_writes_.see(to, differs);
  baseline_allocations_.see(from);
  candidate_allocations_.see(to);
  return differs;
}

void Walk::keep(OpDivergence item) {
  occurrences_.fill(item);
  if (context_.options.observer.see) context_.options.observer.see(item);
  list_.keep(std::move(item));
}

void Walk::tell_fine(OpDivergence item, OpState state) {
  if (!context_.options.observer.see_fine) return;
  occurrences_.fill(item);
  context_.options.observer.see_fine(item, state);
}

void Walk::conclude(std::uint32_t baseline, OpOutcome outcome) {
  evidence_.outcomes[baseline] = outcome;
  count_outcome(outcome, context_.report.coverage);
}

void Walk::note_progress(const core::OpRecord& from, const OpFindings& findings) {
  Report& report = context_.report;
  count_outputs(findings, report.coverage);
  report.screened.tensors += findings.screened.tensors;
  report.screened.elements += findings.screened.elements;
  report.screened.beyond += findings.screened.beyond;
  if (context_.verdict.first_unruled.empty()) context_.verdict.first_unruled = findings.unruled;
  if (findings.lacks_floor) context_.verdict.lacks_floor = true;
  if (findings.lacks_fp64) context_.verdict.lacks_fp64 = true;
  context_.verdict.values += findings.values;
  if (findings.bits_differ && !report.first_bit_difference) {
    report.first_bit_difference = from.index;
  }
  if (findings.outcome == OpOutcome::kNotJudged && context_.verdict.first_not_judged.empty()) {
    note_not_judged(from, findings);
  }
}

void Walk::note_not_judged(const core::OpRecord& from, const OpFindings& findings) {
  std::string& text = context_.verdict.first_not_judged;
  text = op_text(from);
  for (const TensorComparison& output : findings.outputs) {
    if (output.outcome != TensorOutcome::kUncomparable) continue;
    text += fmt::format(" output {}: {}", output.baseline.slot, output.note);
    return;
  }
}

/// What causes of later operators are seen by.
void Walk::remember(const core::OpRecord& from, const OpFindings& findings) {
  if (findings.outcome == OpOutcome::kWithin) {
    double worst = 0;
    for (const TensorComparison& output : findings.outputs) {
      if (output.metrics) worst = std::max(worst, output.metrics->l2_rel.value_or(0));
    }
    if (worst > 0) evidence_.passed_error.set(from.index, worst, evidence_.outcomes.size());
  }
  for (const ScalarDifference& result : findings.results) {
    if (evidence_.scalar_results.size() >= kRememberedScalars) return;
    evidence_.scalar_results.try_emplace({result.baseline, result.candidate}, from.index);
  }
}

Attribution Walk::diverge(const core::OpRecord& from,
                          const core::OpRecord& to,
                          OpFindings& findings) {
  Report& report = context_.report;
  if (list_.empty()) measure_inputs(from, to, findings);
  Attribution why = attribute(from, to, findings, evidence_);
  const bool has_producer = why.relation == Relation::kPropagated || !why.producers.empty();
  ++(has_producer ? report.coverage.propagated : report.coverage.origins);
  remember_root(from, why);
  ++report.divergences_total;
  rank_firsts_.see(from, true);
  return why;
}

void Walk::remember_root(const core::OpRecord& from, const Attribution& why) {
  const std::size_t ops = evidence_.outcomes.size();
  auto root = static_cast<std::uint32_t>(from.index);
  if (!why.producers.empty()) {
    const std::uint32_t known = evidence_.root_of.at(why.producers.front());
    root = known != kUnmatched ? known : static_cast<std::uint32_t>(why.producers.front());
  }
  evidence_.root_of.set(from.index, root, ops);
  const auto parent = static_cast<std::uint64_t>(from.parent);
  if (from.parent >= 0 && evidence_.divergent_child.at(parent) == kUnmatched) {
    evidence_.divergent_child.set(parent, static_cast<std::uint32_t>(from.index), ops);
  }
}

/// Of the first divergence a reader wants to know how far its inputs were apart.
void Walk::measure_inputs(const core::OpRecord& from,
                          const core::OpRecord& to,
                          OpFindings& findings) {
  for (TensorComparison& input : findings.inputs) {
    if (input.outcome == TensorOutcome::kMismatch || input.metrics) continue;
    input = context_.judge.judge({input.baseline, input.candidate, from, to},
                                 Depth::kValues,
                                 fmt::format("op {} input {}", from.index, input.baseline.slot),
                                 context_.judge.rules().choose_for_input(from, input.baseline));
  }
}

}  // namespace repro_check::comparators::detail
