// SPDX-License-Identifier: Apache-2.0
// draws-repeat: an operator draws the same numbers in each step of a training, or call of a model.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparators/audit/rules.h"
#include "comparators/cause/cause.h"
#include "core/trace/record_names.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

/// `torch.manual_seed (0), 40 calls, the last (0) at train.py:9`; empty where the program gave
/// none.
std::string seeding_of(const core::RunManifest& manifest) {
  for (const std::string_view function : kTorchSeeders) {
    const std::string* given =
        core::environment_fact(manifest, std::string(core::kSetByProgram).append(function));
    if (given == nullptr) continue;
    return std::string(function) + " " + core::with_place(manifest, std::string(function), *given);
  }
  return {};
}

/// By step, or call of a model, the first call of an operator at one line that drew from one place
/// of a generator.
using Drawn = std::map<std::uint32_t, std::uint32_t>;

/// Whether so many of these steps follow each other as tell.
bool has_neighbours(const Drawn& drawn) {
  std::size_t run = 0;
  std::optional<std::uint32_t> before;
  for (const auto& [step, call] : drawn) {
    run = before && step == *before + 1 ? run + 1 : 1;
    if (run >= kTellingCalls) return true;
    before = step;
  }
  return false;
}

}  // namespace

std::vector<Finding> find_draws_repeat(const AuditTrace& trace) {
  const bool is_program = trace.manifest().is_of_program();
  if (is_program && trace.losses().empty()) return {};
  using Line = std::pair<TextId, std::uint32_t>;
  std::map<Line, std::map<core::Digest, Drawn>> lines;
  for (const AuditDraw& draw : trace.draws()) {
    const AuditCall& call = trace[draw.call];
    const bool trains = call.phase == core::Phase::kForward || call.phase == core::Phase::kLoss;
    if ((trains && !call.in_eval) || !is_program) {
      lines[{call.op, call.site}][draw.from].try_emplace(call.step, draw.call);
    }
  }
  std::vector<Finding> findings;
  for (const auto& [line, places] : lines) {
    const Drawn& most = std::ranges::max_element(places, {}, [](const auto& place) {
                          return place.second.size();
                        })->second;
    if (most.size() < kTellingCalls) continue;
    const std::uint32_t call = most.begin()->second;
    using enum Finding::Weight;
    // Nobody wants a mask to be the same in each step. Of other numbers one cannot know, and apart
    // from each other steps may be of several trainings, each with the same seed.
    const bool is_mask = trace[call].training == TrainFlag::kOn;
    const auto weight = is_mask && has_neighbours(most) ? kProof : kSuspicion;
    findings.push_back(trace.at(FindingId::kDrawsRepeat, weight, call)
                           .with(is_program ? "steps" : "calls", most.size())
                           .with("last", most.rbegin()->first)
                           .with("seeding", seeding_of(trace.manifest())));
  }
  return findings;
}

}  // namespace repro_check::comparators
