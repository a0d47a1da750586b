// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/hunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "comparators/align/record_bits.h"
#include "comparators/cause/compute_cause.h"
#include "comparators/measure/scalars.h"
#include "comparators/report/op_text.h"

namespace repro_check::comparators::detail {
namespace {

constexpr std::size_t kDescribedParts = 4;

/// Length of the shortest body that the keys are a whole number of repetitions of.
std::size_t shortest_period(std::span<const std::uint32_t> keys) {
  core::LargeVector<std::uint32_t> border(keys.size(), 0);
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
std::string decision_text(const std::optional<Decision>& decision, bool parted) {
  if (!decision || (!decision->differs() && !parted)) return {};
  const std::string who = op_text(decision->op);
  if (!decision->differs())
    return fmt::format("; {} said {} on both sides", who, decision->baseline);
  return fmt::format("; {} said {} | {}", who, decision->baseline, decision->candidate);
}

/// Consecutive op indices, as a hunk of one side in a plain stream has.
bool consecutive(const core::LargeVector<std::uint32_t>& places) {
  return !places.empty() && places.back() - places.front() + 1 == places.size();
}

/// Whether the last output of `whole` is known to be what `last` ends with.
bool end_alike(const core::OpRecord& whole, const core::OpRecord& last) {
  if (whole.tensors.empty() || last.tensors.empty()) return false;
  const core::TensorRecord& left = whole.tensors.back();
  const core::TensorRecord& right = last.tensors.back();
  return left.role == core::TensorRole::kOutput && left.state == core::ContentState::kHashed &&
         left.state == right.state && left.content_key() == right.content_key();
}

}  // namespace

HunkJudge::HunkJudge(const core::DumpSource& baseline,
                     const core::DumpSource& candidate,
                     const Pairing& pairing,
                     const std::vector<Suspect>& suspects)
    : baseline_(baseline),
      candidate_(candidate),
      pairing_(pairing),
      suspects_(suspects),
      moved_from_(pairing.moved) {
  std::ranges::sort(moved_from_, {}, &Moved::candidate);
}

/// One operator in the place of another; of several, each the same with another overload or in
/// place.
bool HunkJudge::replaced(const Hunk& hunk) const {
  if (hunk.missing.empty() || hunk.missing.size() != hunk.extra.size()) return false;
  const bool single = hunk.missing.size() == 1;
  for (std::size_t i = 0; i < hunk.missing.size(); ++i) {
    const core::OpRecord from = baseline_.op_head(hunk.missing[i]);
    const core::OpRecord to = candidate_.op_head(hunk.extra[i]);
    if (module_of(from) != pairing_.names.module_of(to) || from.depth != to.depth ||
        from.step != to.step || !from.op || !to.op ||
        !(single || plain_name(*from.op) == plain_name(*to.op))) {
      return false;
    }
  }
  return true;
}

HunkJudge::Verdict HunkJudge::replacement(const Hunk& hunk, std::size_t i) const {
  const core::OpRecord from = baseline_.op_head(hunk.missing[i]);
  const core::OpRecord to = candidate_.op_head(hunk.extra[i]);
  std::string evidence = fmt::format(
      "{} in the baseline, {} in the candidate", operator_text(from), operator_text(to));
  if (module_of(from) != pairing_.names.module_of(to)) {
    evidence += fmt::format("; module {} against {}", module_of(from), module_of(to));
  }
  return {DivergenceKind::kMismatch, {CauseKind::kOperatorDiffers, std::move(evidence)}};
}

/// Nothing that is left over here is left over on this side alone.
bool HunkJudge::is_reordered(const Hunk& hunk) const {
  return std::ranges::all_of(hunk.missing,
                             [&](std::uint32_t op) {
                               return std::ranges::binary_search(
                                   pairing_.moved, op, {}, &Moved::baseline);
                             }) &&
         std::ranges::all_of(hunk.extra, [&](std::uint32_t op) {
           return std::ranges::binary_search(moved_from_, op, {}, &Moved::candidate);
         });
}

HunkJudge::Verdict HunkJudge::reordering(const Hunk& hunk) const {
  const auto moved =
      hunk.missing.empty()
          ? std::ranges::lower_bound(moved_from_, hunk.extra.front(), {}, &Moved::candidate)
          : std::ranges::lower_bound(pairing_.moved, hunk.missing.front(), {}, &Moved::baseline);
  const auto [baseline, candidate] = *moved;
  const bool same_rule =
      baseline_.manifest().trace.digest_algorithm == candidate_.manifest().trace.digest_algorithm;
  const bool equal = same_rule && bit_equal(baseline_.op(baseline), candidate_.op(candidate));
  return {
      DivergenceKind::kMissing,
      {CauseKind::kReordered,
       fmt::format("the same operators were called in another order: op {} of the baseline is op "
                   "{} of the candidate, and its inputs and outputs are {}",
                   baseline,
                   candidate,
                   equal ? "bit-equal there" : "not equal, or not known to be")}};
}

/// One operator against several of the same module, in its place.
std::optional<HunkJudge::Verdict> HunkJudge::decomposed(const Hunk& hunk) const {
  const bool whole_in_baseline = hunk.missing.size() == 1 && hunk.extra.size() > 1;
  const bool whole_in_candidate = hunk.extra.size() == 1 && hunk.missing.size() > 1;
  if (!whole_in_baseline && !whole_in_candidate) return std::nullopt;
  const core::DumpSource& whole_source = whole_in_baseline ? baseline_ : candidate_;
  const core::DumpSource& part_source = whole_in_baseline ? candidate_ : baseline_;
  const auto& parts = whole_in_baseline ? hunk.extra : hunk.missing;
  const core::OpRecord whole =
      whole_source.op(whole_in_baseline ? hunk.missing.front() : hunk.extra.front());
  std::string names;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const core::OpRecord head = part_source.op_head(parts[i]);
    const std::string whole_module =
        whole_in_baseline ? std::string(module_of(whole)) : pairing_.names.module_of(whole);
    const std::string part_module =
        whole_in_baseline ? pairing_.names.module_of(head) : std::string(module_of(head));
    if (part_module != whole_module) return std::nullopt;
    if (i < kDescribedParts) names += (i == 0 ? "" : ", ") + operator_text(head);
  }
  if (parts.size() > kDescribedParts) names += ", ...";
  const core::OpRecord last = part_source.op(parts.back());
  const bool equal = end_alike(whole, last);
  return Verdict{DivergenceKind::kMissing,
                 {CauseKind::kDecomposed,
                  fmt::format("{} in the {} stands in the place of {} in the {}; their outputs {}",
                              operator_text(whole),
                              whole_in_baseline ? "baseline" : "candidate",
                              names,
                              whole_in_baseline ? "candidate" : "baseline",
                              equal ? "are bit-equal" : "are not equal, or not known to be")}};
}

/// A body that repeats more often on one side.
std::optional<HunkJudge::Verdict> HunkJudge::loop(const Hunk& hunk) const {
  const bool longer_in_baseline = hunk.extra.empty();
  if (!longer_in_baseline && !hunk.missing.empty()) return std::nullopt;
  core::LargeVector<std::uint32_t> places = longer_in_baseline ? hunk.missing : hunk.extra;
  std::ranges::sort(places);  // nested calls come in the order in which they ended
  if (!consecutive(places)) return std::nullopt;
  const std::span<const std::uint32_t> keys =
      longer_in_baseline ? pairing_.baseline.keys : pairing_.candidate.keys;
  const auto own = keys.subspan(places.front(), places.size());
  const auto body = own.first(shortest_period(own));
  const std::size_t common = repeats_before(keys, places.front(), body);
  // A single operator after its like is as well a missing call as a loop.
  if (common == 0 || (common < 2 && body.size() < 2)) return std::nullopt;
  const std::size_t more = common + own.size() / body.size();
  const core::DumpSource& source = longer_in_baseline ? baseline_ : candidate_;
  const std::string module(module_of(source.op_head(places.front())));
  return Verdict{
      DivergenceKind::kControlFlow,
      {CauseKind::kLoop,
       fmt::format("loop{} ran {} against {} times; the first extra iteration begins at op {} of "
                   "the {}",
                   module.empty() ? "" : " in " + module,
                   longer_in_baseline ? more : common,
                   longer_in_baseline ? common : more,
                   places.front(),
                   longer_in_baseline ? "baseline" : "candidate")}};
}

HunkJudge::Verdict HunkJudge::judge(const Hunk& hunk, const PartingContext& context) const {
  if (is_reordered(hunk)) return reordering(hunk);
  if (auto verdict = decomposed(hunk)) return *verdict;
  if (auto verdict = loop(hunk)) {
    verdict->cause.evidence += decision_text(context.decision, false);
    return *verdict;
  }
  const bool parted = !hunk.missing.empty() && !hunk.extra.empty();
  if (parted) {
    return {DivergenceKind::kControlFlow,
            {CauseKind::kControlFlow,
             fmt::format("the baseline ran {} operators that the candidate did not, and the "
                         "candidate {} others{}",
                         hunk.missing.size(),
                         hunk.extra.size(),
                         decision_text(context.decision, true))}};
  }
  const bool missing = !hunk.missing.empty();
  const std::size_t count = missing ? hunk.missing.size() : hunk.extra.size();
  return {DivergenceKind::kMissing,
          {missing ? CauseKind::kMissing : CauseKind::kExtra,
           fmt::format("{} in the {} only{}",
                       counted(count, "operator"),
                       missing ? "baseline" : "candidate",
                       decision_text(context.decision, false))}};
}

OpDivergence HunkJudge::item(std::uint32_t baseline,
                             std::uint32_t candidate,
                             const Verdict& verdict) const {
  OpDivergence divergence;
  if (baseline != kUnmatched) {
    divergence.baseline_index = baseline;
    divergence.baseline = baseline_.op(baseline);
  }
  if (candidate != kUnmatched) {
    divergence.candidate_index = candidate;
    divergence.candidate = candidate_.op(candidate);
  }
  const bool both = baseline != kUnmatched && candidate != kUnmatched;
  divergence.relation = both ? Relation::kMismatch : Relation::kMissing;
  divergence.kind = verdict.kind;
  divergence.cause = verdict.cause;
  // Other settings select kernels; this one rewrites the program.
  const auto executor = std::ranges::find(suspects_, "/optimize_executor", &Suspect::pointer);
  if (executor != suspects_.end()) {
    divergence.cause.evidence += "; suspect: " + executor->text;
    divergence.cause.advice = settings_advice({*executor});
  }
  lead_with_mode(baseline_.manifest(), candidate_.manifest(), divergence.cause);
  divergence.severity = std::numeric_limits<double>::infinity();
  return divergence;
}

std::uint64_t HunkJudge::items(const Hunk& hunk) const {
  const std::size_t all = hunk.missing.size() + hunk.extra.size();
  if (pairing_.by_position) return std::max(hunk.missing.size(), hunk.extra.size());
  return !is_reordered(hunk) && replaced(hunk) ? hunk.missing.size() : all;
}

void HunkJudge::describe(const Hunk& hunk,
                         const PartingContext& context,
                         std::size_t keep,
                         const std::function<void(OpDivergence)>& take) const {
  if (keep == 0) return;
  std::size_t described = 0;
  const std::string when = context.earlier.empty()
                               ? "; all operators before it agree"
                               : fmt::format("; a consequence of {}", context.earlier);
  const auto add = [&](std::uint32_t baseline, std::uint32_t candidate, Verdict verdict) {
    const std::string what = verdict.cause.evidence;
    verdict.cause.evidence += when;
    OpDivergence made = item(baseline, candidate, verdict);
    if (verdict.kind == DivergenceKind::kMismatch) {
      made.notes.push_back("operator differs: " + what);
    }
    ++described;
    take(std::move(made));
  };
  std::size_t both = 0;
  if (pairing_.by_position) {
    both = std::min(hunk.missing.size(), hunk.extra.size());
  } else if (!is_reordered(hunk) && replaced(hunk)) {
    both = hunk.missing.size();
  }
  for (std::size_t i = 0; i < both && described < keep; ++i) {
    add(hunk.missing[i], hunk.extra[i], replacement(hunk, i));
  }
  if (both == std::max(hunk.missing.size(), hunk.extra.size())) return;
  Hunk rest = hunk;
  rest.missing.erase(rest.missing.begin(),
                     rest.missing.begin() + static_cast<std::ptrdiff_t>(both));
  rest.extra.erase(rest.extra.begin(), rest.extra.begin() + static_cast<std::ptrdiff_t>(both));
  const Verdict verdict = judge(rest, context);
  for (std::size_t i = 0; i < rest.missing.size() && described < keep; ++i) {
    add(rest.missing[i], kUnmatched, verdict);
  }
  for (std::size_t i = 0; i < rest.extra.size() && described < keep; ++i) {
    add(kUnmatched, rest.extra[i], verdict);
  }
}

ControlFlow HunkJudge::control_flow(const Hunk& hunk, const PartingContext& context) const {
  ControlFlow flow;
  flow.decision = context.decision;
  flow.rejoined = hunk.rejoined;
  flow.unmatched_baseline = hunk.missing.size();
  flow.unmatched_candidate = hunk.extra.size();
  std::uint64_t baseline_next = hunk.missing.empty() ? 0 : hunk.missing.front();
  std::uint64_t candidate_next = hunk.extra.empty() ? 0 : hunk.extra.front();
  if (hunk.before) {
    flow.last_common_baseline = hunk.before->baseline;
    flow.last_common_candidate = hunk.before->candidate;
    flow.last_common = baseline_.op_head(hunk.before->baseline);
    if (hunk.missing.empty()) baseline_next = hunk.before->baseline + std::uint64_t{1};
    if (hunk.extra.empty()) candidate_next = hunk.before->candidate + std::uint64_t{1};
  }
  if (baseline_next < baseline_.op_count()) {
    flow.baseline_next = operator_text(baseline_.op_head(baseline_next));
  }
  if (candidate_next < candidate_.op_count()) {
    flow.candidate_next = operator_text(candidate_.op_head(candidate_next));
  }
  return flow;
}

namespace {

/// What `if tensor:`, `while tensor:`, `int(tensor)` and their like call.
bool asks_tensor(const core::OperatorInfo& op) {
  static constexpr auto kNames = std::to_array<std::string_view>({"aten::Bool",
                                                                  "aten::Float",
                                                                  "aten::Int",
                                                                  "aten::ScalarImplicit",
                                                                  "aten::_local_scalar_dense",
                                                                  "aten::allclose",
                                                                  "aten::equal",
                                                                  "aten::is_nonzero",
                                                                  "aten::item"});
  return std::ranges::find(kNames, op.name) != kNames.end();
}

}  // namespace

void DecisionWatch::see(const core::OpRecord& baseline,
                        const core::OpRecord& candidate,
                        const OpFindings& findings) {
  const bool differs = !findings.results.empty();
  if (!differs && !(baseline.op && asks_tensor(*baseline.op))) return;
  std::string from = results_text(baseline);
  if (from.empty() && !differs) return;
  Decision decision{
      baseline.index, candidate.index, head_of(baseline), std::move(from), results_text(candidate)};
  (differs ? differing_ : asked_) = std::move(decision);
}

std::optional<Decision> DecisionWatch::last() const { return differing_ ? differing_ : asked_; }

}  // namespace repro_check::comparators::detail
