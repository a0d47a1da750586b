// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/ranks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/words/finding_words.h"
#include "comparators/ranks/rank_reads.h"
#include "comparators/ranks/rank_roots.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace core = repro_check::core;
using repro_check::cmd::words_of;
using repro_check::comparators::beginnings_of;
using repro_check::comparators::cause_of;
using repro_check::comparators::digest_of_number;
using repro_check::comparators::exit_code_of;
using repro_check::comparators::Finding;
using repro_check::comparators::FindingId;
using repro_check::comparators::judge;
using repro_check::comparators::name_on_mesh;
using repro_check::comparators::number_fact;
using repro_check::comparators::numbered;
using repro_check::comparators::RankList;
using repro_check::comparators::RankRead;
using repro_check::comparators::RankReads;
using repro_check::comparators::ReplicaColumn;
using repro_check::comparators::ReplicaKind;
using repro_check::comparators::SetAside;
using repro_check::comparators::SharedColumns;
using repro_check::comparators::StillReason;

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

std::vector<Finding> findings_of(const std::vector<std::vector<std::uint64_t>>& ranks) {
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

std::string cause_in(const RankReads& reads) {
  const auto report = judge(reads);
  REQUIRE(report.leading() != nullptr);
  return words_of(cause_of(*report.leading())).title;
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
  CHECK(words_of(restored[0]).whole() ==
        "another rank's generator was restored: from step 1 on ranks 0, 2 made all of their 4 "
        "draws from one seed (2), at the same positions; before that they drew from seed 1 on rank "
        "0, "
        "seed 8 on rank 2");
  const auto copies = findings_of({{1, 2, 3}, {1, 2, 3}});
  REQUIRE(copies.size() == 1);
  CHECK(words_of(copies[0]).whole().starts_with(
      "masks are copies: ranks 0, 1 made all of their 6 draws"));
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
  CHECK(words_of(copies[0]).whole().starts_with("masks are copies: ranks 0-3 made"));
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
  CHECK(words_of(copies[0]).whole() ==
        "parts are copies: ranks 0, 1 each hold a different part of a.weight, and these parts are "
        "equal step after step");
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
    if (!found) return std::string("nothing");
    const std::string one = found->call + " on rank " + std::to_string(found->rank);
    return found->other
               ? one + ", " + found->other->call + " on rank " + std::to_string(found->other->rank)
               : one;
  };
  CHECK(cause_in(reads) == "gradients changed after their reduction");
  CHECK(behind() == "aten::div_ on rank 0");
  reads.reductions[odd].push_back({"aten::mul_ (train.py:7)", {7, 7}, 4});
  reads.reductions[odd].push_back({"aten::div_", {6, 6}, 5});
  CHECK(behind() == "aten::mul_ (train.py:7) on rank 1");
  reads.reductions[odd] = {{"c10d::allreduce_", {9, 9}, 3}, {"aten::div_", {5, 5}, 4}};
  CHECK(behind() == "aten::div_ on rank 1, aten::div_ on rank 0");
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
  const auto advice = [&] { return words_of(cause_of(*judge(reads).leading())).fix; };
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
  CHECK(words_of(cause_of(buffers)).fix.find("broadcast_buffers") == std::string::npos);
}

