// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/ranks.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparators/ranks/rank_reads.h"
#include "comparators/ranks/rank_roots.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace core = repro_check::core;
using repro_check::comparators::beginnings_of;
using repro_check::comparators::cause_of;
using repro_check::comparators::digest_of_number;
using repro_check::comparators::judge;
using repro_check::comparators::number_fact;
using repro_check::comparators::RankFinding;
using repro_check::comparators::RankRead;
using repro_check::comparators::RankReads;
using repro_check::comparators::ReplicaColumn;
using repro_check::comparators::ReplicaKind;
using repro_check::comparators::SetAside;
using repro_check::comparators::SharedColumns;

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

/// Ranks with one gradient, by a number for each step.
RankReads training(const std::vector<std::vector<std::uint64_t>>& ranks) {
  static SharedColumns shared;
  RankReads reads;
  for (const std::vector<std::uint64_t>& gradients : ranks) {
    RankRead& rank = reads.ranks.emplace_back();
    rank.state.recording.rank = static_cast<std::uint32_t>(reads.ranks.size() - 1);
    rank.state.steps = rank.roots.steps = static_cast<std::uint32_t>(gradients.size());
    ReplicaColumn column;
    for (std::uint32_t step = 0; step < gradients.size(); ++step) {
      const core::Digest digest{gradients[step], 7};
      column.add(step, {digest, 10 + step, 1});
      reads.items[digest] = {{"weight", digest}};
    }
    rank.roots.columns[{ReplicaKind::kGradients, 0, ""}] = shared.keep(std::move(column));
  }
  return reads;
}

std::string_view cause_in(const RankReads& reads) {
  const auto report = judge(reads);
  REQUIRE(report.leading() != nullptr);
  return cause_of(*report.leading()).name;
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

TEST_CASE("a step was skipped where ranks begin to make other numbers of passes") {
  constexpr std::string_view kSkipped = "the optimizer skipped a step on some ranks";
  RankReads reads = training({{1, 2, 3}, {1, 4, 5}});
  reads.ranks[0].roots.passes = {{0, 2}, {1, 2}, {2, 2}};
  reads.ranks[1].roots.passes = {{0, 2}, {1, 4}, {2, 2}};
  CHECK(cause_in(reads) == kSkipped);
  reads.ranks[1].roots.passes = {{0, 3}, {1, 3}, {2, 3}};  // as many micro-batches as it is given
  CHECK(cause_in(reads) != kSkipped);
  reads.ranks[1].roots.passes = {{0, 2}, {1, 4}, {2, 2}};
  ReplicaColumn clipping;
  clipping.add(1, {});
  reads.ranks[1].roots.columns[{ReplicaKind::kClipping, 0, ""}] =
      std::make_shared<const ReplicaColumn>(std::move(clipping));
  CHECK(cause_in(reads) == "gradients are clipped on some ranks alone");
}

TEST_CASE("gradients that a collective made equal were changed behind it") {
  RankReads reads = training({{1, 2}, {1, 3}, {1, 2}});
  const core::Digest healthy{2, 7};
  const core::Digest odd{3, 7};
  reads.reductions[healthy] = {{"c10d::allreduce_", {9, 9}, 3}, {"aten::div_", {8, 8}, 4}};
  reads.reductions[odd] = {{"c10d::allreduce_", {9, 9}, 3}};
  const auto behind = [&] {
    const auto report = judge(reads);
    REQUIRE(report.leading() != nullptr);
    const auto& found = report.leading()->behind_reduction;
    return found ? found->what : "nothing";
  };
  CHECK(cause_in(reads) == "gradients changed behind their reduction");
  CHECK(behind() == "aten::div_ on rank 0 alone");
  reads.reductions[odd].push_back({"aten::mul_ (train.py:7)", {7, 7}, 4});
  reads.reductions[odd].push_back({"aten::div_", {6, 6}, 5});
  CHECK(behind() == "aten::mul_ (train.py:7) on rank 1 alone");
  reads.reductions[odd] = {{"c10d::allreduce_", {9, 9}, 3}, {"aten::div_", {5, 5}, 4}};
  CHECK(behind() == "aten::div_ gives rank 1 something else than rank 0");
  reads.reductions[odd] = {{"c10d::allreduce_", {4, 4}, 3}, {"aten::div_", {5, 5}, 4}};
  CHECK(behind() == "nothing");
  CHECK(cause_in(reads) == "gradients not reduced");
  reads.ranks[0].roots.inputs = {{0, {1, 1}}};
  CHECK(cause_in(reads) == "gradients of some ranks differ");
}

TEST_CASE("parts are replicas on the ranks that hold them, by their gradients too") {
  RankReads reads = training({{1}, {1}, {1}, {1}});
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const std::string part = rank % 2 == 0 ? "weight@0:0/2" : "weight@0:1/2";
    auto& roots = reads.ranks[rank].roots;
    roots.beginning = {{part, {rank + 1, 7}}};
    roots.gradients = {{part, {rank % 2 + 8, 7}}};
  }
  CHECK(beginnings_of(reads.ranks).apart.empty());
  reads.ranks[3].roots.gradients[0].digest = {4, 7};
  CHECK(beginnings_of(reads.ranks).apart == SetAside{"weight@0:1/2"});
}

