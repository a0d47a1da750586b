// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cmd/render/json_form.h"
#include "cmd/render/render.h"
#include "cmd/reports/rank_slices.h"
#include "cmd/reports/verdict.h"
#include "comparators/compare.h"
#include "comparators/ranks/ranks.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// The dumps of one rank in two runs of a program.
struct RankPair {
  std::uint32_t rank = 0;
  std::filesystem::path baseline;
  std::filesystem::path candidate;
};

/// Of two directories that hold a dump a rank, those of every rank that they had and that is
/// asked for, the dump there or not; those that both had where they ran on other numbers of ranks;
/// none where neither holds any.
/// @throws core::Error{kUsage} where only one does
std::vector<RankPair> rank_pairs(const std::filesystem::path& baseline,
                                 const std::filesystem::path& candidate,
                                 const comparators::RankRange& asked = {});

/// How many ranks a directory of dumps is of, as it says or the first of them that can be read
/// does; 0 where neither does.
std::uint32_t expected_ranks(const std::filesystem::path& dump);

/// How many ranks both ran on, as they say themselves; 0 = they do not.
std::uint32_t ranks_of(const std::filesystem::path& baseline,
                       const std::filesystem::path& candidate);

/// What came of one rank, and what tells it from the others.
struct JudgedPair {
  std::uint32_t rank = 0;
  /// Collectives that the rank had entered before it parted; empty where it did not.
  std::optional<std::uint64_t> entered;
  bool received = false;  ///< one of them brought what parts
  comparators::Report report;
};

std::vector<JudgedPair> judge_ranks(
    const std::vector<RankPair>& pairs,
    const std::function<comparators::Report(const RankPair&)>& judge_pair);

/// The report first that decides the exit code; of several that diverged the one whose rank had
/// entered the fewest collectives by then: the others may have received from it what they have.
/// What came out of a collective comes behind what went into it.
std::vector<comparators::Report> leading_first(std::vector<JudgedPair> judged);

/// A line a pair: what leading_first() asks for, and its JSON report.
std::vector<Json> lines_of(const std::vector<JudgedPair>& judged, const RenderOptions& options);

/// What slices of `diff` say together.
/// @throws core::Error{kDumpDamaged} where a line makes no sense, kUsage where they judged by other
///         policies
std::vector<comparators::Report> reports_of(std::span<const RankSlice> slices);

/// As judge(), of two recordings, each a dump or a directory that holds a dump a rank: then the
/// report on the rank that leads, which names all of them, and the statuses of the others.
/// @param alone  the one rank that is asked about, where a second pair of runs looks closer at it
/// @throws as rank_pairs()
comparators::Report judge_runs(const std::filesystem::path& baseline,
                               const std::filesystem::path& candidate,
                               const comparators::CompareOptions& options,
                               const OpenOptions& opening = {},
                               const std::optional<std::uint32_t>& alone = {});

/// The rank that a report of several is about; empty where it is about no rank of several.
std::optional<std::uint32_t> rank_of(const comparators::Report& report);

}  // namespace repro_check::cmd
