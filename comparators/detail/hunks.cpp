// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/hunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

#include "comparators/detail/op_text.h"
#include "comparators/detail/scalars.h"

namespace repro_check::comparators::detail {
namespace {

constexpr std::size_t kDescribedParts = 4;

std::string module_of(const core::OpRecord& head) {
  return head.site ? head.site->module_path : std::string();
}

/// Length of the shortest body that the keys are a whole number of repetitions of.
std::size_t shortest_period(std::span<const std::uint32_t> keys) {
  std::vector<std::size_t> border(keys.size(), 0);
  for (std::size_t i = 1; i < keys.size(); ++i) {
    std::size_t length = border[i - 1];
    while (length > 0 && keys[i] != keys[length]) length = border[length - 1];
    border[i] = keys[i] == keys[length] ? length + 1 : 0;
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

/// Consecutive op indices, as a hunk of one side in a plain stream has.
bool consecutive(const std::vector<std::uint32_t>& places) {
  return !places.empty() && places.back() - places.front() + 1 == places.size();
}

}  // namespace

std::vector<Event> order_events(const Pairing& pairing) {
  std::vector<Event> events;
  events.reserve(pairing.candidate_of.size() + pairing.baseline_of.size() - pairing.matched);
  const std::vector<std::uint32_t>& theirs = pairing.candidate.completion;
  std::size_t next = 0;
  const auto flush_until = [&](std::uint32_t stop) {
    while (next < theirs.size() && theirs[next] != stop) {
      const std::uint32_t candidate = theirs[next];
      if (pairing.baseline_of[candidate] != kUnmatched) break;
      events.push_back({kUnmatched, candidate});
      ++next;
    }
  };
  std::vector<bool> passed(theirs.size(), false);
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

HunkJudge::HunkJudge(const core::DumpSource& baseline,
                     const core::DumpSource& candidate,
                     const Pairing& pairing)
    : baseline_(baseline), candidate_(candidate), pairing_(pairing) {
  for (std::size_t i = 0; i < pairing.candidate_of.size(); ++i) {
    if (pairing.candidate_of[i] == kUnmatched) ++unmatched_missing_[pairing.baseline.keys[i]];
  }
  for (std::size_t i = 0; i < pairing.baseline_of.size(); ++i) {
    if (pairing.baseline_of[i] == kUnmatched) ++unmatched_extra_[pairing.candidate.keys[i]];
  }
  for (const auto& [key, count] : unmatched_missing_) {
    const auto other = unmatched_extra_.find(key);
    if (other != unmatched_extra_.end()) reordered_ += std::min(count, other->second);
  }
}

bool HunkJudge::is_reordered(const Hunk& hunk) const {
  const bool from_baseline = !hunk.missing.empty();
  const std::uint32_t key = from_baseline ? pairing_.baseline.keys[hunk.missing.front()]
                                          : pairing_.candidate.keys[hunk.extra.front()];
  return (from_baseline ? unmatched_extra_ : unmatched_missing_).contains(key);
}

bool HunkJudge::replaced(const Hunk& hunk) const {
  if (hunk.missing.size() != 1 || hunk.extra.size() != 1) return false;
  const core::OpRecord from = baseline_.op_head(hunk.missing.front());
  const core::OpRecord to = candidate_.op_head(hunk.extra.front());
  return module_of(from) == module_of(to) && from.depth == to.depth && from.step == to.step;
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
    if (module_of(head) != module_of(whole)) return std::nullopt;
    if (i < kDescribedParts) names += (i == 0 ? "" : ", ") + operator_text(head);
  }
  if (parts.size() > kDescribedParts) names += ", ...";
  const core::OpRecord last = part_source.op(parts.back());
  const auto same = [](const core::TensorRecord& left, const core::TensorRecord& right) {
    return left.state == core::ContentState::kHashed && left.state == right.state &&
           left.content_key() == right.content_key();
  };
  const bool equal = !whole.tensors.empty() && !last.tensors.empty() &&
                     whole.tensors.back().role == core::TensorRole::kOutput &&
                     same(whole.tensors.back(), last.tensors.back());
  return Verdict{DivergenceKind::kMissing,
                 {"decomposed",
                  fmt::format("{} in the {} stands in the place of {} in the {}; their outputs {}",
                              operator_text(whole),
                              whole_in_baseline ? "baseline" : "candidate",
                              names,
                              whole_in_baseline ? "candidate" : "baseline",
                              equal ? "are bit-equal" : "are not equal, or not known to be"),
                  "record both runs with the same LibTorch and the same \"dump\": {\"depth\"}"}};
}

/// A body that repeats more often on one side.
std::optional<HunkJudge::Verdict> HunkJudge::loop(const Hunk& hunk) const {
  const bool longer_in_baseline = hunk.extra.empty();
  if (!longer_in_baseline && !hunk.missing.empty()) return std::nullopt;
  const auto& places = longer_in_baseline ? hunk.missing : hunk.extra;
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
  const std::string module = module_of(source.op_head(places.front()));
  return Verdict{
      DivergenceKind::kControlFlow,
      {"loop",
       fmt::format("a loop{} ran {} against {} times; the first extra iteration begins at op {} of "
                   "the {}",
                   module.empty() ? "" : " in " + module,
                   longer_in_baseline ? more : common,
                   longer_in_baseline ? common : more,
                   places.front(),
                   longer_in_baseline ? "baseline" : "candidate"),
       "look at what ends the loop: a value computed by the model, or an input of another length"}};
}

std::string HunkJudge::last_answer(const Hunk& hunk) const {
  if (!hunk.before) return {};
  const core::OpRecord from = baseline_.op(hunk.before->baseline);
  const core::OpRecord to = candidate_.op(hunk.before->candidate);
  const auto results = differing_results(from, to, [](std::string_view) { return ScalarPolicy{}; });
  if (results.empty()) return {};
  return fmt::format(
      "; {} said {} | {}", op_text(from), results.front().baseline, results.front().candidate);
}

HunkJudge::Verdict HunkJudge::judge(const Hunk& hunk) const {
  if (replaced(hunk)) {
    return {DivergenceKind::kMismatch,
            {"operator differs",
             fmt::format("{} in the baseline, {} in the candidate",
                         operator_text(baseline_.op_head(hunk.missing.front())),
                         operator_text(candidate_.op_head(hunk.extra.front()))),
             "compare the model files, and the LibTorch versions of the two runs"}};
  }
  if (auto verdict = decomposed(hunk)) return *verdict;
  if (auto verdict = loop(hunk)) return *verdict;
  if (is_reordered(hunk)) {
    return {DivergenceKind::kMissing,
            {"reordered",
             "the same operator was called on both sides, in another order",
             "make the order of the calls fixed: it may follow a set, a dict or threads"}};
  }
  if (!hunk.missing.empty() && !hunk.extra.empty()) {
    return {
        DivergenceKind::kControlFlow,
        {"control flow",
         fmt::format("the baseline ran {} operators that the candidate did not, and the "
                     "candidate {} others{}",
                     hunk.missing.size(),
                     hunk.extra.size(),
                     last_answer(hunk)),
         "look at the branch: another graph or version, a value of the host, or random numbers"}};
  }
  const bool missing = !hunk.missing.empty();
  const std::size_t count = missing ? hunk.missing.size() : hunk.extra.size();
  return {DivergenceKind::kMissing,
          {missing ? "missing" : "extra",
           fmt::format("{} operator{} in the {} only{}",
                       count,
                       count == 1 ? "" : "s",
                       missing ? "baseline" : "candidate",
                       last_answer(hunk)),
           "compare the model files, \"mode\" and \"dump\": {\"depth\"} of the two runs"}};
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
  divergence.severity = std::numeric_limits<double>::infinity();
  return divergence;
}

std::uint64_t HunkJudge::items(const Hunk& hunk) const {
  return replaced(hunk) ? 1 : hunk.missing.size() + hunk.extra.size();
}

std::vector<OpDivergence> HunkJudge::describe(const Hunk& hunk,
                                              const std::string& earlier,
                                              std::size_t keep) const {
  std::vector<OpDivergence> described;
  if (keep == 0) return described;
  Verdict verdict = judge(hunk);
  verdict.cause.evidence += earlier.empty() ? "; all operators before it agree"
                                            : fmt::format("; a consequence of {}", earlier);
  if (verdict.kind == DivergenceKind::kMismatch) {
    described.push_back(item(hunk.missing.front(), hunk.extra.front(), verdict));
    described.back().notes.push_back("operator differs: " + verdict.cause.evidence);
    return described;
  }
  for (const std::uint32_t place : hunk.missing) {
    if (described.size() >= keep) return described;
    described.push_back(item(place, kUnmatched, verdict));
  }
  for (const std::uint32_t place : hunk.extra) {
    if (described.size() >= keep) return described;
    described.push_back(item(kUnmatched, place, verdict));
  }
  return described;
}

ControlFlow HunkJudge::control_flow(const Hunk& hunk) const {
  ControlFlow flow;
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

}  // namespace repro_check::comparators::detail