TEST_CASE("ranks that pass messages on and reduce nothing have a stage each") {
  RankReads reads = training({{1}, {2}});
  for (RankRead& rank : reads.ranks) rank.roots.beginning = {{"weight", {5, 7}}};
  CHECK(beginnings_of(reads.ranks).apart.empty());
  for (RankRead& rank : reads.ranks) rank.roots.passes_on = true;
  CHECK(beginnings_of(reads.ranks).apart == SetAside{"weight"});
  reads.ranks[0].replicas.declared = true;
  CHECK(beginnings_of(reads.ranks).apart.empty());
}

TEST_CASE("what is advised is of the wrapper that there is") {
  RankReads reads = training({{1}, {2}});
  const auto advice = [&] { return std::string(cause_of(*judge(reads).leading()).advice); };
  CHECK(advice().find("no_sync") == std::string::npos);
  for (RankRead& rank : reads.ranks) rank.has_wrapper = true;
  CHECK(advice().find("no_sync") != std::string::npos);
  for (RankRead& rank : reads.ranks) {
    ReplicaColumn parameters;
    parameters.add(0, {{3, 7}, 10, 2});
    rank.roots.columns[{ReplicaKind::kParameters, 0, ""}] =
        std::make_shared<const ReplicaColumn>(std::move(parameters));
  }
  CHECK(advice().find("find_unused_parameters=True") != std::string::npos);
  repro_check::comparators::ReplicaDifference buffers;
  buffers.kind = ReplicaKind::kEntryBuffers;
  CHECK(cause_of(buffers).advice.find("broadcast_buffers") == std::string_view::npos);
}

TEST_CASE("samples that several ranks read are padding, or parts that overlap") {
  const auto said = [](const std::vector<std::vector<std::int64_t>>& numbers) {
    RankReads reads;
    for (std::size_t rank = 0; rank < numbers.size(); ++rank) {
      RankRead& read = reads.ranks.emplace_back();
      read.state.recording.rank = static_cast<std::uint32_t>(rank);
      read.roots.data.loaders.emplace_back().name = "train.py:7";
      read.roots.data.loaders.back().numbers = numbers[rank];
    }
    const auto findings = judge(reads).findings;
    return findings.empty() ? std::string() : findings.front().what;
  };
  CHECK(said({{0, 2, 4}, {1, 3, 0}}).starts_with("padded: 1 of 5 samples is read twice"));
  CHECK(said({{0, 2, 4, 6}, {1, 3, 5, 7}}).empty());
  CHECK(said({{0, 2, 4, 6}, {2, 3, 6, 1}}) ==
        "parts of the data overlap: 2 of 6 samples are read more than once in an epoch of the "
        "loader of train.py:7, more than make each rank have as many");
  // Ranks that work on parts of one batch.
  CHECK(said({{0, 2, 4}, {0, 2, 4}, {1, 3, 5}, {1, 3, 5}}).empty());
}

