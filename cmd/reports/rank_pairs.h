// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "cmd/reports/verdict.h"
#include "comparators/compare.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// The dumps of one rank in two runs of a program.
struct RankPair {
  std::uint32_t rank = 0;
  std::filesystem::path baseline;
  std::filesystem::path candidate;
};

/// Of two directories that hold a dump a rank, those of every rank that either has; none where
/// neither holds any.
/// @throws core::Error{kUsage} where only one does
std::vector<RankPair> rank_pairs(const std::filesystem::path& baseline,
                                 const std::filesystem::path& candidate);

/// Judges them, and puts the report first that decides the exit code; of several that diverged the
/// one whose rank had entered the fewest collectives by then: the others may have received from it
/// what they have. What came out of a collective comes behind what went into it.
std::vector<comparators::Report> judge_ranks(
    const std::vector<RankPair>& pairs,
    const std::function<comparators::Report(const RankPair&)>& judge_pair);

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