TEST_CASE("statistics that drift do not hide another fault, and each has its cause") {
  repro_check::comparators::RanksReport report;
  const auto differ = [&](ReplicaKind kind, std::uint32_t step) {
    auto& first = report.kinds.at(static_cast<std::size_t>(kind)).first;
    first.emplace();
    first->kind = kind;
    first->step = step;
  };
  differ(ReplicaKind::kEntryBuffers, 1);
  CHECK(report.leading()->kind == ReplicaKind::kEntryBuffers);
  CHECK(report.independent().empty());
  differ(ReplicaKind::kGradients, 2);
  differ(ReplicaKind::kParameters, 2);
  differ(ReplicaKind::kLearningRates, 3);
  CHECK(report.leading()->kind == ReplicaKind::kGradients);
  const auto others = report.independent();
  REQUIRE(others.size() == 2);
  CHECK(others[0]->kind == ReplicaKind::kEntryBuffers);
  CHECK(others[1]->kind == ReplicaKind::kLearningRates);
  // A skipped step is one of the scheduler too; other weights make other statistics.
  report.kinds.at(static_cast<std::size_t>(ReplicaKind::kGradients)).first->other_passes = true;
  CHECK(report.independent().size() == 1);
  differ(ReplicaKind::kEntryParameters, 0);
  CHECK(report.leading()->kind == ReplicaKind::kEntryParameters);
  CHECK(std::ranges::count(report.independent(),
                           ReplicaKind::kEntryBuffers,
                           &repro_check::comparators::ReplicaDifference::kind) == 0);
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
    return findings.empty() ? std::string() : words_of(findings.front()).whole();
  };
  CHECK(said({{0, 2, 4}, {1, 3, 0}}).starts_with("padded: 1 of 5 samples are repeated"));
  CHECK(said({{0, 2, 4, 6}, {1, 3, 5, 7}}).empty());
  CHECK(said({{0, 2, 4, 6}, {2, 3, 6, 1}}) ==
        "parts of the data overlap: 2 of 6 samples are read more than once in an epoch of the "
        "loader of train.py:7, more than padding would repeat");
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
  CHECK(findings[0].weight == Finding::Weight::kProof);
  CHECK(words_of(findings[0]).whole() ==
        "the optimizer finds no gradient: it made 3 steps without any gradient, on every rank");
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
  CHECK(words_of(cause_of(*begun.leading())).fix ==
        "make the optimizer with the same lr on every rank");
  const auto later = rates({{{0.1}, {0.1}}, {{0.1}, {0.2}}});
  CHECK(words_of(cause_of(*later.leading())).fix.starts_with("step the scheduler"));
  const auto groups = rates({{{0.1, 0.1}}, {{0.1}}});
  CHECK(words_of(cause_of(*groups.leading())).title ==
        "the optimizers have different parameter groups");
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
  CHECK(weight() == Finding::Weight::kSuspicion);
  for (RankRead& rank : reads.ranks) rank.roots.exchanges_behind = 1;  // a barrier at the end
  CHECK(weight() == Finding::Weight::kSuspicion);
  reads.ranks[0].roots.exchanges_behind = 3;
  CHECK(weight() == Finding::Weight::kNote);
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
  Finding same{FindingId::kSameOrder, Finding::Weight::kProof};
  same.with("sampler", "RandomSampler").with("epochs", 3).where.line = "train.py:7";
  reads.ranks[1].roots.data.findings = {same};
  const auto findings = judge(reads).findings;
  REQUIRE(findings.size() == 1);
  CHECK(
      words_of(findings[0]).whole() ==
      "same order in every epoch: the loader of train.py:7 (RandomSampler) takes the same samples "
      "in the same shuffled order in each of 3 epochs (rank 1)");
}

namespace {

/// Adds what ranks have of a kind, by a number for each step, and 0 for none.
void add_column(RankRead& rank,
                ReplicaKind kind,
                const std::string& part,
                const std::vector<std::uint64_t>& numbers,
                std::uint32_t items = 1) {
  ReplicaColumn column;
  for (std::uint32_t step = 0; step < numbers.size(); ++step) {
    if (numbers[step] != 0) column.add(step, {{numbers[step], 7}, 20 + step, items});
  }
  rank.roots.columns[{kind, 0, part}] = std::make_shared<const ReplicaColumn>(std::move(column));
}

std::vector<std::string> words(const std::vector<Finding>& findings) {
  std::vector<std::string> whats;
  for (const Finding& finding : findings) whats.push_back(words_of(finding).whole());
  return whats;
}

}  // namespace

TEST_CASE("many ranks in a row are a range") {
  const auto said = [](const RankList& ranks) { return numbered("rank", ranks); };
  CHECK(said({3}) == "rank 3");
  CHECK(said({0, 1}) == "ranks 0, 1");
  CHECK(said({0, 1, 2, 5, 7, 8, 9, 10}) == "ranks 0-2, 5, 7-10");
  RankList all;
  for (std::uint32_t rank = 0; rank < 256; ++rank) all.push_back(rank);
  CHECK(said(all) == "ranks 0-255");
  RankList odd;
  for (std::uint32_t rank = 1; rank < 256; rank += 2) odd.push_back(rank);
  CHECK(said(odd) == "ranks 1, 3, 5, 7, 9, 11, 13, 15 and 120 more");
}

