// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

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

}  // namespace repro_check::cmd
