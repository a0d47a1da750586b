// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/hunks.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "comparators/measure/records.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

/// A hunk larger than this is no matter of single operators.
constexpr std::size_t kMostSplit = 10'000;

/// Neighbouring records of one module.
struct ModuleRun {
  std::string module;
  Ops places;
};

std::vector<ModuleRun> module_runs(const core::DumpSource& source,
                                   const Ops& places,
                                   const NameRewriter& names) {
  std::vector<ModuleRun> runs;
  for (const std::uint32_t place : places) {
    std::string module = names.module_of(source.op_head(place));
    if (runs.empty() || runs.back().module != module) runs.push_back({std::move(module), {}});
    runs.back().places.push_back(place);
  }
  return runs;
}

constexpr std::size_t kDescribedParts = 4;

/// Length of the shortest body that the keys are a whole number of repetitions of.
std::size_t shortest_period(std::span<const std::uint32_t> keys) {
  Ops border(keys.size(), 0);
  for (std::size_t i = 1; i < keys.size(); ++i) {
    std::size_t length = border[i - 1];
    while (length > 0 && keys[i] != keys[length]) length = border[length - 1];
    border[i] = keys[i] == keys[length] ? static_cast<std::uint32_t>(length) + 1 : 0;
  }
  const std::size_t period = keys.size() - border.back();
  return keys.size() % period == 0 ? period : keys.size();
}

/// How often `body` stands directly before position `end`, repeated.
std::size_t repeats_before(std::span<const std::uint32_t> keys,
                           std::size_t end,
                           std::span<const std::uint32_t> body) {
  std::size_t count = 0;
  while (end >= body.size() &&
         std::ranges::equal(keys.subspan(end - body.size(), body.size()), body)) {
    end -= body.size();
    ++count;
  }
  return count;
}

