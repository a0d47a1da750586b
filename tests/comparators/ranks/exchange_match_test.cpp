// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/exchange_match.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/words/finding_words.h"
#include "comparators/ranks/collectives.h"
#include "comparators/ranks/rank_reads.h"
#include "comparators/ranks/rank_roots.h"
#include "core/trace/program_records.h"
#include "tests/support/memory_source.h"

namespace core = repro_check::core;
using repro_check::cmd::words_of;
using repro_check::comparators::calls_to_read;
using repro_check::comparators::match_exchanges;
using repro_check::comparators::RankRead;
using repro_check::comparators::RankReads;
using repro_check::comparators::RanksReport;
using repro_check::comparators::read_calls;
using repro_check::comparators::read_rank;
using repro_check::comparators::SharedColumns;
using repro_check::comparators::ToldCalls;
using repro_check::test_support::DumpFixture;
using repro_check::test_support::MemorySource;

namespace {

/// What one rank did, record by record.
class Rank {
 public:
  Rank& group(const std::string& name, std::initializer_list<std::int64_t> ranks) {
    core::ValueList list;
    for (const std::int64_t rank : ranks) list.items.push_back({rank});
    add(core::kGroupRecord, {{"name", {name}}, {"ranks", {std::move(list)}}}, true);
    return *this;
  }

  Rank& collective(const std::string& op,
                   const std::string& tensors,
                   const std::string& group,
                   bool completed = true,
                   std::optional<core::Digest> given = {}) {
    add(core::kCollectiveRecord,
        {{"operator", {op}}, {"tensors", {tensors}}, {"group", {group}}, {"sequence", {++made_}}},
        true);
    if (completed) add(op, {}, true);
    if (completed && given) {
      core::TensorRecord& output = fixture_.ops.back().tensors.emplace_back();
      output.slot = "0";
      output.role = core::TensorRole::kOutput;
      output.state = core::ContentState::kHashed;
      output.digest = *given;
    }
    return *this;
  }

  /// To what was entered last.
  Rank& with(std::string_view name, core::Value value) {
    for (core::OpRecord& op : fixture_.ops | std::views::reverse) {
      if (op.op->name != core::kCollectiveRecord) continue;
      op.arguments.push_back({std::string(name), std::move(value)});
      break;
    }
    return *this;
  }

  Rank& message(const std::string& op,
                const std::string& tensors,
                const char* direction,
                std::int64_t peer,
                bool completed = true) {
    std::vector<core::Argument> arguments{
        {"operator", {op}}, {"tensors", {tensors}}, {"group", {std::string("all")}}};
    if (direction != nullptr) arguments.push_back({direction, {peer}});
    arguments.push_back({"tag", {std::int64_t{0}}});
    add(core::kCollectiveRecord, std::move(arguments), true);
    add(op, {}, true);
    if (completed) add("aten::relu", {}, true);
    return *this;
  }

  /// Of the message that was made last: the memory it is in, and what that holds when it is made.
  Rank& holds(core::Digest digest) {
    auto op = fixture_.ops.rbegin();
    while (op->op->name != "c10d::send" && op->op->name != "c10d::recv_") ++op;
    op->tensors = {memory(digest)};
    return *this;
  }

  /// What was received last is read.
  Rank& reads(core::Digest digest) {
    core::TensorRecord read = memory(digest);
    for (const core::OpRecord& op : fixture_.ops) {
      if (op.op->name == "c10d::recv_") read.producer = static_cast<std::int64_t>(op.index);
    }
    add("aten::mul", {}, true);
    fixture_.ops.back().tensors = {std::move(read)};
    return *this;
  }

  [[nodiscard]] MemorySource source() const { return MemorySource(fixture_); }

 private:
  static core::TensorRecord memory(core::Digest digest) {
    core::TensorRecord tensor;
    tensor.slot = "tensors.0";
    tensor.shape = {2};
    tensor.state = core::ContentState::kHashed;
    tensor.digest = digest;
    tensor.storage = 3;
    return tensor;
  }

  void add(std::string_view name, std::vector<core::Argument> arguments, bool has_results) {
    core::OpRecord record;
    record.index = fixture_.ops.size();
    record.op =
        std::make_shared<core::OperatorInfo>(core::OperatorInfo{std::string(name), "", false});
    record.arguments = std::move(arguments);
    if (has_results) record.results.emplace_back();
    fixture_.ops.push_back(std::move(record));
  }

  DumpFixture fixture_;
  std::int64_t made_ = 0;
};

RanksReport match(const std::vector<Rank>& ranks) {
  RankReads reads;
  SharedColumns shared;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    RankRead& read = reads.ranks.emplace_back();
    read.state.recording.rank = rank;
    read.roots = read_rank(ranks[rank].source(), rank, {{}, {}}, shared);
  }
  for (const ToldCalls& wanted : calls_to_read(reads.ranks)) {
    reads.told.push_back(
        read_calls(ranks[wanted.rank].source(), wanted.rank, wanted.key, wanted.first));
  }
  RanksReport report;
  match_exchanges(reads, report);
  return report;
}

