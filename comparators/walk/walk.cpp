// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "comparators/cause/cause.h"
#include "comparators/cause/hunks.h"
#include "comparators/cause/replaced.h"
#include "comparators/cause/spread.h"
#include "comparators/judge/unfilled.h"
#include "comparators/measure/records.h"
#include "comparators/walk/judged_call.h"
#include "comparators/walk/lookahead.h"
#include "comparators/walk/returned.h"
#include "comparators/walk/step_watch.h"
#include "comparators/walk/tallies.h"
#include "comparators/walk/trail_keeper.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::comparators {
namespace {

constexpr std::size_t kRememberedScalars = 10'000;
constexpr std::uint64_t kMostAlone = 100'000;

/// Goes through both traces once, in the order in which calls ended: judges every matched pair,
/// describes what has no counterpart, and looks for the cause of what fails.
class Walk {
 public:
  explicit Walk(const WalkContext& context) : context_(context) {}

  void run() {
    const core::LargeVector<OpPair> events = order_events(context_.pairing);
    Lookahead ahead(context_, events);
    Pace pace(context_.options, ComparePhase::kComparing, events.size());
    Hunk hunk;
    for (std::size_t at = 0; at < events.size(); ++at) {
      const OpPair& event = events[at];
      ahead.reach(at);
      pace.add(1);
      if (event.matched()) {
        if (!hunk.empty()) {
          hunk.rejoined = true;
          take_hunk(hunk);
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
    if (!hunk.empty()) take_hunk(hunk);
    pace.finish();
    note_replaced();
    if (report_.first_divergence) explain_handed_out(*report_.first_divergence);
    judge_returned(context_, evidence_);
    report_.draws = evidence_.rng.draws();
    report_.draws.of_host = moved_generators(context_.candidate.manifest());
    report_.steps = steps_.finish();
    taint_.finish(report_);
    report_.trail = trail_.finish();
    rank_firsts_.finish(report_);
  }

 private:
  /// The first divergence, for those that come after it: `op 3 aten::relu (m)`; empty while all is
  /// fine.
  [[nodiscard]] std::string first_text() const {
    return report_.first_divergence ? op_text(shown_record(*report_.first_divergence)) : "";
  }

  /// How many more divergences would be kept.
  [[nodiscard]] std::size_t room() const noexcept {
    const std::size_t most = context_.options.max_items;
    const std::size_t free = most - std::min(most, report_.divergences.size());
    // The first one comes on top; without a limit there is nothing above.
    return free + (!report_.first_divergence && free < SIZE_MAX ? 1U : 0U);
  }

  /// Of two releases, the hunk without what the other one does by other operators.
  Hunk without_replaced(const Hunk& hunk) {
    if (!two_releases_ || take_replaced(hunk)) return two_releases_ ? Hunk{} : hunk;
    Hunk rest;
    rest.before = hunk.before;
    rest.rejoined = hunk.rejoined;
    for (const Hunk& part : hunks_.split(hunk)) {
      if (take_replaced(part)) continue;
      rest.missing.insert(rest.missing.end(), part.missing.begin(), part.missing.end());
      rest.extra.insert(rest.extra.end(), part.extra.begin(), part.extra.end());
    }
    return rest;
  }

  bool take_replaced(const Hunk& hunk) {
    bool is_equal = false;
    const auto damage = damage_in(
        [&] { is_equal = gave_equal_results(context_.baseline, context_.candidate, hunk); });
    if (damage || !is_equal) return false;
    Coverage& coverage = report_.coverage;
    if (coverage.replaced_baseline + coverage.replaced_candidate == 0) {
      first_replaced_ = replaced_text(context_.baseline, context_.candidate, hunk);
    }
    coverage.replaced_baseline += hunk.missing.size();
    coverage.replaced_candidate += hunk.extra.size();
    coverage.missing_in_candidate -= hunk.missing.size();
    coverage.missing_in_baseline -= hunk.extra.size();
    for (const std::uint32_t op : hunk.missing) {
      modules_.see(context_.baseline.op_head(op), OpOutcome::kEqual);
    }
    return true;
  }

  void note_replaced() {
    const Coverage& coverage = report_.coverage;
    if (coverage.replaced_baseline + coverage.replaced_candidate == 0) return;
    report_.warnings.push_back(Phrase("replaced-alike",
                                      {{"baseline", coverage.replaced_baseline},
                                       {"candidate", coverage.replaced_candidate},
                                       {"first", first_replaced_}}));
  }

  void take_hunk(const Hunk& whole) {
    const Hunk hunk = without_replaced(whole);
    if (hunk.empty()) return;
    const std::optional<Decision> decision = decisions_.last();
    if (!report_.control_flow) report_.control_flow = hunks_.control_flow(hunk, decision);
    for (const std::uint32_t op : hunk.missing) take_alone(op, true);
    for (const std::uint32_t op : hunk.extra) take_alone(op, false);
    taint_.see_hunk(hunk);
    trail_.see_hunk(hunk);
    for (const Hunk& part : hunks_.split(hunk)) {
      report_.divergences_total += hunks_.items(part);
      hunks_.describe(part,
                      first_text(),
                      decision,
                      context_.options.observer.see ? SIZE_MAX : room(),
                      [this](OpDivergence item) { keep(std::move(item)); });
    }
  }

  void take_alone(std::uint32_t place, bool in_baseline) {
    const core::DumpSource& source = evidence_.dump(in_baseline);
    const core::OpRecord head = source.op_head(place);
    rank_firsts_.see(head, in_baseline);
    modules_.see(head, OpOutcome::kUnseen);
    // All of them are read only where some may draw: traces of another order have millions.
    const bool draws = source.manifest().trace.drawing_operators != 0;
    if (!draws && alone_ >= kMostAlone) return;
    ++alone_;
    try {
      const core::OpRecord record = source.op(place);
      if (draws) evidence_.rng.see_unmatched(record, in_baseline);
      context_.observations.see_alone(record, in_baseline);
      steps_.see_alone(record, in_baseline);
    } catch (const core::Error& error) {
      if (draws || error.kind() != core::ErrorKind::kDumpDamaged) throw;
    }
  }

  /// @return whether bits differ
  bool take_pair(const OpPair& event) {
    std::optional<JudgedCall> read = read_call(context_, event);
    if (!read) {
      take_damaged(event);
      return false;
    }
    JudgedCall& call = *read;
    if (call.baseline.parent >= 0) with_inside_.insert(call.baseline.parent);
    call.has_inside = with_inside_.contains(static_cast<std::int64_t>(event.baseline));
    evidence_.rng.see(call);
    evidence_.see_gradients(call);
    judge_op(call, context_.options, context_.judge);
    if (call.findings.fails()) unfilled_.settle(call);
    context_.observations.see(call);
    context_.observations.note_unwritten(call, evidence_);
    steps_.see(call);
    decisions_.see(call);
    const bool differs = call.findings.bits_differ;
    conclude(event.baseline, call.findings.outcome);
    modules_.see(call.baseline, call.findings.outcome);
    note_progress(call);
    remember(call);
    remember_named(call.baseline);
    if (call.findings.fails()) diverge(call);
    taint_.see(call);
    trail_.see(call);
    evidence_.baseline_writes.see(call.baseline, differs);
    evidence_.candidate_writes.see(call.candidate, differs);
    const OpObserver& observer = context_.options.observer;
    const bool fails = call.why.has_value();
    if (fails ? room() != 0 || observer.see : observer.see_fine != nullptr) {
      const OpState state = state_of(call);
      OpDivergence item = to_item(std::move(call));
      item.matched_by = context_.pairing.how[event.baseline];
      fails ? keep(std::move(item)) : tell_fine(std::move(item), state);
    }
    return differs;
  }

  void take_damaged(const OpPair& event) {
    Phrases& first = context_.verdict.first_not_judged;
    if (first.empty()) first.push_back(Phrase("record-damaged", {{"op", event.baseline}}));
    conclude(event.baseline, OpOutcome::kNotJudged);
    trail_.see_damaged(event);
    OpDivergence item;
    item.baseline_index = event.baseline;
    item.candidate_index = event.candidate;
    tell_fine(std::move(item), OpState::kNotJudged);
  }

  /// One that is not fine: for the observer, and for the report where that has room.
  void keep(OpDivergence item) {
    occurrences_.fill(item);
    // Steps are those of the baseline, from which a run that resumes counts on.
    if (!item.baseline_index) item.candidate.step += context_.pairing.steps_before;
    if (context_.options.observer.see) context_.options.observer.see(item);
    if (room() == 0) return;
    if (!report_.first_divergence) {
      put_line_of_backward(context_.baseline, item.baseline_index, item.baseline);
      put_line_of_backward(context_.candidate, item.candidate_index, item.candidate);
      report_.first_divergence = std::move(item);
    } else {
      report_.divergences.push_back(std::move(item));
    }
  }

  /// What autograd itself calls has no line: that of the backward pass is where it was called from.
  static void put_line_of_backward(const core::DumpSource& dump,
                                   std::optional<std::uint64_t> op,
                                   core::OpRecord& record) {
    if (!op || record.phase != core::Phase::kBackward) return;
    if (record.site && core::display_frame(*record.site) != nullptr) return;
    const auto called = last_site(dump, *op, core::kLossRecord);
    if (!called) return;
    core::CallSite site = record.site ? *record.site : core::CallSite();
    site.frames = called->frames;
    record.site = std::make_shared<const core::CallSite>(std::move(site));
  }

  /// One run alone takes the memory of a tensor, as `numpy()` does by an operator that computes
  /// nothing, and a later operator reads in it what no operator wrote: the program did.
  void explain_handed_out(OpDivergence& first) {
    if (first.relation != Relation::kMissing) return;
    if (!context_.baseline.manifest().is_of_program()) return;
    const bool in_baseline = first.baseline_index.has_value();
    const core::TensorRecord* memory = handed_out(shown_record(first));
    if (memory == nullptr) return;
    const auto reads_it = [&](const OpDivergence& op) {
      return op.cause.kind == CauseKind::kUnobservedWrite && op.relation == Relation::kOrigin &&
             std::ranges::any_of(op.inputs, [&](const TensorComparison& input) {
               return (in_baseline ? input.baseline : input.candidate).storage == memory->storage;
             });
    };
    const auto reader = std::ranges::find_if(report_.divergences, reads_it);
    if (reader == report_.divergences.end()) return;
    lead_with({CauseKind::kUnobservedWrite,
               {Phrase("handed-out",
                       {{"run", run_field(in_baseline)}, {"op", op_text(shown_record(*reader))}})},
               Phrase("do-look-at-written")},
              first.cause);
  }

  /// The input whose memory is all that an operator returns, null where it computes something.
  static const core::TensorRecord* handed_out(const core::OpRecord& record) {
    if (!record.op || !is_word_of("detach alias", core::base_name(record.op->name))) return nullptr;
    const auto inputs = tensors_of(record, core::TensorRole::kInput);
    return inputs.empty() || inputs.front()->storage < 0 ? nullptr : inputs.front();
  }

  void tell_fine(OpDivergence item, OpState state) {
    if (!context_.options.observer.see_fine) return;
    occurrences_.fill(item);
    context_.options.observer.see_fine(item, state);
  }

  void conclude(std::uint32_t baseline, OpOutcome outcome) {
    evidence_.outcomes.set(baseline, outcome);
    count_outcome(outcome, report_.coverage.mismatched, report_.coverage);
  }

  /// Of the operators that are counted so, the names of the first.
  void note_without_content(const core::OpRecord& record) {
    ++report_.coverage.without_content;
    constexpr std::size_t kMost = 64;
    auto& operators = report_.without_content;
    const auto known = std::ranges::find(operators, record.op->name, &OperatorCount::name);
    if (known != operators.end()) {
      ++known->calls;
    } else if (operators.size() < kMost) {
      operators.push_back({record.op->name, 1});
    }
  }

  void note_progress(const JudgedCall& call) {
    const OpFindings& findings = call.findings;
    Coverage& coverage = report_.coverage;
    coverage.outputs += findings.tally.outputs;
    coverage.tensors += findings.tally.tensors;
    coverage.metadata_only += findings.tally.metadata_only;
    coverage.ignored += findings.tally.ignored;
    coverage.not_judged_tensors += findings.tally.not_judged;
    coverage.sliced += static_cast<std::uint64_t>(std::ranges::count_if(
        findings.outputs, [](const TensorComparison& output) { return output.slice.has_value(); }));
    if (findings.without_content) note_without_content(call.baseline);
    coverage.elements += findings.elements;
    coverage.bytes += findings.bytes;
    report_.screened.tensors += findings.screened.tensors;
    report_.screened.elements += findings.screened.elements;
    report_.screened.beyond += findings.screened.beyond;
    note_obstacles(findings, context_.verdict);
    context_.verdict.values += findings.values;
    if (findings.bits_differ && !report_.first_bit_difference) {
      report_.first_bit_difference = call.baseline.index;
    }
    Phrases& first = context_.verdict.first_not_judged;
    if (findings.outcome != OpOutcome::kNotJudged || !first.empty()) return;
    Phrase& named = first.emplace_back("operator-note");
    named.with("operator", op_text(call.baseline));
    if (const TensorComparison* output = first_uncomparable(findings)) {
      named.with("slot", output->baseline.slot).with("note", output->note);
    }
  }

  /// What causes of later operators are seen by.
  void remember(const JudgedCall& call) {
    const OpFindings& findings = call.findings;
    if (findings.outcome == OpOutcome::kWithin) {
      double worst = 0;
      for (const TensorComparison& output : findings.outputs) {
        if (output.metrics) worst = std::max(worst, output.metrics->l2_rel.value_or(0));
      }
      if (worst > 0) evidence_.passed_error.set(call.baseline.index, worst);
    }
    for (const ScalarDifference& result : findings.results) {
      if (evidence_.scalar_results.size() >= kRememberedScalars) return;
      evidence_.scalar_results.try_emplace({result.baseline, result.candidate},
                                           call.baseline.index);
    }
  }

  void remember_named(const core::OpRecord& record) {
    const bool is_step = record.op->name == core::kStepRecord;
    if (!is_step && record.op->name != core::kOrderRecord) return;
    std::vector<std::uint64_t>& known = is_step ? evidence_.optimizer_steps : evidence_.orders;
    known.insert(std::ranges::upper_bound(known, record.index), record.index);
  }

  void remember_unmade(const JudgedCall& call) {
    for (const TensorComparison& input : call.findings.inputs) {
      if (evidence_.unmade.size() >= kRememberedScalars) return;
      if (input.baseline.producer >= 0 || input.candidate.producer >= 0) continue;
      const core::TensorRecord& here = input.baseline;
      evidence_.unmade.try_emplace({here.storage, here.digest, input.candidate.digest},
                                   call.baseline.index);
    }
  }

  void diverge(JudgedCall& call) {
    if (!report_.first_divergence) measure_inputs(call);
    const Attribution& why = call.why.emplace(attribute(call, evidence_));
    const bool has_producer = why.relation == Relation::kPropagated || !why.producers.empty();
    ++(has_producer ? report_.coverage.propagated : report_.coverage.origins);
    remember_root(call.baseline, why);
    remember_unmade(call);
    if (core::is_of_worker(call.baseline.lane)) {
      std::vector<std::uint64_t>& known = evidence_.of_workers;
      known.insert(std::ranges::upper_bound(known, call.baseline.index), call.baseline.index);
    }
    ++report_.divergences_total;
    rank_firsts_.see(call.baseline, true);
  }

  void remember_root(const core::OpRecord& from, const Attribution& why) {
    auto root = static_cast<std::uint32_t>(from.index);
    // What is equal in both runs may have handed a difference on, but made none.
    const auto parted = std::ranges::find_if(why.producers, [this](std::uint64_t op) {
      return evidence_.outcomes.at(op) != OpOutcome::kEqual;
    });
    if (parted != why.producers.end()) {
      const std::uint32_t known = evidence_.root_of.at(*parted);
      root = known != kUnmatched ? known : static_cast<std::uint32_t>(*parted);
    }
    evidence_.root_of.set(from.index, root);
    const auto parent = static_cast<std::uint64_t>(from.parent);
    if (from.parent >= 0 && evidence_.divergent_child.at(parent) == kUnmatched) {
      evidence_.divergent_child.set(parent, static_cast<std::uint32_t>(from.index));
    }
  }

  /// Of the first divergence a reader wants to know how far its inputs were apart.
  void measure_inputs(JudgedCall& call) {
    const core::OpRecord& from = call.baseline;
    for (TensorComparison& input : call.findings.inputs) {
      if (input.outcome == TensorOutcome::kMismatch || input.metrics) continue;
      input = context_.judge.judge({input.baseline, input.candidate, from, call.candidate},
                                   Depth::kValues,
                                   fmt::format("op {} input {}", from.index, input.baseline.slot),
                                   context_.judge.rules().choose_for_input(from, input.baseline));
    }
  }

  WalkContext context_;
  Report& report_ = context_.report;
  Evidence evidence_{context_.baseline, context_.candidate, context_.pairing, report_};
  UnfilledInside unfilled_{context_.baseline, context_.candidate, context_.pairing};
  HunkJudge hunks_{evidence_};
  Taint taint_{evidence_};
  DecisionWatch decisions_;
  StepWatch steps_{report_.coverage, context_.pairing.steps_before};
  ModuleCounter modules_{report_.modules};
  TrailKeeper trail_{context_.baseline, context_.candidate, context_.options.keep_trail};
  Occurrences occurrences_{context_.pairing};
  RankFirsts rank_firsts_{context_.pairing.baseline.ranks};
  bool two_releases_ =
      are_of_two_releases(context_.baseline.manifest(), context_.candidate.manifest());
  std::string first_replaced_;  ///< in words
  std::uint64_t alone_ = 0;     ///< operators without a counterpart that were read
  std::unordered_set<std::int64_t> with_inside_;  ///< of the baseline: with operators inside
};

}  // namespace

void walk(const WalkContext& context) { Walk(context).run(); }

}  // namespace repro_check::comparators
