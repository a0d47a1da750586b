// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/rank_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/trace/program_records.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;
using comparators::Report;

/// Collectives that a rank had entered before it parted, and whether one of them brought it.
using Parting = std::pair<std::uint64_t, bool>;

Parting parting_of(const Report& report, const RankPair& pair) {
  constexpr Parting kNever{std::numeric_limits<std::uint64_t>::max(), false};
  if (!report.first_divergence) return kNever;
  const comparators::OpDivergence& first = *report.first_divergence;
  const bool of_baseline = first.baseline_index.has_value();
  if (!of_baseline && !first.candidate_index) return kNever;
  const auto dump = store::open_partial(of_baseline ? pair.baseline : pair.candidate);
  const std::uint64_t parted = of_baseline ? *first.baseline_index : *first.candidate_index;
  Parting parting{0, first.cause.kind == comparators::CauseKind::kReceived};
  for (std::uint64_t i = 0; i < std::min(parted, dump->op_count()); ++i) {
    if (core::is_of_ranks(*dump->op_head(i).op)) ++parting.first;
  }
  return parting;
}

}  // namespace

std::vector<RankPair> rank_pairs(const fs::path& baseline, const fs::path& candidate) {
  std::map<std::uint32_t, RankPair> pairs;
  const auto baselines = store::rank_dumps(baseline);
  const auto candidates = store::rank_dumps(candidate);
  if (baselines.empty() != candidates.empty()) {
    const fs::path& of_ranks = baselines.empty() ? candidate : baseline;
    throw core::Error(
        core::ErrorKind::kUsage,
        fmt::format("{}: holds a dump a rank, and the other is no such directory",
                    of_ranks.string()),
        fmt::format("compare one of its ranks: {}",
                    (baselines.empty() ? candidates : baselines).front().path.string()));
  }
  for (const auto* dumps : {&baselines, &candidates}) {
    for (const store::RankDump& dump : *dumps) {
      pairs[dump.rank] = {dump.rank,
                          store::rank_directory(baseline, dump.rank),
                          store::rank_directory(candidate, dump.rank)};
    }
  }
  std::vector<RankPair> list;
  for (auto& [rank, pair] : pairs) list.push_back(std::move(pair));
  return list;
}

std::vector<Report> judge_ranks(const std::vector<RankPair>& pairs,
                                const std::function<Report(const RankPair&)>& judge_pair) {
  std::vector<std::pair<Parting, Report>> judged;
  for (const RankPair& pair : pairs) {
    Report report = judge_pair(pair);
    report.ranks = {pair.rank};
    report.rank_divergences.clear();
    if (const auto& first = report.first_divergence) {
      report.rank_divergences.push_back({pair.rank,
                                         first->baseline_index.has_value(),
                                         comparators::shown_index(*first),
                                         comparators::head_of(comparators::shown_record(*first))});
    }
    const Parting parting = parting_of(report, pair);
    judged.emplace_back(parting, std::move(report));
  }
  std::ranges::stable_sort(judged, {}, [](const auto& entry) { return entry.first; });
  std::vector<Report> reports;
  for (auto& [parting, report] : judged) reports.push_back(std::move(report));
  put_worst_first(reports);
  return reports;
}

Report judge_runs(const fs::path& baseline,
                  const fs::path& candidate,
                  const comparators::CompareOptions& options,
                  const OpenOptions& opening,
                  const std::optional<std::uint32_t>& alone) {
  std::vector<RankPair> pairs = rank_pairs(baseline, candidate);
  if (pairs.empty()) return judge(baseline, candidate, options, opening);
  if (alone) std::erase_if(pairs, [&](const RankPair& pair) { return pair.rank != *alone; });
  std::vector<Report> reports = judge_ranks(pairs, [&](const RankPair& pair) {
    return judge(pair.baseline, pair.candidate, options, opening);
  });
  Report lead = std::move(reports.front());
  for (auto other = reports.begin() + 1; other != reports.end(); ++other) {
    name_statuses(*other, lead);
    lead.seconds += other->seconds;
    lead.ranks.push_back(other->ranks.front());
    std::ranges::copy(other->rank_divergences, std::back_inserter(lead.rank_divergences));
  }
  std::ranges::sort(lead.ranks);
  std::ranges::sort(lead.rank_divergences, {}, &comparators::RankDivergence::rank);
  return lead;
}

std::optional<std::uint32_t> rank_of(const Report& report) {
  if (report.runs.empty()) return std::nullopt;
  return store::rank_of_name(fs::path(report.runs.front().location).filename().string());
}

}  // namespace repro_check::cmd
