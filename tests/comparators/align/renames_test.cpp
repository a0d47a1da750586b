// SPDX-License-Identifier: Apache-2.0
// Modules that have another path in the candidate.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/trace/op_record.h"
#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators::renames_test {
namespace {

struct Call {
  std::string op;
  std::string module;
};

/// A model of its own, with a weight `w` in each of `owners`.
Trace calls(const std::string& model,
            const std::vector<Call>& list,
            const std::vector<std::string>& owners = {}) {
  Trace trace("run");
  trace.manifest()["model"] = model;
  trace.tensor("x", {1, 2, 3});
  for (const std::string& owner : owners) {
    trace.named("parameter", owner.empty() ? "w" : owner + ".w", "x");
  }
  for (const Call& call : list) trace.op(call.op, {"x"}, {"x"}, {{"module", call.module}});
  return trace;
}

const std::vector<Call> kCalls{{"aten::embedding", "tok"},
                               {"aten::linear", "enc.0.q"},
                               {"aten::gelu", "enc.0.act"},
                               {"aten::linear", "enc.1.q"},
                               {"aten::gelu", "enc.1.act"},
                               {"aten::add.Tensor", ""}};

std::vector<Call> renamed(const std::string& from, const std::string& to) {
  std::vector<Call> list = kCalls;
  for (Call& call : list) {
    if (call.module.starts_with(from)) call.module = to + call.module.substr(from.size());
  }
  return list;
}

TEST_CASE("a renamed module is the same module, and is said to be renamed") {
  Trace baseline = calls("a", kCalls, {"tok", "enc.0.q", "enc.1.q"});
  Trace candidate = calls(
      "b", renamed("enc", "encoder.layers"), {"tok", "encoder.layers.0.q", "encoder.layers.1.q"});
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 0);
  CHECK(report.coverage.equal == 6);
  CHECK(report.alignment.map == 4);
  CHECK(report.named_tensors.empty());
  REQUIRE(report.warnings.size() == 1);
  CHECK(said(report.warnings.front()) ==
        "module encoder.layers of the candidate is taken for enc of the baseline (4 modules)");
}

TEST_CASE("a module that does nothing but call another is no change, on either side") {
  Trace plain = calls("a", kCalls, {"tok", "enc.0.q", "enc.1.q"});
  Trace wrapped =
      calls("b", renamed("enc.1", "enc.1.module"), {"tok", "enc.0.q", "enc.1.module.q"});
  const Report into = compare_traces(plain, wrapped);
  CHECK(exit_of(into) == 0);
  REQUIRE(into.warnings.size() == 1);
  CHECK(said(into.warnings.front()) ==
        "module enc.1.module of the candidate is taken for enc.1 of the baseline (2 modules)");
  CHECK(exit_of(compare_traces(wrapped, plain)) == 0);
}

TEST_CASE("a whole model in another is no change, calls of its root included") {
  std::vector<Call> list = kCalls;
  for (Call& call : list) call.module = call.module.empty() ? "net" : "net." + call.module;
  list.push_back({std::string(core::kReturnedOperator), ""});
  std::vector<Call> own = kCalls;
  own.push_back(list.back());
  Trace plain = calls("a", own, {"tok", "enc.0.q", "", "enc.1.q"});
  Trace inside = calls("b", list, {"net.tok", "net.enc.0.q", "net", "net.enc.1.q"});
  const Report report = compare_traces(plain, inside);
  CHECK(exit_of(report) == 0);
  CHECK(report.named_tensors.empty());
  CHECK(exit_of(compare_traces(inside, plain)) == 0);
}

TEST_CASE("what differs in a renamed module is found in it") {
  Trace baseline = calls("a", kCalls, {"enc.0.q", "enc.1.q"});
  std::vector<Call> list = renamed("enc", "encoder");
  list.insert(list.begin() + 3, {"aten::relu", "encoder.0.act"});
  Trace candidate = calls("b", list, {"encoder.0.q", "encoder.1.q"});
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 1);
  CHECK(report.coverage.equal == 6);
  CHECK(report.coverage.missing_in_baseline == 1);
}

TEST_CASE("the other branch of two that both models have is control flow") {
  const std::vector<std::string> owners{"experts.0.q", "experts.1.q"};
  Trace baseline =
      calls("a",
            {{"aten::relu", "m"}, {"aten::linear", "experts.0.q"}, {"aten::gelu", "experts.0.act"}},
            owners);
  Trace candidate =
      calls("b",
            {{"aten::relu", "m"}, {"aten::linear", "experts.1.q"}, {"aten::gelu", "experts.1.act"}},
            owners);
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 1);
  CHECK(report.coverage.missing_in_candidate == 2);
  CHECK(report.warnings.empty());
}

TEST_CASE("a model without modules, as a frozen one, is paired without those of the other") {
  std::vector<Call> list = kCalls;
  for (Call& call : list) call.module.clear();
  Trace baseline = calls("a", kCalls, {"tok", "enc.0.q", "enc.1.q"});
  Trace frozen = calls("b", list);
  const Report report = compare_traces(baseline, frozen);
  CHECK(exit_of(report) == 0);
  CHECK(report.coverage.equal == 6);
  REQUIRE(report.warnings.size() == 1);
  CHECK(said(report.warnings.front()) ==
        "the candidate names no modules, as a frozen model does not: its operators are paired "
        "with the other's without regard to theirs");
  const Report other_way = compare_traces(frozen, baseline);
  CHECK(exit_of(other_way) == 0);
  CHECK(other_way.coverage.equal == 6);
  Trace same_file = calls("a", list);
  CHECK(exit_of(compare_traces(baseline, same_file)) == 1);
}

TEST_CASE("what freezing folded away is missing, and what it replaced is known by its place") {
  std::vector<Call> list = kCalls;
  for (Call& call : list) call.module.clear();
  list[2].op = "aten::gelu_";
  list.erase(list.begin());
  Trace baseline = calls("a", kCalls);
  Trace frozen = calls("b", list);
  const Report report = compare_traces(baseline, frozen);
  CHECK(exit_of(report) == 1);
  CHECK(report.coverage.equal == 4);
  CHECK(report.coverage.missing_in_candidate == 2);
  REQUIRE(!report.divergences.empty());
  CHECK(said(report.divergences.front().cause).name() == "operator differs");
}

TEST_CASE("one model file has no renamed modules") {
  Trace baseline = calls("a", kCalls);
  Trace candidate = calls("a", renamed("enc", "encoder"));
  CHECK(exit_of(compare_traces(baseline, candidate)) == 1);
}

TEST_CASE("by place alone a module of another name is a mismatch") {
  Trace baseline = calls("a", kCalls);
  Trace candidate = calls("b", renamed("enc", "encoder"));
  CHECK(exit_of(compare_traces(baseline, candidate)) == 0);
  CompareOptions options;
  options.spec.align = configs::AlignMode::kStrict;
  CHECK(exit_of(compare_traces(baseline, candidate, options)) == 1);
}

}  // namespace
}  // namespace repro_check::comparators::renames_test