/// The name that an overload and the variant in place have in common.
std::string_view plain_name(const core::OperatorInfo& op) {
  std::string_view name = op.name;
  while (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

/// What was answered where the streams may have parted for it. An answer that is the same on both
/// sides is worth a word only where they really went different ways.
Phrases decided(const std::optional<Decision>& decision, bool parted) {
  if (!decision || (!decision->differs() && !parted)) return {};
  const std::string who = op_text(decision->op);
  if (!decision->differs()) {
    return {Phrase("answered-alike", {{"op", who}, {"answer", decision->baseline}})};
  }
  return {
      Phrase("answered-apart",
             {{"op", who}, {"baseline", decision->baseline}, {"candidate", decision->candidate}})};
}

/// Consecutive op indices, as a hunk of one side in a plain stream has.
bool consecutive(const Ops& places) {
  return !places.empty() && places.back() - places.front() + 1 == places.size();
}

/// Whether the last output of `whole` is known to be what `last` ends with.
bool end_alike(const core::OpRecord& whole, const core::OpRecord& last) {
  if (whole.tensors.empty() || last.tensors.empty()) return false;
  const core::TensorRecord& left = whole.tensors.back();
  const core::TensorRecord& right = last.tensors.back();
  return core::is_output(left) && left.state == core::ContentState::kHashed &&
         left.state == right.state && left.content_key() == right.content_key();
}

/// What a hunk, or a part of it, is.
struct HunkVerdict {
  DivergenceKind kind = DivergenceKind::kMissing;
  Cause cause;
};

/// One operator in the place of another; of several, each the same with another overload or in
/// place.
bool replaced(const HunkJudge& of, const Hunk& hunk) {
  if (hunk.missing.empty() || hunk.missing.size() != hunk.extra.size()) return false;
  const bool single = hunk.missing.size() == 1;
  for (std::size_t i = 0; i < hunk.missing.size(); ++i) {
    const core::OpRecord from = of.evidence.baseline.op_head(hunk.missing[i]);
    const core::OpRecord to = of.evidence.candidate.op_head(hunk.extra[i]);
    if (of.evidence.module_path(from, true) != of.evidence.module_path(to, false) ||
        from.depth != to.depth || from.step != to.step || !from.op || !to.op ||
        !(single || plain_name(*from.op) == plain_name(*to.op))) {
      return false;
    }
  }
  return true;
}

/// Nothing that is left over here is left over on this side alone.
bool is_reordered(const HunkJudge& of, const Hunk& hunk) {
  return std::ranges::all_of(hunk.missing,
                             [&](std::uint32_t op) {
                               return std::ranges::binary_search(
                                   of.evidence.pairing.moved, op, {}, &OpPair::baseline);
                             }) &&
         std::ranges::all_of(hunk.extra, [&](std::uint32_t op) {
           return std::ranges::binary_search(of.moved_from, op, {}, &OpPair::candidate);
         });
}

/// Records of both sides that are one finding.
std::size_t pairs_in(const HunkJudge& of, const Hunk& hunk) {
  if (of.evidence.pairing.summary.by_position)
    return std::min(hunk.missing.size(), hunk.extra.size());
  return !is_reordered(of, hunk) && replaced(of, hunk) ? hunk.missing.size() : 0;
}

constexpr std::string_view kLookForWhatLeads = "do-look-what-leads";

/// The parameter whose gradient an operator adds to what is there; empty for any other operator.
std::string_view accumulated(const core::OpHead& head) {
  const bool accumulates = head.phase == core::Phase::kBackward && head.site &&
                           head.site->module_type == "AccumulateGrad";
  return accumulates ? std::string_view(head.site->module_path) : std::string_view();
}

/// `train.py:12`, of last_site(); empty where there is none.
std::string last_line(const core::DumpSource& dump, std::uint64_t before, std::string_view kind) {
  return core::line_text(last_site(dump, before, kind).get());
}

/// The step whose gradient an operator adds to, where that is an earlier one than its own.
std::optional<std::uint32_t> stale_step(const core::DumpSource& dump, std::uint32_t op) {
  if (accumulated(dump.op_head(op)).empty()) return std::nullopt;
  const core::OpRecord record = dump.op(op);
  for (const core::TensorRecord& tensor : record.tensors) {
    if (!core::is_input(tensor) || tensor.producer < 0) continue;
    const std::uint32_t step = dump.op_head(static_cast<std::uint64_t>(tensor.producer)).step;
    if (step < record.step) return step;
  }
  return std::nullopt;
}

/// A gradient that was cleared in one run alone: the other adds to what an earlier step left.
std::optional<Cause> stale_gradient(const HunkJudge& of, const Hunk& hunk) {
  const auto find = [&](bool in_baseline) {
    const Ops& places = in_baseline ? hunk.missing : hunk.extra;
    const auto found = std::ranges::find_if(places, [&](std::uint32_t op) {
      return stale_step(of.evidence.dump(in_baseline), op).has_value();
    });
    return found == places.end() ? kUnmatched : *found;
  };
  const std::uint32_t here = find(true);
  const std::uint32_t there = find(false);
  if ((here == kUnmatched) == (there == kUnmatched)) return std::nullopt;
  const bool in_baseline = here != kUnmatched;
  const std::uint32_t op = in_baseline ? here : there;
  const core::DumpSource& dump = of.evidence.dump(in_baseline);
  const core::OpHead head = dump.op_head(op);
  return Cause(CauseKind::kOperatorDiffers,
               {Phrase("gradient-not-cleared",
                       {{"name", std::string(accumulated(head))},
                        {"run", run_field(in_baseline)},
                        {"loss_line", last_line(dump, op, core::kLossRecord)},
                        {"step", *stale_step(dump, op)},
                        {"step_line", last_line(dump, op, core::kStepRecord)}})},
               Phrase("do-clear-gradients"));
}

/// The parameters whose gradients are made of what an operator of a backward pass gives, in the
/// order of the optimizer, as far as its step tells them.
std::vector<std::string> gradients_made_of(const core::DumpSource& dump, std::uint64_t op) {
  constexpr std::uint64_t kMostRead = 100'000;
  const core::OpHead from = dump.op_head(op);
  std::vector<std::string> names;
  if (from.phase != core::Phase::kBackward) return names;
  std::vector<std::int64_t> made{static_cast<std::int64_t>(op)};
  for (std::uint64_t at = op + 1; at < dump.op_count() && at - op < kMostRead; ++at) {
    const core::OpRecord record = dump.op(at);
    if (record.rank != from.rank) continue;
    if (record.step != from.step) break;
    const bool is_step = record.op && record.op->name == core::kStepRecord;
    for (const core::TensorRecord& tensor : record.tensors) {
      if (!core::is_input(tensor) || !std::ranges::binary_search(made, tensor.producer)) continue;
      if (is_step && tensor.slot.starts_with(core::kGradientPrefix)) {
        names.push_back(tensor.slot.substr(core::kGradientPrefix.size()));
      } else if (!is_step && made.back() != static_cast<std::int64_t>(at)) {
        made.push_back(static_cast<std::int64_t>(at));
      }
    }
    if (is_step) break;
  }
  return names;
}

/// Which gradient an operator of a backward pass is a part of; of several such gradients the first.
/// Empty where that is not known.
Phrases part_of_gradient(const HunkJudge& of, const Hunk& hunk) {
  const bool in_baseline = !hunk.missing.empty();
  const Ops& places = in_baseline ? hunk.missing : hunk.extra;
  if (places.empty()) return {};
  const auto names = gradients_made_of(of.evidence.dump(in_baseline), places.front());
  if (names.empty()) return {};
  Phrase phrase("part-of-gradient", {{"name", names.back()}});
  if (names.size() > 1) phrase.with("more", names.size() - 1);
  return {std::move(phrase)};
}

std::size_t steps_in(const core::DumpSource& dump, const Ops& places) {
  return static_cast<std::size_t>(std::ranges::count_if(places, [&](std::uint32_t op) {
    const core::OpHead head = dump.op_head(op);
    return head.op && head.op->name == core::kStepRecord;
  }));
}

/// Where one run alone makes a step of an optimizer.
std::optional<Cause> step_more(const HunkJudge& of, const Hunk& hunk) {
  const std::array steps{steps_in(of.evidence.baseline, hunk.missing),
                         steps_in(of.evidence.candidate, hunk.extra)};
  if (steps[0] == steps[1]) return std::nullopt;
  const bool in_baseline = steps[0] > steps[1];
  const core::DumpSource& dump = of.evidence.dump(in_baseline);
  const Ops& places = in_baseline ? hunk.missing : hunk.extra;
  const auto step =
      std::ranges::find_if(places, [&](std::uint32_t op) { return steps_in(dump, Ops{op}) == 1; });
  const core::OpHead head = dump.op_head(*step);
  const std::string line = core::line_text(head.site.get());
  return Cause(in_baseline ? CauseKind::kMissing : CauseKind::kExtra,
               {Phrase("steps-more",
                       {{"run", run_field(in_baseline)},
                        {"more", std::max(steps[0], steps[1]) - std::min(steps[0], steps[1])},
                        {"line", line},
                        {"step", head.step}})},
               Phrase("do-look-at-step"));
}

HunkVerdict replacement(const HunkJudge& of, const Hunk& hunk, std::size_t i) {
  const core::OpRecord from = of.evidence.baseline.op_head(hunk.missing[i]);
  const core::OpRecord to = of.evidence.candidate.op_head(hunk.extra[i]);
  const auto apart = [](std::string_view key, std::string baseline, std::string candidate) {
    return Phrase(key, {{"baseline", std::move(baseline)}, {"candidate", std::move(candidate)}});
  };
  Phrases evidence{apart("operators-differ", operator_text(from), operator_text(to))};
  const std::string line = core::line_text(from.site.get());
  const std::string other_line = core::line_text(to.site.get());
  if (line != other_line && !line.empty() && !other_line.empty()) {
    evidence.push_back(apart("lines-differ", line, other_line));
  }
  if (of.evidence.module_path(from, true) != of.evidence.module_path(to, false)) {
    evidence.push_back(
        apart("modules-differ", std::string(module_of(from)), std::string(module_of(to))));
  }
  if (from.phase != to.phase) {
    evidence.push_back(apart("phases-differ",
                             std::string(core::name_of(from.phase)),
                             std::string(core::name_of(to.phase))));
  }
  if (from.lane != to.lane) {
    evidence.push_back(apart("lanes-differ", core::lane_text(from.lane), core::lane_text(to.lane)));
  }
  Cause cause(CauseKind::kOperatorDiffers, std::move(evidence));
  if (of.evidence.baseline.manifest().is_of_program()) {
    cause.advice = Phrase(from.phase != to.phase ? "do-look-what-encloses" : kLookForWhatLeads);
  }
  return {DivergenceKind::kMismatch, std::move(cause)};
}

HunkVerdict reordering(const HunkJudge& of, const Hunk& hunk) {
  const auto moved =
      hunk.missing.empty()
          ? std::ranges::lower_bound(of.moved_from, hunk.extra.front(), {}, &OpPair::candidate)
          : std::ranges::lower_bound(
                of.evidence.pairing.moved, hunk.missing.front(), {}, &OpPair::baseline);
  const auto [baseline, candidate] = *moved;
  const bool same_rule = of.evidence.baseline.manifest().trace.digest_algorithm ==
                         of.evidence.candidate.manifest().trace.digest_algorithm;
  const bool equal = same_rule && bit_equal(of.evidence.baseline.op(baseline),
                                            of.evidence.candidate.op(candidate));
  return {DivergenceKind::kMissing,
          {CauseKind::kReordered,
           {Phrase("called-in-other-order",
                   {{"baseline", baseline}, {"candidate", candidate}, {"are_equal", equal}})}}};
}

/// One operator against several of the same module, in its place.
/// @param by_host  of a program, what may have led it to either
std::optional<HunkVerdict> decomposed(const HunkJudge& of,
                                      const Hunk& hunk,
                                      const Phrases& by_host) {
  const bool in_baseline = hunk.missing.size() == 1;  // the one that is whole
  const Ops& wholes = in_baseline ? hunk.missing : hunk.extra;
  const Ops& parts = in_baseline ? hunk.extra : hunk.missing;
  if (wholes.size() != 1 || parts.size() < 2) return std::nullopt;
  const core::OpRecord whole = of.evidence.dump(in_baseline).op(wholes.front());
  const core::DumpSource& part_source = of.evidence.dump(!in_baseline);
  const std::string module = of.evidence.module_path(whole, in_baseline);
  std::string names;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const core::OpRecord head = part_source.op_head(parts[i]);
    if (of.evidence.module_path(head, !in_baseline) != module) return std::nullopt;
    if (i < kDescribedParts) names += (i == 0 ? "" : ", ") + operator_text(head);
  }
  if (parts.size() > kDescribedParts) names += ", ...";
  const core::OpRecord last = part_source.op(parts.back());
  const bool equal = end_alike(whole, last);
  Cause cause{CauseKind::kDecomposed,
              {Phrase("stands-for",
                      {{"operator", operator_text(whole)},
                       {"run", run_field(in_baseline)},
                       {"others", std::move(names)},
                       {"other_run", run_field(!in_baseline)}}),
               Phrase("their-outputs", {{"are_equal", equal}})}};
  append(by_host, cause.evidence);
  if (of.evidence.baseline.manifest().is_of_program() && !equal) {
    cause.advice = Phrase(kLookForWhatLeads);
  }
  return HunkVerdict{DivergenceKind::kMissing, std::move(cause)};
}

/// A body that repeats more often on one side.
std::optional<HunkVerdict> loop(const HunkJudge& of, const Hunk& hunk) {
  const bool longer_in_baseline = hunk.extra.empty();
  if (!longer_in_baseline && !hunk.missing.empty()) return std::nullopt;
  Ops places = longer_in_baseline ? hunk.missing : hunk.extra;
  std::ranges::sort(places);  // nested calls come in the order in which they ended
  if (!consecutive(places)) return std::nullopt;
  const std::span<const std::uint32_t> keys =
      longer_in_baseline ? of.evidence.pairing.baseline.keys : of.evidence.pairing.candidate.keys;
  const auto own = keys.subspan(places.front(), places.size());
  const auto body = own.first(shortest_period(own));
  const std::size_t common = repeats_before(keys, places.front(), body);
  // A single operator after its like is as well a missing call as a loop.
  if (common == 0 || (common < 2 && body.size() < 2)) return std::nullopt;
  const std::size_t more = common + own.size() / body.size();
  const core::DumpSource& source = of.evidence.dump(longer_in_baseline);
  const std::string module(module_of(source.op_head(places.front())));
  Cause cause{CauseKind::kLoop,
              {Phrase("loop-ran",
                      {{"module", module},
                       {"baseline", longer_in_baseline ? more : common},
                       {"candidate", longer_in_baseline ? common : more}}),
               Phrase("first-extra-iteration",
                      {{"op", places.front()}, {"run", run_field(longer_in_baseline)}})}};
  return HunkVerdict{DivergenceKind::kControlFlow, std::move(cause)};
}

HunkVerdict judge_hunk(const HunkJudge& of,
                       const Hunk& hunk,
                       const std::optional<Decision>& decision) {
  const bool of_program = of.evidence.baseline.manifest().is_of_program();
  Phrases by_host;
  if (of_program && of.evidence.gradients_apart) by_host.push_back(*of.evidence.gradients_apart);
  if (of_program && !(decision && decision->differs())) append(of_host(of.evidence), by_host);
  if (is_reordered(of, hunk)) return reordering(of, hunk);
  if (auto verdict = decomposed(of, hunk, by_host)) return *verdict;
  if (auto verdict = loop(of, hunk)) {
    append(decided(decision, false), verdict->cause.evidence);
    append(by_host, verdict->cause.evidence);
    return *verdict;
  }
  const bool parted = !hunk.missing.empty() && !hunk.extra.empty();
  if (parted) {
    Phrases evidence{Phrase("other-operators",
                            {{"missing", hunk.missing.size()}, {"extra", hunk.extra.size()}})};
    append(decided(decision, true), evidence);
    append(by_host, evidence);
    return {DivergenceKind::kControlFlow, {CauseKind::kControlFlow, std::move(evidence)}};
  }
  if (auto step = step_more(of, hunk)) {
    append(by_host, step->evidence);
    return {DivergenceKind::kMissing, *std::move(step)};
  }
  const bool missing = !hunk.missing.empty();
  const std::size_t count = missing ? hunk.missing.size() : hunk.extra.size();
  Cause cause(missing ? CauseKind::kMissing : CauseKind::kExtra,
              {Phrase("only-in", {{"count", count}, {"run", run_field(missing)}})});
  const core::DumpSource& own = of.evidence.dump(missing);
  const auto drawn = own.op(missing ? hunk.missing.front() : hunk.extra.front()).generator;
  if (of_program && drawn && drawn->drawn != 0) {
    cause.evidence.push_back(Phrase("draws-alone", {{"run", run_field(missing)}}));
  }
  append(decided(decision, false), cause.evidence);
  append(by_host, cause.evidence);
  if (of_program) {
    cause.advice =
        Phrase(of.evidence.gradients_apart ? "do-look-what-freezes" : "do-look-what-leads-alone");
  }
  return {DivergenceKind::kMissing, std::move(cause)};
}

/// What a module calls in training alone stands beside an operator that was told so.
constexpr std::uint64_t kOperatorsOfModule = 8;

/// @param op  of one side alone
std::optional<Cause> mode_beside(const HunkJudge& of, const core::OpRecord& op, bool in_baseline) {
  const core::DumpSource& own = of.evidence.dump(in_baseline);
  const Pairing& pairing = of.evidence.pairing;
  const Ops& counterparts = in_baseline ? pairing.candidate_of : pairing.baseline_of;
  for (std::uint64_t next = op.index + 1;
       next < own.op_count() && next <= op.index + kOperatorsOfModule;
       ++next) {
    const core::OpRecord beside = own.op(next);
    if (module_of(beside) != module_of(op) || beside.step != op.step) break;
    const std::uint32_t there = counterparts[next];
    if (there == kUnmatched) continue;
    const std::uint64_t baseline = in_baseline ? next : there;
    const std::uint64_t candidate = in_baseline ? there : next;
    if (auto mode = mode_of_module(
            of.evidence.baseline.op(baseline), of.evidence.candidate.op(candidate), of.evidence)) {
      return mode;
    }
  }
  return std::nullopt;
}

/// @param is_first  nothing before it differs that it could follow from
void name_suspects(const Evidence& evidence, bool is_first, Cause& cause) {
  // Other settings select kernels; this one rewrites the program.
  const auto executor =
      std::ranges::find(evidence.suspects, "/optimize_executor", &Suspect::pointer);
  if (executor != evidence.suspects.end()) {
    cause.evidence.push_back(suspects_phrase({*executor}, true));
    cause.advice = settings_advice({*executor});
  } else if (is_first) {
    name_told(evidence, cause);
  }
}

OpDivergence item(const HunkJudge& of,
                  std::uint32_t baseline,
                  std::uint32_t candidate,
                  const HunkVerdict& verdict) {
  OpDivergence divergence;
  if (baseline != kUnmatched) {
    divergence.baseline_index = baseline;
    divergence.baseline = of.evidence.baseline.op(baseline);
  }
  if (candidate != kUnmatched) {
    divergence.candidate_index = candidate;
    divergence.candidate = of.evidence.candidate.op(candidate);
  }
  const bool both = baseline != kUnmatched && candidate != kUnmatched;
  divergence.relation = both ? Relation::kMismatch : Relation::kMissing;
  divergence.kind = verdict.kind;
  divergence.cause = verdict.cause;
  const bool in_baseline = divergence.baseline_index.has_value();
  lead_with_host_generator(
      of.evidence, in_baseline ? baseline : candidate, in_baseline, divergence.cause);
  lead_with_mode(of.evidence, divergence.cause);
  if (!both) {
    const core::OpRecord& alone = in_baseline ? divergence.baseline : divergence.candidate;
    if (auto mode = mode_beside(of, alone, in_baseline)) {
      lead_with(std::move(*mode), divergence.cause);
    }
  }
  divergence.severity = std::numeric_limits<double>::infinity();
  return divergence;
}

/// The results that are no tensors, as a report shows them: `True`; empty where there are none.
std::string results_text(const core::OpRecord& record) {
  std::string text;
  for (const core::Value& value : record.results) {
    if (!is_tensor(value)) text += (text.empty() ? "" : ", ") + short_text(value);
  }
  return text;
}

/// What `if tensor:`, `while tensor:`, `int(tensor)` and their like call.
bool asks_tensor(const core::OperatorInfo& op) {
  return is_word_of(
      "aten::Bool aten::Float aten::Int aten::ScalarImplicit aten::_local_scalar_dense "
      "aten::allclose aten::equal aten::is_nonzero aten::item",
      op.name);
}

}  // namespace

