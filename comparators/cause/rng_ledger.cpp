// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/rng_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comparators/report/op_text.h"

namespace repro_check::comparators::detail {
namespace {

std::string drawn_text(std::int64_t drawn) {
  return drawn < 0 ? std::string("an unknown count of") : fmt::format("{}", drawn);
}

}  // namespace

RngLedger::RngLedger(const core::RunManifest& baseline, const core::RunManifest& candidate)
    : baseline_seed_(baseline.seed),
      candidate_seed_(candidate.seed),
      on_host_(baseline.rng == "host") {}

void RngLedger::part(std::string sentence) {
  if (!parting_.empty()) return;
  parting_ = std::move(sentence);
  if (!last_draw_.empty()) parting_ += fmt::format("; {} was the last to draw alike", last_draw_);
}

void RngLedger::count_calls(const core::OpRecord& record) {
  const auto found = below_.find(record.index);
  std::uint64_t drew = found == below_.end() ? 0 : found->second;
  if (found != below_.end()) below_.erase(found);
  if (record.generator) {
    draws_.operators -= std::exchange(drew, 1);
    count(record);
  }
  if (drew > 0 && record.parent >= 0) below_[static_cast<std::uint64_t>(record.parent)] += drew;
}

void RngLedger::count(const core::OpRecord& record) {
  ++draws_.operators;
  if (std::ranges::find(draws_.devices, record.generator->device) == draws_.devices.end()) {
    draws_.devices.push_back(record.generator->device);
  }
  // On the host every draw has a seed of its own, made from the run's.
  const std::uint64_t seed = on_host_ ? baseline_seed_ : record.generator->seed;
  const bool is_known = std::ranges::find(draws_.seeds, seed) != draws_.seeds.end();
  if (!is_known && draws_.seeds.size() < RandomDraws::kMostSeeds) draws_.seeds.push_back(seed);
}

RandomDraws RngLedger::draws() const {
  RandomDraws draws = draws_;
  draws.parting = parting_;
  return draws;
}

void RngLedger::see(const core::OpRecord& baseline, const core::OpRecord& candidate) {
  const auto& from = baseline.generator;
  const auto& to = candidate.generator;
  if (from.has_value() == to.has_value()) count_calls(baseline);
  if (!from && !to) return;
  if (!from || !to) {
    see_unmatched(from ? baseline : candidate, from.has_value());
    return;
  }
  const bool elsewhere = from->position_before != to->position_before;
  // Not by the seeds of the runs: the model may have seeded its generators alike since.
  if (from->seed != to->seed) {
    const bool of_runs = on_host_ && baseline_seed_ != candidate_seed_;
    started_apart_ = started_apart_ || parting_.empty();
    part(fmt::format("the generators started apart (seed {} against {})",
                     of_runs ? baseline_seed_ : from->seed,
                     of_runs ? candidate_seed_ : to->seed));
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
