// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/events.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace repro_check::comparators::detail {
namespace {

/// A hunk larger than this is no matter of single operators.
constexpr std::size_t kMostSplit = 10'000;

/// Neighbouring records of one module.
struct ModuleRun {
  std::string module;
  core::LargeVector<std::uint32_t> places;
};

std::vector<ModuleRun> module_runs(const core::DumpSource& source,
                                   const core::LargeVector<std::uint32_t>& places,
                                   const NameRewriter& names) {
  std::vector<ModuleRun> runs;
  for (const std::uint32_t place : places) {
    std::string module = names.module_of(source.op_head(place));
    if (runs.empty() || runs.back().module != module) runs.push_back({std::move(module), {}});
    runs.back().places.push_back(place);
  }
  return runs;
}

}  // namespace

core::LargeVector<Event> order_events(const Pairing& pairing) {
  core::LargeVector<Event> events;
  events.reserve(pairing.candidate_of.size() + pairing.baseline_of.size() - pairing.matched);
  const core::LargeVector<std::uint32_t>& theirs = pairing.candidate.completion;
  std::size_t next = 0;
  const auto flush_until = [&](std::uint32_t stop) {
    while (next < theirs.size() && theirs[next] != stop) {
      const std::uint32_t candidate = theirs[next];
      if (pairing.baseline_of[candidate] != kUnmatched) break;
      events.push_back({kUnmatched, candidate});
      ++next;
    }
  };
  core::LargeVector<bool> passed(theirs.size(), false);
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

std::vector<Hunk> split_by_module(const Hunk& hunk,
                                  const core::DumpSource& baseline,
                                  const core::DumpSource& candidate,
                                  const NameRewriter& names) {
  const bool small = hunk.missing.size() + hunk.extra.size() <= kMostSplit;
  if (!small || hunk.missing.size() < 2 || hunk.extra.size() < 2) return {hunk};
  std::vector<ModuleRun> missing = module_runs(baseline, hunk.missing, {});
  std::vector<ModuleRun> extra = module_runs(candidate, hunk.extra, names);
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

}  // namespace repro_check::comparators::detail
