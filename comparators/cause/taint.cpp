// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/taint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "comparators/report/op_text.h"

namespace repro_check::comparators::detail {
namespace {

/// Origins with a bit of their own; the last bit is shared by all later ones.
constexpr std::size_t kTracked = 63;
constexpr std::size_t kShownFinals = 16;
constexpr std::size_t kShownSteps = 64;
/// Each costs a walk back to where its error began.
constexpr std::size_t kWalkedFinals = 256;

template <typename Visit>
void for_each_bit(std::uint64_t mask, Visit visit) {
  for (; mask != 0; mask &= mask - 1) visit(static_cast<std::size_t>(std::countr_zero(mask)));
}

}  // namespace

Taint::Taint(const Pairing& pairing) : pairing_(pairing), flow_(pairing.candidate_of.size()) {}

Taint::Mask Taint::mask_of(std::uint64_t op) const { return op < masks_.size() ? masks_[op] : 0; }

void Taint::set_mask(std::uint64_t op, Mask mask) {
  if (masks_.empty() && mask != 0) masks_.assign(pairing_.candidate_of.size(), 0);
  if (op < masks_.size()) masks_[op] = mask;
}

/// The operators that made its differing inputs, and what taints those.
std::vector<std::uint32_t> Taint::sources_of(const OpFindings& findings,
                                             const Attribution* why,
                                             Mask& mask) const {
  std::vector<std::uint32_t> sources;
  const auto take = [&](std::uint64_t op) {
    if (mask_of(op) == 0) return;
    mask |= mask_of(op);
    sources.push_back(static_cast<std::uint32_t>(op));
  };
  for (const TensorComparison& input : findings.inputs) {
    if (input.baseline.producer >= 0) take(static_cast<std::uint64_t>(input.baseline.producer));
    if (input.candidate.producer < 0) continue;
    const auto there = static_cast<std::uint64_t>(input.candidate.producer);
    if (there < candidate_masks_.size()) mask |= candidate_masks_[there];
    if (there >= pairing_.baseline_of.size()) continue;
    const std::uint32_t matched = pairing_.baseline_of[there];
    const bool same = std::cmp_equal(matched, input.baseline.producer);
    if (matched != kUnmatched && !same) take(matched);
  }
  if (why != nullptr) {
    for (const std::uint64_t op : why->producers) take(op);
  }
  return sources;
}

Taint::Mask Taint::begin(Origin origin) {
  const std::size_t bit = std::min<std::size_t>(total_++, kTracked);
  if (bit < kTracked) {
    origin.tainted = 0;
    origins_.push_back(std::move(origin));
  }
  return Mask{1} << bit;
}

void Taint::count(Mask mask) {
  for_each_bit(mask, [&](std::size_t bit) {
    if (bit < origins_.size()) ++*origins_[bit].tainted;
  });
}

void Taint::see(const core::OpRecord& from,
                const core::OpRecord& to,
                const OpFindings& findings,
                const Attribution* why) {
  finals_.see(from);
  const bool differs = findings.bits_differ || findings.outcome == OpOutcome::kNotJudged;
  if (!differs) {
    flow_.see(from.index, findings, {});
    // What an inner call changed did not come out.
    if (mask_of(from.index) != 0) set_mask(from.index, 0);
    return;
  }
  // An inner call that differs has left its mask here.
  Mask mask = mask_of(from.index);
  const bool inner = mask != 0;
  const std::vector<std::uint32_t> sources = sources_of(findings, why, mask);
  flow_.see(from.index, findings, sources);
  if (mask != 0) {
    if (!inner) count(mask);
  } else if (findings.bits_differ && (why == nullptr || why->relation != Relation::kPropagated)) {
    Origin origin;
    origin.baseline_index = from.index;
    origin.candidate_index = to.index;
    origin.record = head_of(from);
    origin.beyond_policy = findings.fails();
    if (why != nullptr) {
      origin.relation = why->relation;
      origin.cause = why->cause.kind;
    }
    const double error = flow_.error_of(from.index);
    if (!std::isnan(error)) origin.l2_rel = error;
    mask = begin(std::move(origin));
  }
  set_mask(from.index, mask);
  hand_to_parent(from, mask);
}

/// The call that encloses it ends later.
void Taint::hand_to_parent(const core::OpRecord& record, Mask mask) {
  if (record.parent < 0 || mask == 0) return;
  const auto parent = static_cast<std::uint64_t>(record.parent);
  set_mask(parent, mask_of(parent) | mask);
}

void Taint::see_hunk(const Hunk& hunk,
                     const core::DumpSource& baseline,
                     const core::DumpSource& candidate) {
  Origin origin;
  origin.relation = Relation::kMissing;
  origin.beyond_policy = true;
  if (!hunk.missing.empty()) {
    origin.baseline_index = hunk.missing.front();
    origin.record = head_of(baseline.op_head(hunk.missing.front()));
    origin.cause = CauseKind::kMissing;
  }
  if (!hunk.extra.empty()) {
    origin.candidate_index = hunk.extra.front();
    if (hunk.missing.empty()) {
      origin.record = head_of(candidate.op_head(hunk.extra.front()));
      origin.cause = CauseKind::kExtra;
    }
  }
  const Mask mask = begin(std::move(origin));
  for (const std::uint32_t op : hunk.missing) set_mask(op, mask);
  if (!hunk.extra.empty() && candidate_masks_.empty()) {
    candidate_masks_.assign(pairing_.baseline_of.size(), 0);
  }
  for (const std::uint32_t op : hunk.extra) candidate_masks_[op] = mask;
}

void Taint::fill_finals(const core::LargeVector<std::uint64_t>& finals,
                        std::vector<Origin>& origins) const {
  for (const std::uint64_t op : finals) {
    for_each_bit(mask_of(op), [&](std::size_t bit) {
      if (bit >= origins.size()) return;
      Origin& origin = origins[bit];
      ++origin.outputs_total;
      if (origin.outputs.size() < kShownFinals) origin.outputs.push_back(op);
    });
  }
}

/// The path to the worst of the values that each origin reaches.
void Taint::fill_paths(const core::LargeVector<std::uint64_t>& finals,
                       const core::DumpSource& baseline,
                       std::vector<Origin>& origins) const {
  std::vector<double> worst(origins.size(), -1);
  std::vector<std::uint64_t> ends(origins.size(), kNoOp);
  const std::size_t walked = std::min(finals.size(), kWalkedFinals);
  for (std::size_t place = 0; place < walked; ++place) {
    const std::uint64_t op = finals[place];
    const double error = flow_.error_of(op);
    const std::uint64_t root = flow_.root_of(op);
    for_each_bit(mask_of(op), [&](std::size_t bit) {
      if (bit >= origins.size() || origins[bit].baseline_index != root) return;
      if (!(error > worst[bit])) return;
      worst[bit] = error;
      ends[bit] = op;
    });
  }
  for (std::size_t i = 0; i < origins.size(); ++i) {
    if (ends[i] == kNoOp) continue;
    origins[i].path = flow_.path_to(ends[i], kShownSteps, baseline, origins[i].path_steps);
  }
}

void Taint::finish(const core::DumpSource& baseline, Report& report) const {
  core::LargeVector<std::uint64_t> finals = finals_.ops();
  report.final_values = finals.size();
  std::erase_if(finals, [&](std::uint64_t op) { return mask_of(op) == 0; });
  report.origins = origins_;
  report.origins_total = total_;
  fill_finals(finals, report.origins);
  fill_paths(finals, baseline, report.origins);
  report.growth = flow_.summary(finals, baseline);
}

}  // namespace repro_check::comparators::detail
