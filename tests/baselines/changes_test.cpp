// SPDX-License-Identifier: Apache-2.0
#include "baselines/changes.h"

#include <doctest/doctest.h>

#include <memory>

#include "baselines/accepted_source.h"
#include "baselines/summary.h"
#include "tests/baselines/sample_baseline.h"
#include "tests/support/memory_source.h"

namespace repro_check::baselines {
namespace {

using test_support::digest;
using test_support::sample_baseline;

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
  CHECK_FALSE(same_weights(before, after));
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
  after.ops[0].outputs[0].digest = digest(70);
  CHECK(describe_changes(before, after) == "1 of 3 operators change, first aten::add.Tensor");
  after.ops.erase(after.ops.begin() + 1);
  after.ops[0] = before.ops[0];
  CHECK(describe_changes(before, after) == "3 -> 2 operators, first change aten::item (-)");
}

TEST_CASE("a baseline stands in for the dump that it was made from") {
  const auto candidate = dump();
  Baseline accepted = summarise(*candidate, Platform{}, "g", "bitwise");
  const AcceptedSource same(accepted, "g.repro", *candidate, {0, 1});
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
  accepted.ops[0].outputs[0].digest = digest(5);
  const AcceptedSource other(accepted, "g.repro", *candidate, {0, 1});
  CHECK(other.op(0).tensors.back().digest == digest(5));
  CHECK(other.op(1).tensors.front().digest == digest(5));
  CHECK(other.op(0).tensors.front().digest == candidate->op(0).tensors.front().digest);
  accepted.tensors[1].digest = digest(6);
  const AcceptedSource reweighted(accepted, "g.repro", *candidate, {0, 1});
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
  const AcceptedSource source(accepted, "g.repro", *candidate, {0, 1});
  const auto& named = source.manifest().named_tensors;
  REQUIRE(named.size() == now.size());
  CHECK(named[0] == now[0]);
  CHECK(named[1].digest == digest(6));
}

TEST_CASE("an operator that is only in the baseline has its name, its place and its outputs") {
  const auto candidate = dump();
  Baseline accepted = summarise(*candidate, Platform{}, "g", "bitwise");
  const AcceptedSource source(accepted, "g.repro", *candidate, {0, kNoPartner});
  const core::OpRecord record = source.op(1);
  CHECK(record.op->name == "aten::add");
  CHECK(record.site->module_path == "b");
  REQUIRE(record.tensors.size() == 1);
  CHECK(record.tensors[0].digest == accepted.ops[1].outputs[0].digest);
}

}  // namespace
}  // namespace repro_check::baselines
