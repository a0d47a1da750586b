// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/gradient_norms.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cmd/words/finding_words.h"
#include "comparators/ranks/rank_reads.h"
#include "core/trace/program_records.h"
#include "tests/comparators/said.h"

namespace core = repro_check::core;
using repro_check::cmd::words_of;
using repro_check::comparators::clipped_norm_of;
using repro_check::comparators::ClippedNorm;
using repro_check::comparators::continues;
using repro_check::comparators::Finding;
using repro_check::comparators::match_norms;
using repro_check::comparators::norm_tolerance;
using repro_check::comparators::RankReads;
using repro_check::comparators::RanksReport;

namespace {

using Numbers = std::vector<std::pair<std::string, double>>;

ClippedNorm clipped(double norm, const Numbers& local, double type = 2) {
  core::OpRecord record;
  record.op = std::make_shared<core::OperatorInfo>(
      core::OperatorInfo{std::string(core::kClipRecord), "", false});
  Numbers numbers{{"norm", norm}, {"norm_type", type}, {"local_elements", 100}};
  numbers.emplace_back("local_epsilon", std::numeric_limits<float>::epsilon());
  for (const auto& [name, value] : local) numbers.emplace_back("local." + name, value);
  for (const auto& [name, value] : numbers) record.arguments.push_back({name, {value}});
  return clipped_norm_of(record);
}

RanksReport match(const std::vector<ClippedNorm>& ranks) {
  RankReads reads;
  for (const ClippedNorm& norm : ranks) {
    auto& rank = reads.ranks.emplace_back();
    rank.state.recording.rank = static_cast<std::uint32_t>(reads.ranks.size() - 1);
    rank.roots.norms.push_back(norm);
  }
  RanksReport report;
  match_norms(reads, report);
  return report;
}

void check_open(const std::vector<ClippedNorm>& ranks, const char* why) {
  const RanksReport found = match(ranks);
  CHECK(found.norms == 0);
  CHECK(found.open_norms == 1);
  CHECK(said_as_one(found.why_open) == why);
  CHECK(found.findings.empty());
}

}  // namespace

TEST_CASE("each shard is counted once, and once what all ranks have") {
  // 3^2 + 4^2 of two shards, 12^2 of what is whole.
  const RanksReport found = match(
      {clipped(13, {{"w@0:0/2|dp", 3}, {"b", 12}}), clipped(13, {{"w@0:1/2|dp", 4}, {"b", 12}})});
  CHECK(found.norms == 1);
  CHECK(found.open_norms == 0);
  CHECK(found.findings.empty());
}

TEST_CASE("what is split along two axes of a mesh is told apart by the axis") {
  std::vector<ClippedNorm> ranks;
  for (const char* dp : {"0", "1"}) {
    for (const char* tp : {"0", "1"}) {
      const double a = dp[0] == '0' ? 1 : 2;
      const double b = tp[0] == '0' ? 2 : 4;
      ranks.push_back(clipped(
          5, {{std::string("a@0:") + dp + "/2|dp", a}, {std::string("b@0:") + tp + "/2|tp", b}}));
    }
  }
  CHECK(match(ranks).norms == 1);
  CHECK(match(ranks).findings.empty());
}

TEST_CASE("a shard that is in no norm") {
  const RanksReport found =
      match({clipped(3, {{"w@0:0/2|dp", 3}}), clipped(3, {{"w@0:1/2|dp", 4}})});
  REQUIRE(found.findings.size() == 1);
  CHECK(found.findings[0].weight == Finding::Weight::kProof);
  CHECK(words_of(found.findings[0]).whole() ==
        "a shard is missing in the norm that gradients are clipped by: at step 0 it is 3 on every "
        "rank, and the norm over all gradients, put together by placement, is 5; it is the norm of "
        "what rank 0 holds");
}

TEST_CASE("replicas that are counted once a rank") {
  const double twice = std::sqrt(9 + 16 + 2 * 144);
  const RanksReport found = match({clipped(twice, {{"w@0:0/2|dp", 3}, {"b", 12}}),
                                   clipped(twice, {{"w@0:1/2|dp", 4}, {"b", 12}})});
  REQUIRE(found.findings.size() == 1);
  CHECK(found.findings[0].weight == Finding::Weight::kProof);
  CHECK(words_of(found.findings[0])
            .whole()
            .starts_with("replicas are counted several times in the norm"));
}

TEST_CASE("a norm of more than what is clipped is no proof") {
  const RanksReport found =
      match({clipped(9, {{"w@0:0/2|dp", 3}}), clipped(9, {{"w@0:1/2|dp", 4}})});
  REQUIRE(found.findings.size() == 1);
  CHECK(found.findings[0].weight == Finding::Weight::kSuspicion);
}

TEST_CASE("what cannot be put together is not judged") {
  check_open({clipped(3, {{"w@partial:0/2|tp", 3}}), clipped(3, {{"w@partial:1/2|tp", 4}})},
             "gradients that are still to be summed over ranks");
  check_open({clipped(3, {{"w@0:0/2|dp", 3}})}, "not every part is on a rank that was read");
  check_open({clipped(3, {{"a", 3}}), clipped(3, {{"b", 3}})},
             "the ranks do not clip the same parameters");
  check_open({clipped(3, {{"w", 3}}, 1), clipped(3, {{"w", 3}}, 1)},
             "it is of type 1, and L2 norms alone are put together");
  check_open({clipped(3, {{"w", std::nan("")}}), clipped(3, {{"w", 3}})},
             "a gradient among them cannot be read");
  check_open({clipped(INFINITY, {{"w", 3}}), clipped(INFINITY, {{"w", 3}})}, "it is not finite");
}

TEST_CASE("norms and gradients that differ are said elsewhere") {
  CHECK(match({clipped(3, {{"w", 3}}), clipped(4, {{"w", 3}})}).norms == 0);
  CHECK(match({clipped(3, {{"w", 3}}), clipped(3, {{"w", 4}})}).findings.empty());
}

TEST_CASE("groups that are clipped by one norm are one clipping") {
  ClippedNorm first = clipped(5, {{"a", 3}});
  CHECK(continues(first, clipped(5, {{"b", 4}})));
  CHECK_FALSE(continues(first, clipped(4, {{"b", 4}})));
  CHECK(match({first, first}).norms == 1);
  CHECK(match({first, first}).findings.empty());
}

TEST_CASE("rounding is no missing shard, and a shard of a hundredth is") {
  CHECK(norm_tolerance(1e9, std::numeric_limits<float>::epsilon()) < 0.01);
  CHECK(norm_tolerance(100, 0x1p-7) > 0x1p-7);  // of bfloat16 each norm is rounded
  CHECK(norm_tolerance(100, std::numeric_limits<double>::epsilon()) < 1e-13);
  CHECK(match({clipped(5 * (1 + 1e-6), {{"w", 5}})}).findings.empty());
  CHECK(match({clipped(5 * (1 - 1e-3), {{"w", 5}})}).findings.size() == 1);
}
