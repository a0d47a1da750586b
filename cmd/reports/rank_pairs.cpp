// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/rank_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <map>
#include <system_error>
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

std::uint32_t expected_ranks(const fs::path& dump) {
  const std::uint32_t said = store::read_rank_count(dump);
  if (said > 0) return said;
  for (const store::RankDump& rank : store::rank_dumps(dump)) {
    try {
      const auto manifest = store::open_partial(rank.path)->manifest();
      if (const auto ranks = comparators::number_fact(manifest, core::kRanks)) return *ranks;
    } catch (const core::Error&) {
      // It is told where it is read.
    }
  }
  return 0;
}

std::uint32_t ranks_of(const fs::path& baseline, const fs::path& candidate) {
  const std::uint32_t here = expected_ranks(baseline);
  const std::uint32_t there = expected_ranks(candidate);
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
        fmt::format("{}: holds one dump per rank, and the other does not", of_ranks.string()),
        fmt::format("compare one of its ranks: {}",
                    (baselines.empty() ? candidates : baselines).front().path.string()));
  }
  if (baselines.empty()) return {};
  // A rank that both lack is one that cannot be read; one that a run never had is none.
  std::uint32_t count = ranks_of(baseline, candidate);
  const bool known = expected_ranks(baseline) > 0 && expected_ranks(candidate) > 0;
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

namespace {

bool is_there(const fs::path& dump) {
  std::error_code ignored;
  return fs::exists(dump, ignored);
}

/// Of a rank that a run lacks, or both.
Report missing_rank(const RankPair& pair) {
  Report report;
  report.status = Status::kNotComparable;
  std::vector<std::string> missing;
  for (const fs::path& dump : {pair.baseline, pair.candidate}) {
    comparators::RunSummary& run = report.runs.emplace_back();
    run.location = dump.string();
    run.name = dump.filename().string();
    if (is_there(dump)) continue;
    run.status = "unreadable";
    run.message = dump.string() + ": no such directory";
    missing.push_back(dump.string());
  }
  report.reasons = {
      comparators::Phrase("rank-not-there", {{"number", pair.rank}, {"dumps", missing}})};
  return report;
}

/// What a dump says of its run; empty where it says nothing or cannot be read, which is told where
/// it is read.
std::string run_of(const fs::path& dump) {
  try {
    const auto source = store::open_partial(dump);
    const core::RunManifest& manifest = source->manifest();
    if (manifest.run_id.empty()) return {};
    return fmt::format("{}, attempt {}", manifest.run_id, manifest.attempt);
  } catch (const core::Error&) {
    return {};
  }
}

/// Why the ranks of one side are not those of one run; null where they are.
std::optional<comparators::Phrase> mixture_of(const std::vector<RankPair>& pairs,
                                              fs::path RankPair::*side) {
  std::map<std::string, comparators::RankList> ranks;
  for (const RankPair& pair : pairs) {
    if (const std::string run = run_of(pair.*side); !run.empty()) ranks[run].push_back(pair.rank);
  }
  if (ranks.size() < 2) return std::nullopt;
  std::vector<std::string> texts;
  texts.reserve(ranks.size());
  for (const auto& [run, list] : ranks) {
    texts.push_back(fmt::format("{} on {}", run, comparators::numbered("rank", list)));
  }
  return comparators::Phrase(
      "mixed-ranks",
      {{"dump", (pairs.front().*side).parent_path().string()}, {"runs", std::move(texts)}});
}

}  // namespace

std::vector<JudgedPair> judge_ranks(const std::vector<RankPair>& pairs,
                                    const std::function<Report(const RankPair&)>& judge_pair) {
  std::vector<JudgedPair> judged;
  auto mixture = mixture_of(pairs, &RankPair::baseline);
  if (!mixture) mixture = mixture_of(pairs, &RankPair::candidate);
  for (const RankPair& pair : pairs) {
    const bool is_whole = is_there(pair.baseline) && is_there(pair.candidate);
    if (mixture || !is_whole) {
      Report report = missing_rank(pair);
      if (is_whole) report.reasons = {*mixture};
      judged.push_back({pair.rank, std::nullopt, false, std::move(report)});
      continue;
    }
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
            throw core::usage_error(
                fmt::format("{} was compared with the policy {}, and others with {}",
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
  const fs::path place = report.runs.front().location;
  const auto rank = store::rank_of_name(place.filename().string());
  return rank ? rank : store::rank_of_name(place.parent_path().filename().string());
}

}  // namespace repro_check::cmd