TEST_CASE("ranks of several runs, attempts or parts of a program are not held against each other") {
  RankReads reads = training({{1, 2}, {1, 3}});
  for (RankRead& rank : reads.ranks) rank.run_id = "a";
  CHECK(exit_code_of(judge(reads)) == core::ExitCode::kDivergence);
  const auto is_refused = [&] {
    const auto report = judge(reads);
    return report.leading() == nullptr && report.why_not.has_value() &&
           exit_code_of(report) == core::ExitCode::kNotComparable;
  };
  reads.ranks[1].run_id = "b";
  CHECK(is_refused());
  reads.ranks[1].run_id = "";
  CHECK(is_refused());
  reads.ranks[1].run_id = "a";
  reads.ranks[1].attempt = 1;
  CHECK(is_refused());
  reads.ranks[1].attempt = 0;
  reads.ranks[1].only = "steps 0:2";
  CHECK(is_refused());
  // Of those that an older recorder made nothing is known.
  reads.ranks[1].only = "";
  for (RankRead& rank : reads.ranks) rank.run_id = "";
  CHECK(judge(reads).is_unnamed);
  CHECK(exit_code_of(judge(reads)) == core::ExitCode::kDivergence);
}

TEST_CASE("behind join() contexts of other lengths steps are none of each other's") {
  RankReads reads = training({{1, 2, 3, 4, 5}, {1, 2, 3, 6}});
  reads.ranks[0].joined = {3, 5};
  reads.ranks[1].joined = {2, 4};
  auto report = judge(reads);
  CHECK(report.leading() == nullptr);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].weight == Finding::Weight::kNote);
  CHECK(words_of(report.findings[0]).whole().find("step 2") != std::string::npos);
  // What parts before is said.
  reads.ranks[1].joined = {4};
  reads.ranks[0].joined = {5};
  report = judge(reads);
  REQUIRE(report.leading() != nullptr);
  CHECK(report.leading()->step == 3);
}

TEST_CASE("parameters that come together again were averaged") {
  RankReads reads = training({{1, 2, 3, 4, 5}, {1, 12, 13, 14, 15}});
  const auto begin = [&](const std::vector<std::uint64_t>& one,
                         const std::vector<std::uint64_t>& other) {
    add_column(reads.ranks[0], ReplicaKind::kEntryParameters, "", one);
    add_column(reads.ranks[1], ReplicaKind::kEntryParameters, "", other);
    return exit_code_of(judge(reads));
  };
  CHECK(begin({1, 2, 3, 4, 5}, {1, 2, 13, 14, 15}) == core::ExitCode::kDivergence);
  CHECK(begin({1, 2, 3, 4, 5}, {1, 2, 13, 4, 15}) == core::ExitCode::kNotComparable);
  for (RankRead& rank : reads.ranks) rank.averages = true;
  CHECK(begin({1, 2, 3, 4, 5}, {1, 2, 13, 4, 15}) == core::ExitCode::kReproducible);
  // What the recording holds nothing of cannot be judged.
  CHECK(begin({1, 2, 3, 4, 5}, {1, 2, 13, 14, 15}) == core::ExitCode::kNotComparable);
}

TEST_CASE("experts that begin alike are each rank's own") {
  RankReads reads = training({{1}, {2}});
  for (RankRead& rank : reads.ranks) {
    rank.roots.beginning = {{"dense.weight", {5, 7}}, {"expert.weight", {6, 7}}};
  }
  CHECK(beginnings_of(reads.ranks).apart.empty());
  reads.ranks[1].roots.exchanged = {"expert.weight"};
  CHECK(beginnings_of(reads.ranks).apart == SetAside{"expert.weight"});
}

TEST_CASE("parts of tensors that other ranks share are other tensors") {
  const repro_check::comparators::Meshes meshes{{"a.weight", "0,2"}};
  CHECK(name_on_mesh("a.weight@0:1/2", "a.weight", meshes) == "a.weight@0:1/2|0,2");
  CHECK(name_on_mesh("a.weight", "a.weight", meshes) == "a.weight@|0,2");
  CHECK(name_on_mesh("b.weight", "b.weight", meshes) == "b.weight");
}

