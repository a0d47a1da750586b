// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "baselines/accepted_source.h"
#include "baselines/baseline.h"
#include "core/trace/op_record.h"
#include "tests/baselines/sample_baseline.h"
#include "tests/support/memory_source.h"

namespace repro_check::baselines {
namespace {

using test_support::digest;
using test_support::sample_baseline;
using test_support::sample_of_blocks;

constexpr const char* kDump = R"({
  "run": "baseline",
  "manifest": {"configuration": "CONFIG", "environment": {}},
  "tensors": {
    "x": {"dtype": "float32", "shape": [2], "values": [1, 2]},
    "w": {"dtype": "float32", "shape": [2], "values": [3, 4]},
    "h": {"dtype": "float32", "shape": [2], "values": [3, 8]},
    "r": {"dtype": "float32", "shape": [2], "values": [4, 9]}
  },
  "named": [{"kind": "input", "name": "x", "tensor": "x"},
            {"kind": "parameter", "name": "w", "tensor": "w"}],
  "ops": [
    {"operator": "aten::mul", "module": "a", "inputs": {"self": "x", "other": "w"}, "outputs": ["h"]},
    {"operator": "aten::add", "module": "b", "inputs": {"self": "h"}, "outputs": ["r"]}
  ]
})";

std::unique_ptr<test_support::MemorySource> dump(const std::string& configuration = "{}") {
  std::string text = kDump;
  std::string escaped;
  for (const char c : configuration) escaped += c == '"' ? "\\\"" : std::string(1, c);
  return test_support::source_from_json(text.replace(text.find("CONFIG"), 6, escaped));
}

Baseline summary(const std::string& configuration) {
  return summarise(*dump(configuration), Platform{}, "g", "bitwise");
}

TEST_CASE("where files lie and how much is stored makes nothing stale, and a seed does") {
  const std::string base =
      R"({"name":"a","seed":1,"model":{"path":"/x/m.pt","mode":"eval"},"recorder":null,)"
      R"("calls":[{"inputs":[{"npy":"/x/i.npy"}]}],"dump":{"directory":"/x","depth":"top"}})";
  const std::string elsewhere =
      R"({"seed":1,"name":"b","model":{"mode":"eval","path":"/y/m.pt"},"recorder":"/r",)"
      R"("calls":[{"inputs":[{"torch":"/y/i.pt"}]}],"dump":{"depth":"top","level":"digest"}})";
  const std::string reseeded =
      R"({"name":"a","seed":2,"model":{"path":"/x/m.pt","mode":"eval"},"recorder":null,)"
      R"("calls":[{"inputs":[{"npy":"/x/i.npy"}]}],"dump":{"directory":"/x","depth":"leaf"}})";
  CHECK(summary(base) == summary(elsewhere));
  const auto changes = stale_reasons(summary(base), summary(reseeded));
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].name == "config /dump/depth");
  CHECK(changes[1].name == "config /seed");
  CHECK(changes[1].accepted == "1");
  CHECK(changes[1].now == "2");
}

TEST_CASE("an input is a reason to be stale, and a weight is none") {
  const Baseline before = sample_baseline();
  Baseline after = before;
  after.tensors[1].digest = digest(77);
  CHECK(stale_reasons(before, after).empty());
  const auto weights = weight_changes(before, after);
  REQUIRE(weights.size() == 1);
  CHECK(weights[0].name == "parameter " + before.tensors[1].name);
  CHECK(weights[0].now == form_of(before.tensors[1]) + ":" + core::to_hex(digest(77)));
  after.tensors[0].digest = digest(77);
  const auto changes = stale_reasons(before, after);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].name == "input x");
  CHECK(same_results(before, after));
}

TEST_CASE("platforms are told apart by field") {
  Platform other = sample_baseline().platform;
  other.fields[1].value = "none";
  const auto changes = platform_changes(sample_baseline().platform, other);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].name == "mkl");
  CHECK(changes[0].accepted == "a b  c");
}

TEST_CASE("changes are summed up with the first of them") {
  const Baseline before = sample_baseline();
  Baseline after = before;
  CHECK(describe_changes(before, after) == "no operator changes");
  after.ops[0].back() = after.ops[0].back() == '0' ? '1' : '0';
  CHECK(describe_changes(before, after) == "1 of 3 operators change, first aten::add.Tensor");
  after.ops.erase(after.ops.begin() + 1);
  after.ops[0] = before.ops[0];
  CHECK(describe_changes(before, after) == "3 -> 2 operators, first change aten::item (-)");
}

TEST_CASE("what a call returned counts as no operator") {
  Baseline before = sample_baseline();
  before.ops.push_back("f repro_check::returned - 0 out=float32[1]:" + core::to_hex(digest(8)));
  before.operators = before.ops.size();
  CHECK(operator_calls(before) == 3);
  Baseline by_module;
  by_module.modules.emplace_back();
  CHECK(operator_calls(folded_like(before, by_module)) == 3);
  Baseline after = before;
  after.ops[3] = "f repro_check::returned - 0 out=float32[1]:" + core::to_hex(digest(9));
  CHECK(describe_changes(before, after) == "no operator changes, but what the model returns does");
  after.ops[0].back() = after.ops[0].back() == '0' ? '1' : '0';
  CHECK(describe_changes(before, after) == "1 of 3 operators change, first aten::add.Tensor");
}

