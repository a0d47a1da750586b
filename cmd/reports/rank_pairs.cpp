// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/rank_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <utility>

#include "cmd/render/json/report_json.h"
#include "core/error.h"
#include "core/trace/program_records.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;
using comparators::Report;

void note_parting(const RankPair& pair, JudgedPair& judged) {
  if (!judged.report.first_divergence) return;
  const comparators::OpDivergence& first = *judged.report.first_divergence;
  const bool of_baseline = first.baseline_index.has_value();
  if (!of_baseline && !first.candidate_index) return;
  const auto dump = store::open_partial(of_baseline ? pair.baseline : pair.candidate);
  const std::uint64_t parted = of_baseline ? *first.baseline_index : *first.candidate_index;
  judged.entered = 0;
  // As well one that waited for a rank that was gone.
  const bool has_raised = first.baseline_index && first.candidate_index &&
                          core::is_of_ranks(*first.baseline.op) &&
                          first.baseline.results.empty() != first.candidate.results.empty();
  judged.received = has_raised || first.cause.kind == comparators::CauseKind::kReceived;
  for (std::uint64_t i = 0; i < std::min(parted, dump->op_count()); ++i) {
    if (core::is_of_ranks(*dump->op_head(i).op)) ++*judged.entered;
  }
}

void name_rank(std::uint32_t rank, Report& report) {
  report.ranks = {rank};
  report.rank_divergences.clear();
  if (const auto& first = report.first_divergence) {
    report.rank_divergences.push_back({rank,
                                       first->baseline_index.has_value(),
                                       comparators::shown_index(*first),
                                       comparators::head_of(comparators::shown_record(*first))});
  }
}

}  // namespace

std::uint32_t ranks_of(const fs::path& baseline, const fs::path& candidate) {
  const std::uint32_t here = store::read_rank_count(baseline);
  const std::uint32_t there = store::read_rank_count(candidate);
  return here == 0 || there == 0 ? std::max(here, there) : std::min(here, there);
}

std::vector<RankPair> rank_pairs(const fs::path& baseline,
                                 const fs::path& candidate,
                                 const comparators::RankRange& asked) {
  const auto baselines = store::rank_dumps(baseline);
  const auto candidates = store::rank_dumps(candidate);
  if (baselines.empty() != candidates.empty()) {
    const fs::path& of_ranks = baselines.empty() ? candidate : baseline;
    throw core::usage_error(
        fmt::format("{}: holds a dump a rank, and the other is no such directory",
                    of_ranks.string()),
        fmt::format("compare one of its ranks: {}",
                    (baselines.empty() ? candidates : baselines).front().path.string()));
  }
  if (baselines.empty()) return {};
  // A rank that both lack is one that cannot be read; one that a run never had is none.
  std::uint32_t count = ranks_of(baseline, candidate);
  const bool known = store::read_rank_count(baseline) > 0 && store::read_rank_count(candidate) > 0;
  for (const auto* dumps : {&baselines, &candidates}) {
    for (const store::RankDump& dump : *dumps) {
      if (!known) count = std::max(count, dump.rank + 1);
    }
  }
  std::vector<RankPair> pairs;
  for (std::uint32_t rank = asked.first; rank < std::min(count, asked.end); ++rank) {
    pairs.push_back(
        {rank, store::rank_directory(baseline, rank), store::rank_directory(candidate, rank)});
  }
  return pairs;
}

DESCRIBE(JudgedPair, MEMBER(rank) MEMBER(entered) MEMBER(received))

std::vector<JudgedPair> judge_ranks(const std::vector<RankPair>& pairs,
                                    const std::function<Report(const RankPair&)>& judge_pair) {
  std::vector<JudgedPair> judged;
  for (const RankPair& pair : pairs) {
    judged.push_back({pair.rank, std::nullopt, false, judge_pair(pair)});
    note_parting(pair, judged.back());
  }
  return judged;
}

std::vector<Report> leading_first(std::vector<JudgedPair> judged) {
  std::ranges::stable_sort(judged, {}, [](const JudgedPair& pair) {
    constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
    return std::pair(pair.entered.value_or(kNever), pair.received);
  });
  std::vector<Report> reports;
  for (JudgedPair& pair : judged) {
    name_rank(pair.rank, pair.report);
    reports.push_back(std::move(pair.report));
  }
  put_worst_first(reports);
  return reports;
}

std::vector<Json> lines_of(const std::vector<JudgedPair>& judged, const RenderOptions& options) {
  std::vector<Json> lines;
  for (const JudgedPair& pair : judged) {
    Json& line = lines.emplace_back(Json{{"type", "pair"}});
    describe(JsonWriter(line), pair);
    line["report"] = json_report(pair.report, options);
  }
  return lines;
}

std::vector<Report> reports_of(std::span<const RankSlice> slices) {
  std::vector<JudgedPair> judged;
  std::optional<Json> policy;
  for (const RankSlice& slice : slices) {
    for (const Json& line : slice.lines) {
      JudgedPair& pair = judged.emplace_back();
      try {
        describe(JsonReader(line), pair);
        const Json& report = line.at("report");
        pair.report = std::move(read_reports(report.dump(), slice.file).reports.at(0));
        // What could not be read was judged by none.
        if (pair.report.coverage.compared > 0) {
          const Json& mine = report.at("verdict").at("policy");
          if (policy.value_or(mine) != mine) {
            throw core::usage_error(fmt::format("{} was judged by the policy {}, and others by {}",
                                                slice.file,
                                                mine.dump(),
                                                policy->dump()),
                                    "give every slice the same options");
          }
          policy = mine;
        }
      } catch (const core::Error&) {
        throw;
      } catch (const std::exception& error) {
        throw core::damaged_dump(
            fmt::format("{}, rank {}: {}", slice.file, pair.rank, error.what()));
      }
    }
  }
  return leading_first(std::move(judged));
}

Report judge_runs(const fs::path& baseline,
                  const fs::path& candidate,
                  const comparators::CompareOptions& options,
                  const OpenOptions& opening,
                  const std::optional<std::uint32_t>& alone) {
  std::vector<RankPair> pairs = rank_pairs(baseline, candidate);
  if (pairs.empty()) return judge(baseline, candidate, options, opening);
  if (alone) std::erase_if(pairs, [&](const RankPair& pair) { return pair.rank != *alone; });
  std::vector<Report> reports = leading_first(judge_ranks(pairs, [&](const RankPair& pair) {
    return judge(pair.baseline, pair.candidate, options, opening);
  }));
  Report lead = std::move(reports.front());
  for (auto other = reports.begin() + 1; other != reports.end(); ++other) {
    add_to(*other, lead);
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