std::shared_ptr<const core::CallSite> last_site(const core::DumpSource& dump,
                                                std::uint64_t before,
                                                std::string_view kind) {
  const core::OpHead from = dump.op_head(before);
  for (std::uint64_t op = before; op-- > 0;) {
    const core::OpHead head = dump.op_head(op);
    if (head.step + 1 < from.step) break;
    if (head.op && head.op->name == kind && head.rank == from.rank) return head.site;
  }
  return nullptr;
}

core::LargeVector<OpPair> order_events(const Pairing& pairing) {
  core::LargeVector<OpPair> events;
  events.reserve(pairing.candidate_of.size() + pairing.baseline_of.size() - pairing.matched);
  const Ops& theirs = pairing.candidate.completion;
  std::size_t next = 0;
  const auto flush_until = [&](std::uint32_t stop) {
    while (next < theirs.size() && theirs[next] != stop) {
      const std::uint32_t candidate = theirs[next];
      if (pairing.baseline_of[candidate] != kUnmatched) break;
      events.push_back({kUnmatched, candidate});
      ++next;
    }
  };
  core::LargeVector<bool> passed(pairing.baseline_of.size(),
                                 false);  // some are left out of `theirs`
  for (const std::uint32_t baseline : pairing.baseline.completion) {
    const std::uint32_t candidate = pairing.candidate_of[baseline];
    if (candidate != kUnmatched) {
      // Pairs that this loop has met already may stand in the way when calls ended in another
      // order.
      for (;;) {
        flush_until(candidate);
        if (next >= theirs.size() || !passed[theirs[next]]) break;
        ++next;
      }
      passed[candidate] = true;
      if (next < theirs.size() && theirs[next] == candidate) ++next;
    }
    events.push_back({baseline, candidate});
  }
  for (; next < theirs.size(); ++next) {
    if (pairing.baseline_of[theirs[next]] == kUnmatched)
      events.push_back({kUnmatched, theirs[next]});
  }
  return events;
}