TEST_CASE("calls of blocks and parameters that change are named with their step") {
  const Baseline before = sample_of_blocks();
  Baseline after = before;
  CHECK(describe_changes(before, after) == "no border changes");
  after.blocks->calls[0].row.in = digest(90);
  CHECK(describe_changes(before, after) == "no border changes");
  after.blocks->calls[1].row.out = digest(91);
  after.blocks->parameters.pop_back();
  CHECK(describe_changes(before, after) ==
        "1 of 3 calls of blocks change, first - (step 3, eval); 1 of 2 parameters behind steps "
        "change, first head.weight (step 4, optimizer)");
  after = before;
  after.ops[0].back() = after.ops[0].back() == '0' ? '1' : '0';
  CHECK(describe_changes(before, after) == "no border changes, but batches, losses or steps do");
}

TEST_CASE("the ranks of a recording of blocks are told apart") {
  const Baseline both = sample_of_blocks();
  CHECK(ranks_in(both) == std::vector<std::uint32_t>{0, 1});
  Baseline lead = of_rank(both, 0);
  CHECK(lead.blocks->call_count == 2);
  CHECK(lead.blocks->blocks == 2);
  const Baseline other = of_rank(both, 1);
  CHECK(other.blocks->calls.at(0).rank == 0);
  CHECK(other.blocks->parameter_count == 1);
  CHECK(with_rank(lead, other, 1).blocks == both.blocks);
}

TEST_CASE("a recording of blocks is accepted with its borders, threads in no order") {
  const auto source = [](const char* calls) {
    return test_support::source_from_json(
        std::string(R"({"run": "baseline", "tensors": {}, "ops": [],
          "manifest": {"level": "digest", "depth": "blocks", "environment": {}}, "blocks": [)") +
        calls + R"(], "parameters": [{"step": 0, "name": "w", "value": "1"}]})");
  };
  const auto one = source(R"({"path": "b@1", "out": "x"}, {"path": "a@1", "out": "y"},
                             {"path": "late", "out": "z"}, {"path": "early", "out": "z"})");
  const auto other = source(R"({"path": "late", "out": "z"}, {"path": "a@1", "out": "y"},
                               {"path": "early", "out": "z"}, {"path": "b@1", "out": "x"})");
  const Baseline accepted = summarise(*one, Platform{}, "g", "bitwise");
  CHECK(same_results(accepted, summarise(*other, Platform{}, "g", "bitwise")));
  CHECK(depth_of(accepted) == "blocks");
  const AcceptedSource again(accepted, "g.repro", *other);
  REQUIRE(again.block_count() == 4);
  CHECK(again.block(0).path == "late");
  CHECK(again.block(3).path == "b@1");
  CHECK(again.parameter_count() == 1);
  CHECK(again.manifest().trace.blocks->rows == 4);
}

TEST_CASE("a baseline stands in for the dump that it was made from") {
  const auto candidate = dump();
  Baseline accepted = summarise(*candidate, Platform{}, "g", "bitwise");
  AcceptedSource same(accepted, "g.repro", *candidate);
  same.take_partners(std::vector<std::uint32_t>{0, 1});
  REQUIRE(same.op_count() == 2);
  for (std::uint64_t i = 0; i < 2; ++i) {
    const core::OpRecord here = same.op(i);
    const core::OpRecord there = candidate->op(i);
    REQUIRE(here.tensors.size() == there.tensors.size());
    for (std::size_t k = 0; k < here.tensors.size(); ++k) {
      CHECK(here.tensors[k].digest == there.tensors[k].digest);
    }
  }
  // What the first operator returned was accepted as something else: the second one's input was
  // that as well, and the parameter stays what it is.
  const std::string given = core::to_hex(candidate->op(0).tensors.back().digest);
  std::string& line = accepted.ops[0];
  line.replace(line.find(given), given.size(), core::to_hex(digest(5)));
  AcceptedSource other(accepted, "g.repro", *candidate);
  other.take_partners(std::vector<std::uint32_t>{0, 1});
  CHECK(other.op(0).tensors.back().digest == digest(5));
  CHECK(other.op(1).tensors.front().digest == digest(5));
  CHECK(other.op(0).tensors.front().digest == candidate->op(0).tensors.front().digest);
  accepted.tensors[1].digest = digest(6);
  AcceptedSource reweighted(accepted, "g.repro", *candidate);
  reweighted.take_partners(std::vector<std::uint32_t>{0, 1});
  CHECK(reweighted.op(0).tensors[1].digest == digest(6));
}

TEST_CASE("tensors of a kind that is folded are those of the candidate, and no others") {
  const auto candidate = dump();
  const auto& now = candidate->manifest().named_tensors;
  Baseline accepted = summarise(*candidate, Platform{}, "g", "bitwise");
  REQUIRE(accepted.tensors.size() == now.size());
  REQUIRE(accepted.tensors[0].kind == core::NamedTensorKind::kInput);
  accepted.tensors.erase(accepted.tensors.begin());
  accepted.tensors[0].digest = digest(6);
  accepted.folded = {{core::NamedTensorKind::kInput, 1, digest(7)}};
  AcceptedSource source(accepted, "g.repro", *candidate);
  source.take_partners(std::vector<std::uint32_t>{0, 1});
  const auto& named = source.manifest().named_tensors;
  REQUIRE(named.size() == now.size());
  CHECK(named[0] == now[0]);
  CHECK(named[1].digest == digest(6));
}

TEST_CASE("an operator that is only in the baseline has its name, its place and its outputs") {
  const auto candidate = dump();
  Baseline accepted = summarise(*candidate, Platform{}, "g", "bitwise");
  AcceptedSource source(accepted, "g.repro", *candidate);
  source.take_partners(std::vector<std::uint32_t>{0, kNoPartner});
  const core::OpRecord record = source.op(1);
  CHECK(record.op->name == "aten::add");
  CHECK(record.site->module_path == "b");
  REQUIRE(record.tensors.size() == 1);
  CHECK(record.tensors[0].digest == candidate->op(1).tensors.back().digest);
}

/// Calls of two lanes and of a pool, in the order given.
std::unique_ptr<test_support::MemorySource> lanes(const std::vector<std::pair<int, int>>& calls) {
  std::string ops;
  for (const auto& [lane, value] : calls) {
    ops += std::string(ops.empty() ? "" : ",") +
           R"({"operator": "aten::mul", "inputs": {"self": "i)" + std::to_string(value) +
           R"("}, "outputs": ["o)" + std::to_string(value) + R"("], "lane": )" +
           std::to_string(lane < 0 ? core::pool_lane(core::kMainLane)
                                   : static_cast<std::uint32_t>(lane)) +
           "}";
  }
  std::string tensors;
  for (const auto& [lane, value] : calls) {
    const std::string number = std::to_string(value);
    for (const char* side : {"i", "o"}) {
      tensors += std::string(tensors.empty() ? "" : ",") + "\"" + side + number +
                 R"(": {"dtype": "float32", "shape": [2], "values": [)" + number + "," +
                 (*side == 'i' ? "0" : "1") + "]}";
    }
  }
  return test_support::source_from_json(
      R"({"run": "r", "manifest": {"environment": {}}, "tensors": {)" + tensors + R"(}, "ops": [)" +
      ops + "]}");
}

