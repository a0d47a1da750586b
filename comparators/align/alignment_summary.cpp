// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/alignment_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace repro_check::comparators::detail {
namespace {

std::uint64_t of(const std::array<std::uint64_t, 7>& counts, MatchedBy by) {
  return counts[static_cast<std::size_t>(by)];
}

std::string calls(std::uint64_t count) {
  return fmt::format("{} call{}", count, count == 1 ? "" : "s");
}

}  // namespace

std::optional<PairingOptions> pairing_options(const core::RunManifest& baseline,
                                              const core::RunManifest& candidate,
                                              const configs::CompareSpec& spec) {
  const std::string& here = baseline.trace.depth;
  const std::string& there = candidate.trace.depth;
  PairingOptions options;
  options.mode = spec.align;
  options.map = &spec.map;
  options.top_of_baseline = here == "all" && there == "top";
  options.top_of_candidate = there == "all" && here == "top";
  if (here == there || options.top_of_baseline || options.top_of_candidate) return options;
  return std::nullopt;
}

AlignmentSummary summarise(const Pairing& pairing) {
  const auto counts = pairing.counts();
  AlignmentSummary summary;
  summary.by_position = pairing.by_position;
  summary.position = of(counts, MatchedBy::kPosition);
  summary.lcs = of(counts, MatchedBy::kLcs);
  summary.anchor = of(counts, MatchedBy::kAnchor);
  summary.partial = of(counts, MatchedBy::kPartial);
  summary.map = of(counts, MatchedBy::kMap);
  summary.order = of(counts, MatchedBy::kOrder);
  summary.reordered = pairing.moved.size();
  summary.left_out_baseline = pairing.baseline.left_out();
  summary.left_out_candidate = pairing.candidate.left_out();
  summary.work = pairing.work;
  summary.work_limit = pairing.work_limit;
  summary.gave_up = pairing.gave_up;
  return summary;
}

NameMapUse map_use(const configs::NameMap& map,
                   const Pairing& pairing,
                   const std::vector<std::uint64_t>& tensors) {
  NameMapUse use;
  use.file = map.file;
  for (std::size_t i = 0; i < map.entries.size(); ++i) {
    const configs::NameRewrite& entry = map.entries[i];
    use.entries.push_back({entry.line,
                           std::string(configs::name_of(entry.kind)),
                           entry.pattern.text(),
                           entry.replacement,
                           pairing.rewritten[i],
                           tensors[i]});
  }
  return use;
}

std::vector<std::string> alignment_warnings(const Report& report) {
  const AlignmentSummary& alignment = report.alignment;
  std::vector<std::string> warnings;
  for (const NameMapUse::Entry& entry : report.name_map.entries) {
    if (entry.operators != 0 || entry.tensors != 0) continue;
    warnings.push_back(fmt::format("{}:{}: {} {} matched nothing in the candidate",
                                   report.name_map.file,
                                   entry.line,
                                   entry.kind,
                                   entry.pattern));
  }
  if (alignment.gave_up) {
    warnings.emplace_back(
        "the alignment gave up on a part of the two streams: operators there count as missing "
        "although some may correspond");
  }
  if (alignment.order != 0) {
    warnings.push_back(
        fmt::format("{} came in another order, with all inputs and outputs bit-equal: \"order\": "
                    "\"relaxed\" lets that pass",
                    calls(alignment.order)));
  }
  for (const bool baseline : {true, false}) {
    const std::uint64_t count =
        baseline ? alignment.left_out_baseline : alignment.left_out_candidate;
    if (count == 0) continue;
    warnings.push_back(
        fmt::format("{} nested call{} of the {} left out: it was recorded at depth \"all\", the {} "
                    "at \"top\"",
                    count,
                    count == 1 ? "" : "s",
                    baseline ? "baseline" : "candidate",
                    baseline ? "candidate" : "baseline"));
  }
  return warnings;
}

std::string ranks_text(std::span<const std::uint32_t> ranks) {
  constexpr std::size_t kMost = 16;
  const auto shown = ranks.first(std::min(ranks.size(), kMost));
  const std::size_t more = ranks.size() - shown.size();
  return fmt::format(
      "{{{}{}}}", fmt::join(shown, ", "), more == 0 ? "" : fmt::format(", and {} more", more));
}

}  // namespace repro_check::comparators::detail