std::vector<Rank> two_ranks() {
  std::vector<Rank> ranks(2);
  for (Rank& rank : ranks) rank.group("all", {0, 1});
  return ranks;
}

std::string only(const RanksReport& match) {
  REQUIRE(match.findings.size() == 1);
  return words_of(match.findings.front()).whole();
}

}  // namespace

TEST_CASE("sizes must be equal where a collective needs them so") {
  std::vector<Rank> ranks = two_ranks();
  ranks[0].collective("c10d::allgather_", "float32 [2]", "all");
  ranks[1].collective("c10d::allgather_", "float32 [3]", "all");
  CHECK(match(ranks).findings.empty());
  CHECK(match(ranks).collectives == 1);
  ranks[0].collective("c10d::broadcast_", "float32 [2], int64 [4]", "all");
  ranks[1].collective("c10d::broadcast_", "float32 [2], int64 [5]", "all");
  CHECK(only(match(ranks)) ==
        "size mismatch: collective 2 of group all (ranks 0, 1), at step 0, is c10d::broadcast_ "
        "float32 [2], int64 [4] on rank 0, and c10d::broadcast_ float32 [2], int64 [5] on rank 1");
}

TEST_CASE("what gives all ranks the same must have given it") {
  std::vector<Rank> ranks(3);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].group("all", {0, 1, 2});
    // Each gets its own part of a scattered sum.
    const std::uint64_t own = 10 + i;
    ranks[i].collective("c10d::reduce_scatter_", "float32 [2]", "all", true, {{own, own}});
    ranks[i].collective("c10d::allreduce_", "float32 [2]", "all", true, {{7, 7}});
  }
  CHECK(match(ranks).findings.empty());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::uint64_t given = i == 1 ? 8 : 7;
    ranks[i].collective("c10d::allreduce_", "float32 [2]", "all", true, {{given, given}});
  }
  CHECK(only(match(ranks)) ==
        "result mismatch: collective 3 of group all (ranks 0-2), at step 0, c10d::allreduce_ "
        "float32 [2], gave rank 1 another result than ranks 0, 2");
}

TEST_CASE("what a rank sends to another in its own size must be expected in that size") {
  std::vector<Rank> ranks = two_ranks();
  const auto split = [&](std::size_t rank, core::ValueList sends, core::ValueList receives) {
    ranks[rank]
        .collective("c10d::alltoall_base_", "float32 [4, 2], float32 [4, 2]", "all")
        .with(core::kCollectiveSends, {std::move(sends)})
        .with(core::kCollectiveReceives, {std::move(receives)});
  };
  const auto list = [](std::initializer_list<std::int64_t> sizes) {
    core::ValueList items;
    for (const std::int64_t size : sizes) items.items.push_back({size});
    return items;
  };
  // Each its own, and with no list at all, equal parts.
  split(0, list({2, 6}), list({2, 4}));
  split(1, list({4, 2}), list({6, 2}));
  split(0, {}, list({4, 4}));
  split(1, list({4, 4}), {});
  CHECK(match(ranks).findings.empty());
  // A recording that does not say it.
  ranks[0].collective("c10d::alltoall_base_", "float32 [4, 2], float32 [4, 2]", "all");
  split(1, list({1, 7}), list({7, 1}));
  CHECK(match(ranks).findings.empty());
  for (int i = 0; i < 70; ++i) {
    for (const std::size_t rank : {0U, 1U}) split(rank, {}, {});
  }
  split(0, list({2, 6}), list({2, 4}));
  split(1, list({4, 2}), list({5, 2}));
  CHECK(only(match(ranks)) ==
        "split mismatch: collective 74 of group all (ranks 0, 1), at step 0: rank 0 sends 6 "
        "elements to rank 1, which makes room for 5 in c10d::alltoall_base_ float32 [4, 2], "
        "float32 [4, 2]");
}

TEST_CASE("ranks that name another root, or reduce by something else") {
  std::vector<Rank> ranks = two_ranks();
  for (std::int64_t i = 0; i < 2; ++i) {
    Rank& rank = ranks[static_cast<std::size_t>(i)];
    rank.collective("c10d::broadcast_", "float32 [2]", "all").with(core::kCollectiveRoot, {i});
  }
  CHECK(only(match(ranks)) ==
        "root mismatch: collective 1 of group all (ranks 0, 1), at step 0, is c10d::broadcast_ "
        "float32 [2] root 0 on rank 0, and c10d::broadcast_ float32 [2] root 1 on rank 1");
  ranks = two_ranks();
  const auto reduce = [&](std::size_t rank, const std::string& by) {
    ranks[rank]
        .collective("c10d::allreduce_", "float32 [2]", "all")
        .with(core::kCollectiveReduceOp, {by});
  };
  for (const std::size_t rank : {0U, 1U}) reduce(rank, "SUM");
  CHECK(match(ranks).findings.empty());
  reduce(0, "SUM");
  reduce(1, "MAX");
  CHECK(only(match(ranks)) ==
        "reduce op mismatch: collective 2 of group all (ranks 0, 1), at step 0, is "
        "c10d::allreduce_ float32 [2] SUM on rank 0, and c10d::allreduce_ float32 [2] MAX on rank "
        "1");
}