TEST_CASE("which lane was first, and all order in a pool, is nothing that is accepted") {
  const auto first = lanes({{0, 1}, {-1, 5}, {7, 2}, {0, 3}, {-1, 6}, {7, 4}});
  const auto second = lanes({{-1, 6}, {7, 2}, {7, 4}, {-1, 5}, {0, 1}, {0, 3}});
  const auto ops_of = [](const core::DumpSource& source) {
    return summarise(source, Platform{}, "g", "bitwise").ops;
  };
  CHECK(ops_of(*first) == ops_of(*second));
  CHECK(ops_of(*first) != ops_of(*lanes({{0, 3}, {0, 1}, {7, 2}, {7, 4}, {-1, 5}, {-1, 6}})));
}

TEST_CASE("before records are paired, one of a pool is known by what it gave") {
  const auto before = lanes({{-1, 5}, {-1, 6}});
  const auto after = lanes({{-1, 6}, {-1, 5}, {-1, 9}});
  const AcceptedSource source(summarise(*before, Platform{}, "g", "bitwise"), "g.repro", *after);
  REQUIRE(source.op_count() == 2);
  for (std::uint64_t i = 0; i < 2; ++i) {
    const core::OpRecord record = source.op(i);
    REQUIRE(record.tensors.size() == 2);
    const std::uint64_t like = record.tensors[1].digest == after->op(0).tensors[1].digest ? 0 : 1;
    CHECK(record.tensors[0].digest == after->op(like).tensors[0].digest);
    CHECK(record.tensors[1].digest == after->op(like).tensors[1].digest);
  }
}

TEST_CASE("a call stands in the one around it, as depths tell") {
  Baseline accepted = sample_baseline();
  accepted.ops = {"f a - 0", "f b - 0/0/0/1", "f c - 0/0/7/1", "f d - 0/0/0/2", "f e - 0/0/0/1"};
  const auto candidate = dump();
  const AcceptedSource source(accepted, "g.repro", *candidate);
  std::vector<std::int64_t> parents;
  for (std::uint64_t i = 0; i < source.op_count(); ++i) parents.push_back(source.op_head(i).parent);
  CHECK(parents == std::vector<std::int64_t>{-1, 0, -1, 1, 0});
}

}  // namespace
}  // namespace repro_check::baselines