std::vector<Hunk> HunkJudge::split(const Hunk& hunk) const {
  const bool small = hunk.missing.size() + hunk.extra.size() <= kMostSplit;
  if (!small || hunk.missing.size() < 2 || hunk.extra.size() < 2) return {hunk};
  std::vector<ModuleRun> missing =
      module_runs(evidence.baseline, hunk.missing, evidence.pairing.own_names);
  std::vector<ModuleRun> extra =
      module_runs(evidence.candidate, hunk.extra, evidence.pairing.names);
  if (!std::ranges::equal(missing, extra, {}, &ModuleRun::module, &ModuleRun::module)) {
    return {hunk};
  }
  std::vector<Hunk> parts;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    parts.push_back({std::move(missing[i].places),
                     std::move(extra[i].places),
                     hunk.before,
                     hunk.rejoined || i + 1 < missing.size()});
  }
  return parts;
}

HunkJudge::HunkJudge(const Evidence& of) : evidence(of), moved_from(of.pairing.moved) {
  std::ranges::sort(moved_from, {}, &OpPair::candidate);
}

std::uint64_t HunkJudge::items(const Hunk& hunk) const {
  return hunk.missing.size() + hunk.extra.size() - pairs_in(*this, hunk);
}

void HunkJudge::describe(const Hunk& hunk,
                         const std::string& earlier,
                         const std::optional<Decision>& decision,
                         std::size_t keep,
                         const std::function<void(OpDivergence)>& take) const {
  if (keep == 0) return;
  std::size_t described = 0;
  Phrase when("consequence-of", {{"earlier", earlier}});
  if (earlier.empty()) when = Phrase(hunk.before ? "all-before-agree" : "nothing-before");
  // Others behind the first follow from it, and a long trace has many.
  const bool is_first = earlier.empty() && evidence.baseline.manifest().is_of_program();
  const std::optional<Cause> stale = is_first ? stale_gradient(*this, hunk) : std::nullopt;
  const auto add = [&](std::uint32_t baseline, std::uint32_t candidate, HunkVerdict verdict) {
    Phrases replaced;
    if (verdict.kind == DivergenceKind::kMismatch) replaced = verdict.cause.evidence;
    if (stale) lead_with(*stale, verdict.cause);
    verdict.cause.evidence.push_back(when);
    name_suspects(evidence, earlier.empty(), verdict.cause);
    OpDivergence made = item(*this, baseline, candidate, verdict);
    made.replaced = std::move(replaced);
    ++described;
    take(std::move(made));
  };
  const std::size_t both = pairs_in(*this, hunk);
  for (std::size_t i = 0; i < both && described < keep; ++i) {
    add(hunk.missing[i], hunk.extra[i], replacement(*this, hunk, i));
  }
  if (both == std::max(hunk.missing.size(), hunk.extra.size())) return;
  Hunk rest = hunk;
  for (auto* places : {&rest.missing, &rest.extra}) {
    places->erase(places->begin(), places->begin() + static_cast<std::ptrdiff_t>(both));
  }
  HunkVerdict verdict = judge_hunk(*this, rest, decision);
  const bool is_alone = rest.missing.empty() || rest.extra.empty();
  if (is_first && is_alone) append(part_of_gradient(*this, rest), verdict.cause.evidence);
  for (std::size_t i = 0; i < rest.missing.size() && described < keep; ++i) {
    add(rest.missing[i], kUnmatched, verdict);
  }
  for (std::size_t i = 0; i < rest.extra.size() && described < keep; ++i) {
    add(kUnmatched, rest.extra[i], verdict);
  }
}