TEST_CASE("an optimizer that never finds a gradient trains nothing") {
  RankReads reads = reads_of({{1, 2, 3}, {4, 5, 6}});
  for (RankRead& rank : reads.ranks) {
    rank.state.steps = 3;
    rank.roots.beginning = {{"weight", {1, 7}}};
  }
  const auto findings = judge(reads).findings;
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].weight == RankFinding::Weight::kProof);
  CHECK(findings[0].what == "the optimizer made 3 steps with no gradient at all, on every rank");
  reads.ranks[1].roots.finds_gradients = true;
  CHECK(judge(reads).findings.empty());
}

TEST_CASE("learning rates differ from the beginning, since a step, or in number") {
  const auto rates = [](const std::vector<std::vector<std::vector<double>>>& ranks) {
    RankReads reads;
    for (const auto& steps : ranks) {
      RankRead& rank = reads.ranks.emplace_back();
      rank.state.recording.rank = static_cast<std::uint32_t>(reads.ranks.size() - 1);
      ReplicaColumn column;
      for (const std::vector<double>& groups : steps) {
        repro_check::comparators::ReplicaItems items;
        core::Digest root{1, groups.size()};
        for (std::size_t i = 0; i < groups.size(); ++i) {
          items.push_back({"lr[" + std::to_string(i) + "]", digest_of_number(groups[i])});
          root.high = root.high * 31 + items.back().digest.high;
        }
        column.add(static_cast<std::uint32_t>(column.steps.size()),
                   {root, 10, static_cast<std::uint32_t>(items.size())});
        reads.items[root] = std::move(items);
      }
      rank.roots.columns[{ReplicaKind::kLearningRates, 0, ""}] =
          std::make_shared<const ReplicaColumn>(std::move(column));
    }
    return judge(reads);
  };
  const auto begun = rates({{{0.1}}, {{0.2}}});
  CHECK(cause_of(*begun.leading()).advice == "make the optimizer with the same lr on every rank");
  const auto later = rates({{{0.1}, {0.1}}, {{0.1}, {0.2}}});
  CHECK(cause_of(*later.leading()).advice.starts_with("step the scheduler"));
  const auto groups = rates({{{0.1, 0.1}}, {{0.1}}});
  CHECK(cause_of(*groups.leading()).name == "the optimizers have other parameter groups");
  REQUIRE(groups.leading()->numbers.size() == 2);
  CHECK(groups.leading()->numbers[0].value == 2);
  CHECK(groups.leading()->numbers[1].value == 1);
}

TEST_CASE("who takes part in what longer runs reduce has joined") {
  RankReads reads = training({{1, 2}, {1, 2, 3}});
  const auto weight = [&] {
    const auto findings = judge(reads).findings;
    REQUIRE(findings.size() == 1);
    return findings.front().weight;
  };
  for (RankRead& rank : reads.ranks) {
    rank.replicas.declared = true;
    rank.roots.finds_gradients = true;
    rank.roots.passes = {{0, 1}, {1, 1}};
  }
  reads.ranks[1].roots.passes.push_back({2, 1});
  CHECK(weight() == RankFinding::Weight::kSuspicion);
  for (RankRead& rank : reads.ranks) rank.roots.exchanges_behind = 1;  // a barrier at the end
  CHECK(weight() == RankFinding::Weight::kSuspicion);
  reads.ranks[0].roots.exchanges_behind = 3;
  CHECK(weight() == RankFinding::Weight::kNote);
}

TEST_CASE("of several groups those ranks are named that must be alike, and one that differs") {
  RankReads reads = training({{1}, {1}, {1}, {2}});
  for (std::size_t rank = 0; rank < 4; ++rank) {
    auto& columns = reads.ranks[rank].roots.columns;
    auto column = columns.extract(columns.begin());
    column.key().part = rank % 2 == 0 ? "|0,2" : "|1,3";
    columns.insert(std::move(column));
  }
  const auto report = judge(reads);
  REQUIRE(report.leading() != nullptr);
  CHECK(report.leading()->among == std::vector<std::uint32_t>{1, 3});
  CHECK(report.leading()->rank == 3);
  CHECK(report.leading()->other_rank == 1);
  CHECK(report.leading()->other_op == 10);
}

TEST_CASE("what the loaders of one rank alone do is said of one rank") {
  RankReads reads = reads_of({{}, {}});
  reads.ranks[1].roots.data.findings = {{"same order in every epoch", "call set_epoch()"}};
  const auto findings = judge(reads).findings;
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "same order in every epoch (rank 1)");
}
