// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/rng_ledger.h"

#include <fmt/format.h>

#include <utility>

#include "comparators/detail/op_text.h"

namespace repro_check::comparators::detail {
namespace {

std::string drawn_text(std::int64_t drawn) {
  return drawn < 0 ? std::string("an unknown count of") : fmt::format("{}", drawn);
}

}  // namespace

RngLedger::RngLedger(const core::RunManifest& baseline, const core::RunManifest& candidate)
    : baseline_seed_(baseline.seed), candidate_seed_(candidate.seed) {}

void RngLedger::part(std::string sentence) {
  if (!parting_.empty()) return;
  parting_ = std::move(sentence);
  if (!last_draw_.empty()) parting_ += fmt::format("; {} was the last to draw alike", last_draw_);
}

void RngLedger::see(const core::OpRecord& baseline, const core::OpRecord& candidate) {
  const auto& from = baseline.generator;
  const auto& to = candidate.generator;
  if (!from && !to) return;
  if (!from || !to) {
    see_unmatched(from ? baseline : candidate, from.has_value());
    return;
  }
  const bool first = !std::exchange(drew_, true);
  const bool seeds_differ = from->seed != to->seed || (first && baseline_seed_ != candidate_seed_);
  const bool elsewhere = from->position_before != to->position_before;
  if (seeds_differ && (first || from->seed != to->seed)) {
    const bool manifest = from->seed == to->seed;
    started_apart_ = started_apart_ || parting_.empty();
    part(fmt::format("the generators started apart (seed {} against {})",
                     manifest ? baseline_seed_ : from->seed,
                     manifest ? candidate_seed_ : to->seed));
  } else if (elsewhere) {
    part(fmt::format("{} found the generator at another place; what moved it there is not recorded",
                     op_text(baseline)));
  } else if (from->position_after != to->position_after) {
    part(fmt::format("the stream parted at {}: it drew {} against {} numbers",
                     op_text(baseline),
                     drawn_text(from->drawn),
                     drawn_text(to->drawn)));
  } else if (parting_.empty()) {
    last_draw_ = op_text(baseline);
  }
}

void RngLedger::see_unmatched(const core::OpRecord& record, bool in_baseline) {
  if (!record.generator) return;
  part(fmt::format("the stream parted at {}, which drew {} numbers in the {} only",
                   op_text(record),
                   drawn_text(record.generator->drawn),
                   in_baseline ? "baseline" : "candidate"));
}

std::optional<bool> RngLedger::stood_elsewhere(const core::OpRecord& baseline,
                                               const core::OpRecord& candidate) const {
  const auto& from = baseline.generator;
  const auto& to = candidate.generator;
  if (from && to) return from->seed != to->seed || from->position_before != to->position_before;
  if (from || to) return true;
  if (baseline_seed_ != candidate_seed_) return true;
  return std::nullopt;
}

}  // namespace repro_check::comparators::detail