TEST_CASE("what one rank reads for its log is not compared") {
  RankReads reads = training({{1, 2}, {1, 2}});
  add_column(reads.ranks[0], ReplicaKind::kActivations, "|0,1 (train.py:3)", {1, 2});
  add_column(reads.ranks[1], ReplicaKind::kActivations, "|0,1 (train.py:3)", {1, 2});
  add_column(reads.ranks[0], ReplicaKind::kActivations, "|0,1 (train.py:9)", {5, 6});
  CHECK(judge(reads).leading() == nullptr);
  CHECK(judge(reads).alone == 0);
  add_column(reads.ranks[1], ReplicaKind::kActivations, "|0,1 (train.py:9)", {5, 7}, 2);
  CHECK(judge(reads).leading() == nullptr);
  add_column(reads.ranks[1], ReplicaKind::kActivations, "|0,1 (train.py:9)", {5, 7});
  CHECK(judge(reads).leading() != nullptr);
}

TEST_CASE("parameters that never move") {
  RankReads reads = training({{1, 2, 3}, {1, 2, 3}});
  const auto code = [&](StillReason reason) {
    for (RankRead& rank : reads.ranks) rank.roots.still = {{"body.weight", reason}};
    const auto report = judge(reads);
    REQUIRE(report.findings.size() == 1);
    CHECK(words_of(report.findings[0]).whole().find("body.weight") != std::string::npos);
    return report.findings[0].weight;
  };
  CHECK(code(StillReason::kNoOptimizer) == Finding::Weight::kProof);
  CHECK(code(StillReason::kUnmoved) == Finding::Weight::kSuspicion);
  CHECK(code(StillReason::kNoGradient) == Finding::Weight::kSuspicion);
  reads.ranks[0].roots.exchanged = {"body.weight"};
  CHECK(code(StillReason::kNoGradient) == Finding::Weight::kProof);
  reads.ranks[1].roots.still.clear();
  CHECK(words(judge(reads).findings).empty());
}

TEST_CASE("samples are known by what they are where each rank has a dataset of its own") {
  RankReads reads = training({{1}, {1}});
  const auto load = [&](std::size_t rank, bool trains, std::uint64_t first, std::uint64_t end) {
    auto& loader = reads.ranks[rank].roots.data.loaders.emplace_back();
    loader.loader = trains ? 0 : 1;
    loader.name = "train.py:7";
    loader.trains = trains;
    for (std::uint64_t i = first; i < end; ++i) loader.digests.push_back({i, 7});
    const std::int64_t from = rank == 0 ? 0 : 100;
    if (trains) loader.numbers = {from, from + 1};
  };
  const auto said = [&] { return words(judge(reads).findings); };
  load(0, true, 0, 20);
  load(1, true, 20, 40);
  CHECK(said().empty());
  load(0, false, 60, 70);
  load(1, false, 60, 70);
  CHECK(said().empty());
  reads.ranks[1].roots.data.loaders.clear();
  load(1, true, 15, 35);
  load(1, false, 60, 70);
  REQUIRE(said().size() == 1);
  CHECK(said()[0].starts_with("parts of the data overlap: 5 of 35 samples"));
  reads.ranks[1].roots.data.loaders.clear();
  load(1, true, 20, 40);
  load(1, false, 10, 16);
  load(1, false, 60, 62);
  REQUIRE(said().size() == 1);
  CHECK(said()[0].starts_with(
      "trained and validated: 6 of the samples for validation on rank 1 are used "));
  // Who looks at what he trains on means to.
  reads.ranks[1].roots.data.loaders.clear();
  load(1, true, 20, 40);
  load(1, false, 10, 30);
  CHECK(said().empty());
}

TEST_CASE("gradients that differ before they are clipped made the others differ") {
  RankReads reads = training({{1}, {2}});
  const std::vector<core::Digest> roots{{1, 7}, {2, 7}};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    reads.items[roots[rank]] = {{"head", {rank, 1}}, {"norm", {rank, 2}}};
    reads.unclipped[roots[rank]] = {{"local.head", digest_of_number(3)},
                                    {"local.norm", digest_of_number(static_cast<double>(rank))}};
  }
  REQUIRE(judge(reads).leading() != nullptr);
  CHECK(judge(reads).leading()->names == std::vector<std::string>{"norm"});
  reads.unclipped.clear();
  CHECK(judge(reads).leading()->names == std::vector<std::string>{"head", "norm"});
}