TEST_CASE("what was given to a rank is not known where it was not read") {
  std::vector<Rank> ranks = two_ranks();
  ranks[0].collective("c10d::allreduce_", "float32 [2]", "all", true, {{7, 7}});
  ranks[1].collective("c10d::allreduce_", "float32 [2]", "all");
  CHECK(match(ranks).findings.empty());
  ranks[0].collective("c10d::allreduce_", "float32 [2]", "all", true, {{7, 7}});
  ranks[1].collective("c10d::allreduce_", "float32 [2]", "all", false);
  CHECK(match(ranks).findings.empty());
}

TEST_CASE("one among many is found in its block, and two that changed places are another order") {
  std::vector<Rank> ranks = two_ranks();
  for (Rank& rank : ranks) {
    for (int i = 0; i < 70; ++i) rank.collective("c10d::allreduce_", "float32 [4]", "all");
  }
  CHECK(match(ranks).findings.empty());
  ranks[0].collective("c10d::barrier", "", "all").collective("c10d::reduce_", "int64 [1]", "all");
  ranks[1].collective("c10d::reduce_", "int64 [1]", "all").collective("c10d::barrier", "", "all");
  CHECK(only(match(ranks)) ==
        "order mismatch: collective 71 of group all (ranks 0, 1), at step 0, is c10d::barrier on "
        "rank 0, and c10d::reduce_ int64 [1] on rank 1");
}

TEST_CASE("groups are known by their ranks, and one that nobody named is not judged") {
  std::vector<Rank> ranks(4);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    // Two groups of one name, as those that are split at once.
    i < 2 ? ranks[i].group("1", {0, 1}) : ranks[i].group("1", {2, 3});
    ranks[i].collective(i < 2 ? "c10d::barrier" : "c10d::reduce_", "", "1");
    ranks[i].collective(i == 0 ? "c10d::barrier" : "c10d::reduce_", "", "unknown");
  }
  const RanksReport found = match(ranks);
  CHECK(found.findings.empty());
  CHECK(found.collectives == 2);
  CHECK(found.unplaced == 4);
}

TEST_CASE("what waits for one that waits elsewhere is explained by what that one waits for") {
  std::vector<Rank> ranks(3);
  for (Rank& rank : ranks) rank.group("all", {0, 1, 2}).group("two", {0, 1});
  ranks[2].collective("c10d::barrier", "", "all", false);
  ranks[1].collective("c10d::allreduce_", "float32 [1]", "two", false);
  CHECK(only(match(ranks))
            .starts_with("missing rank 0: never entered collective 1 of group two (ranks 0, 1), "
                         "which rank 1 entered "
                         "at step 0 as c10d::allreduce_ float32 [1] and did not complete; "));
}

TEST_CASE("a message is the same in another shape, and from anybody nobody knows whose it is") {
  std::vector<Rank> ranks = two_ranks();
  ranks[0].message("c10d::send", "float32 [2, 3]", "to", 1);
  ranks[1].message("c10d::recv_", "float32 [6]", "from", 0);
  CHECK(match(ranks).findings.empty());
  CHECK(match(ranks).messages == 1);
  ranks[0].message("c10d::send", "float32 [2]", "to", 1);
  CHECK(only(match(ranks))
            .starts_with("missing recv: message 2 from rank 0 to rank 1, of group all (ranks 0, "
                         "1), tag 0, was sent at "
                         "step 0 as c10d::send float32 [2], and rank 1 never received it; "));
  ranks[1].message("c10d::recv_any_source_", "float32 [2]", nullptr, 0);
  CHECK(match(ranks).findings.empty());
}

TEST_CASE("what a message holds must come as it was sent") {
  std::vector<Rank> ranks = two_ranks();
  const auto pass = [&](core::Digest sent, core::Digest read) {
    ranks[0].message("c10d::send", "float32 [2]", "to", 1).holds(sent);
    ranks[1].message("c10d::recv_", "float32 [2]", "from", 0).holds({0, 1}).reads(read);
  };
  pass({4, 4}, {4, 4});
  CHECK(match(ranks).findings.empty());
  CHECK(match(ranks).messages == 1);
  pass({5, 5}, {6, 6});
  const std::string said = only(match(ranks));
  CHECK(said.starts_with("content mismatch: message 2 from rank 0 to rank 1"));
  CHECK(said.find(core::to_hex({5, 5})) != std::string::npos);
  CHECK(said.find(core::to_hex({6, 6})) != std::string::npos);
}

TEST_CASE("what a message holds is not known where nobody read it") {
  std::vector<Rank> ranks = two_ranks();
  ranks[0].message("c10d::send", "float32 [2]", "to", 1).holds({4, 4});
  ranks[1].message("c10d::recv_", "float32 [2]", "from", 0).holds({0, 1});
  CHECK(match(ranks).findings.empty());
}
