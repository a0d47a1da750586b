// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/ranks.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comparators/ranks/rank_reads.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace core = repro_check::core;
using repro_check::comparators::judge;
using repro_check::comparators::number_fact;
using repro_check::comparators::RankFinding;
using repro_check::comparators::RankRead;
using repro_check::comparators::RankReads;

namespace {

/// Ranks that each made three steps, and what they drew in each step, as a number.
RankReads reads_of(const std::vector<std::vector<std::uint64_t>>& ranks) {
  RankReads reads;
  for (const std::vector<std::uint64_t>& draws : ranks) {
    auto& rank = reads.ranks.emplace_back();
    rank.state.recording.rank = static_cast<std::uint32_t>(reads.ranks.size() - 1);
    rank.roots.steps = 3;
    for (std::uint32_t step = 0; step < draws.size(); ++step) {
      if (draws[step] != 0) rank.roots.draws.push_back({step, {draws[step], 7}, 2, draws[step]});
    }
  }
  return reads;
}

std::vector<RankFinding> findings_of(const std::vector<std::vector<std::uint64_t>>& ranks) {
  return judge(reads_of(ranks)).findings;
}

}  // namespace

TEST_CASE("a rank is told by a number, and by nothing else") {
  core::RunManifest manifest;
  CHECK(number_fact(manifest, core::kRank) == std::nullopt);
  manifest.environment = {{"distributed.rank", "7"}, {"distributed.ranks", "none"}};
  CHECK(number_fact(manifest, core::kRank) == 7U);
  CHECK(number_fact(manifest, core::kRanks) == std::nullopt);
}

TEST_CASE("generators that are equal from some step on") {
  const auto restored = findings_of({{1, 2, 3}, {4, 5, 6}, {8, 2, 3}});
  REQUIRE(restored.size() == 1);
  CHECK(restored[0].what ==
        "another rank's generator was restored: from step 1 on ranks 0, 2 made all of their 4 "
        "draws from one seed (2), at the same places; before it they drew from seed 1 on rank 0, "
        "seed 8 on rank 2");
  const auto copies = findings_of({{1, 2, 3}, {1, 2, 3}});
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].what.starts_with("masks are copies: ranks 0, 1 made all of their 6 draws"));
}

TEST_CASE("ranks that work on parts of the same draw alike") {
  RankReads reads = reads_of({{1, 2, 3}, {1, 2, 3}, {4, 5, 6}, {4, 5, 6}});
  for (std::size_t rank = 0; rank < 4; ++rank) {
    reads.ranks[rank].roots.peers = {rank < 2 ? "|0,1" : "|2,3"};
  }
  CHECK(judge(reads).findings.empty());
  // Beyond them none may.
  for (std::size_t rank = 2; rank < 4; ++rank)
    reads.ranks[rank].roots.draws = reads.ranks[0].roots.draws;
  const auto copies = judge(reads).findings;
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].what.starts_with("masks are copies: ranks 0, 1, 2, 3 made"));
}

TEST_CASE("ranks of which some are replicas are alike within these alone") {
  RankReads reads = reads_of({{1, 2, 3}, {1, 2, 3}, {4, 5, 6}, {4, 5, 6}});
  for (std::size_t rank = 0; rank < 4; ++rank) {
    reads.ranks[rank].replicas = {true, rank % 2 == 0 ? "0,2" : "1,3"};
  }
  CHECK(judge(reads).findings.empty());
  for (RankRead& rank : reads.ranks)
    rank.replicas.ranks = rank.state.recording.rank < 2 ? "0,1" : "2,3";
  CHECK(judge(reads).findings.size() == 2);
}

TEST_CASE("parts that are equal though they are others") {
  RankReads reads = reads_of({{1, 2, 3}, {4, 5, 6}});
  reads.ranks[0].roots.gradients = {{"a.weight@0:0/2", {7, 7}}, {"b.weight@0:0/2", {8, 8}}};
  reads.ranks[1].roots.gradients = {{"a.weight@0:1/2", {7, 7}}, {"b.weight@0:1/2", {9, 9}}};
  const auto copies = judge(reads).findings;
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].what ==
        "parts are copies: ranks 0, 1 hold each another part of a.weight, and the same in it, step "
        "after step");
  reads.ranks[1].roots.gradients = {{"a.weight@0:0/2", {7, 7}}};  // a replica
  CHECK(judge(reads).findings.empty());
}

TEST_CASE("what is drawn behind the last step says nothing of the steps") {
  CHECK(findings_of({{1, 2, 3, 9}, {4, 5, 6, 9}}).empty());
  CHECK(findings_of({{1, 2, 3, 8}, {4, 2, 3, 9}}).size() == 1);
  CHECK(findings_of({{0, 0, 0, 9}, {0, 0, 0, 9}}).empty());
  CHECK(findings_of({{1, 1, 0}, {0, 0, 1}}).empty());
}