ControlFlow HunkJudge::control_flow(const Hunk& hunk,
                                    const std::optional<Decision>& decision) const {
  ControlFlow flow;
  flow.decision = decision;
  flow.rejoined = hunk.rejoined;
  flow.unmatched_baseline = hunk.missing.size();
  flow.unmatched_candidate = hunk.extra.size();
  std::uint64_t baseline_next = hunk.missing.empty() ? 0 : hunk.missing.front();
  std::uint64_t candidate_next = hunk.extra.empty() ? 0 : hunk.extra.front();
  if (hunk.before) {
    flow.last_common_baseline = hunk.before->baseline;
    flow.last_common_candidate = hunk.before->candidate;
    flow.last_common = evidence.baseline.op_head(hunk.before->baseline);
    if (hunk.missing.empty()) baseline_next = hunk.before->baseline + std::uint64_t{1};
    if (hunk.extra.empty()) candidate_next = hunk.before->candidate + std::uint64_t{1};
  }
  if (baseline_next < evidence.baseline.op_count()) {
    flow.baseline_next = operator_text(evidence.baseline.op_head(baseline_next));
  }
  if (candidate_next < evidence.candidate.op_count()) {
    flow.candidate_next = operator_text(evidence.candidate.op_head(candidate_next));
  }
  return flow;
}

void DecisionWatch::see(const JudgedCall& call) {
  const core::OpRecord& baseline = call.baseline;
  const bool differs = !call.findings.results.empty();
  if (!differs && !(baseline.op && asks_tensor(*baseline.op))) return;
  std::string from = results_text(baseline);
  if (from.empty() && !differs) return;
  Decision decision{baseline.index,
                    call.candidate.index,
                    head_of(baseline),
                    std::move(from),
                    results_text(call.candidate)};
  (differs ? differing_ : asked_) = std::move(decision);
}

std::optional<Decision> DecisionWatch::last() const { return differing_ ? differing_ : asked_; }

}  // namespace repro_check::comparators
