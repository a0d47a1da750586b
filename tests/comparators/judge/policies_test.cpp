// SPDX-License-Identifier: Apache-2.0
// The fault corpus of the comparison reference: rows about policies, rules and strictness.
#include <doctest/doctest.h>

#include <string>

#include "core/error.h"
#include "tests/comparators/said.h"
#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators::policies_test {
namespace {

using configs::AttributeRule;
using configs::NamePattern;
using configs::PolicyKind;
using configs::Unmatched;

CompareOptions with_ulp(std::uint64_t allowed, double share = 0) {
  CompareOptions options;
  options.spec.policy.kind = PolicyKind::kUlp;
  options.spec.policy.ulp = allowed;
  options.spec.policy.share = share;
  return options;
}

CompareOptions with_cosine() {
  CompareOptions options;
  options.spec.policy.kind = PolicyKind::kCosine;
  return options;
}

configs::Rule rule_for(const std::string& op, PolicyKind kind) {
  configs::Rule rule;
  rule.match.op = NamePattern(op);
  rule.policy.kind = kind;
  return rule;
}

Report judge(const ordered_json& from, const ordered_json& to, const CompareOptions& options) {
  return compare_json(one_op("baseline", from), one_op("candidate", to), options);
}

Report judge_bits(const std::string& dtype,
                  const char* from,
                  const char* to,
                  const CompareOptions& options) {
  return judge(tensor_of(dtype, {from}, "bits"), tensor_of(dtype, {to}, "bits"), options);
}

const TensorComparison& only_output(const Report& report) {
  REQUIRE(report.first_divergence);
  REQUIRE(report.first_divergence->outputs.size() == 1);
  return report.first_divergence->outputs.front();
}

TEST_CASE("rows 2, 9, 10 and 13: ULP") {
  CHECK(exit_of(judge_bits("float32", "3f800000", "3f800001", with_ulp(1))) == 0);
  CHECK(exit_of(judge_bits("float32", "3f800000", "3f800001", with_ulp(0))) == 1);
  CHECK(exit_of(judge_bits("float8_e4m3fn", "38", "39", with_ulp(1))) == 0);
  CHECK(exit_of(judge_bits("float32", "00000001", "80000001", with_ulp(1))) == 1);
  CHECK(exit_of(judge_bits("float32", "00000001", "80000001", with_ulp(2))) == 0);
  CHECK(exit_of(judge_bits("float32", "7f800000", "7f7fffff", with_ulp(4))) == 1);
  CHECK(exit_of(judge_bits("float8_e5m2", "7c", "7b", with_ulp(4))) == 1);
  // Integers have no ULP: they are equal or they are not.
  CHECK(exit_of(judge_bits("int32", "00000001", "00000002", with_ulp(4))) == 1);
}

TEST_CASE("a share of elements may be farther apart, a NaN never") {
  const ordered_json ones = tensor_of("float32", {1, 1, 1, 1});
  CHECK(exit_of(judge(ones, tensor_of("float32", {1, 1, 1, 2}), with_ulp(1, 0.25))) == 0);
  CHECK(exit_of(judge(ones, tensor_of("float32", {1, 1, 2, 2}), with_ulp(1, 0.25))) == 1);
  CHECK(exit_of(judge(ones, tensor_of("float32", {1, 1, 1, "nan"}), with_ulp(1, 0.25))) == 1);
}

TEST_CASE("rows 19, 20 and 21: cosine") {
  const Report hidden = judge(
      tensor_of("float32", {1e6, 1, 1, 1}), tensor_of("float32", {1e6, 2, 2, 2}), with_cosine());
  CHECK(exit_of(hidden) == 0);
  CHECK(hidden.screened.tensors == 1);
  CHECK(hidden.screened.elements == 4);
  CHECK(hidden.screened.beyond == 3);
  const Report scaled =
      judge(tensor_of("float32", {1, 2, 3}), tensor_of("float32", {2, 4, 6}), with_cosine());
  CHECK(exit_of(scaled) == 1);
  CHECK(said_as_one(only_output(scaled).note) == "cosine 1, norm ratio 2");
  const ordered_json zeros = tensor_of("float32", {0, 0});
  CHECK(exit_of(judge(zeros, zeros, with_cosine())) == 0);
  const Report lost = judge(zeros, tensor_of("float32", {1, 1}), with_cosine());
  CHECK(exit_of(lost) == 1);
  CHECK(said_as_one(only_output(lost).note).starts_with("cosine 0,"));
  CHECK(exit_of(judge(
            tensor_of("float32", {1, "nan"}), tensor_of("float32", {1, 1}), with_cosine())) == 1);
}

TEST_CASE("row 25: other dtypes") {
  CompareOptions promote;
  promote.spec.promote = true;
  const ordered_json narrow = tensor_of("float32", {1.5});
  CHECK(exit_of(judge(narrow, tensor_of("float64", {1.5}), bitwise())) == 1);
  const Report same = judge(narrow, tensor_of("float64", {1.5}), promote);
  CHECK(exit_of(same) == 0);
  CHECK(same.coverage.within_policy == 1);
  const Report other = judge(narrow, tensor_of("float64", {1.5000000001}), promote);
  CHECK(exit_of(other) == 1);
  CHECK(only_output(other).metrics->max_abs == 1.5000000001 - 1.5);
  CHECK(only_output(other).metrics->ulp_max == 0);
  const Report apart = judge(narrow, tensor_of("bfloat16", {1.5078125}), promote);
  CHECK(only_output(apart).metrics->ulp_max == 1);
  // The looser of the two tolerances: bfloat16's.
  CompareOptions loose = tolerance();
  loose.spec.promote = true;
  CHECK(exit_of(judge(narrow, tensor_of("bfloat16", {1.515625}), loose)) == 0);
  CHECK(exit_of(judge(narrow, tensor_of("bfloat16", {1.53125}), loose)) == 1);
  // In the narrower one, the wider rounded to the nearest even.
  CompareOptions ulps = with_ulp(0);
  ulps.spec.promote = true;
  const ordered_json halfway = tensor_of("float32", {1.00390625});
  CHECK(exit_of(judge(halfway, tensor_of("bfloat16", {1}), ulps)) == 0);
  CHECK(exit_of(judge(halfway, tensor_of("bfloat16", {1.0078125}), ulps)) == 1);
  CHECK(exit_of(judge(tensor_of("int32", {7}), tensor_of("int64", {7}), promote)) == 0);
  CHECK(exit_of(judge(tensor_of("int32", {7}), tensor_of("float32", {7}), promote)) == 1);
  CHECK(exit_of(judge(tensor_of("int64", {7}), tensor_of("uint64", {7}), promote)) == 1);
}

TEST_CASE("a result in the memory of another tensor is a warning, a mismatch, or nothing") {
  const auto traced = [](const char* run, const char* storage) {
    Trace trace(run);
    trace.tensor("x", {1, 2}).tensor("y", {1, 2});
    trace.json()["tensors"]["y"]["storage"] = storage;
    trace.op("aten::reshape", {"x"}, {"y"});
    return trace;
  };
  Trace copy = traced("baseline", "y");
  Trace view = traced("candidate", "x");
  const std::string where = "with nothing in the baseline, with input in0 in the candidate";
  CompareOptions options;
  const Report noted = compare_traces(copy, view, options);
  CHECK(exit_of(noted) == 0);
  REQUIRE_FALSE(noted.warnings.empty());
  CHECK(said(noted.warnings.back()) ==
        "of 1 operator a result shares its memory with other tensors in the candidate than in the "
        "baseline; first op 0 output 0: " +
            where);
  options.spec.alias = AttributeRule::kStrict;
  const Report strict = compare_traces(copy, view, options);
  CHECK(exit_of(strict) == 1);
  CHECK(said_as_one(only_output(strict).note) == "shares its memory with other tensors: " + where);
  options.spec.alias = AttributeRule::kIgnore;
  CHECK(compare_traces(copy, view, options).warnings.empty());
}

TEST_CASE("row 27: strides and devices") {
  const auto matrix = [](const ordered_json& strides, const char* device) {
    ordered_json tensor = {{"dtype", "float32"}, {"shape", {2, 3}}, {"values", {1, 2, 3, 4, 5, 6}}};
    tensor["strides"] = strides;
    tensor["device"] = device;
    return tensor;
  };
  const ordered_json rows = matrix({3, 1}, "cpu");
  const ordered_json columns = matrix({1, 2}, "cpu");
  CompareOptions options;
  const Report noted = judge(rows, columns, options);
  CHECK(exit_of(noted) == 0);
  REQUIRE_FALSE(noted.warnings.empty());
  CHECK(said(noted.warnings.back()).find("another memory layout") != std::string::npos);
  options.spec.strides = AttributeRule::kStrict;
  const Report strict = judge(rows, columns, options);
  CHECK(exit_of(strict) == 1);
  CHECK(said_as_one(only_output(strict).note) == "strides differ: [3, 1] against [1, 2]");
  options.spec.strides = AttributeRule::kIgnore;
  const Report ignored = judge(rows, columns, options);
  CHECK(exit_of(ignored) == 0);
  for (const std::string& warning : said(ignored.warnings)) {
    CHECK(warning.find("memory layout") == std::string::npos);
  }

  // Both runs claim the CPU, so a result on another device is no matter of course.
  const ordered_json elsewhere = matrix({3, 1}, "cuda:0");
  CHECK(exit_of(judge(rows, elsewhere, bitwise())) == 1);
  CompareOptions note;
  note.spec.device = AttributeRule::kNote;
  CHECK(exit_of(judge(rows, elsewhere, note)) == 0);
}

/// Three operators, the second of which differs a little.
struct RulesFixture {
  Trace baseline = chain("baseline", {"aten::add.Tensor", "aten::addmm", "aten::mul"});
  Trace candidate = chain("candidate", {"aten::add.Tensor", "aten::addmm", "aten::mul"});
  CompareOptions options;

  RulesFixture() { candidate.tensor("t1", {7, 8, 9.000001}); }
};

TEST_CASE_FIXTURE(RulesFixture,
                  "row 35: the first that matches is taken, and matches whole names") {
  options.spec.rules = {rule_for("aten::add", PolicyKind::kBitwise),
                        rule_for("aten::addmm", PolicyKind::kTolerance),
                        rule_for("aten::.*", PolicyKind::kBitwise),
                        rule_for("aten::mul", PolicyKind::kIgnore)};
  const Report report = compare_traces(baseline, candidate, options);
  CHECK(exit_of(report) == 0);
  REQUIRE(report.rules.size() == 4);
  for (const std::size_t i : {0U, 1U, 2U}) CHECK(report.rules[i].tensors == 1);
  CHECK(report.rules[3].tensors == 0);
  REQUIRE_FALSE(report.warnings.empty());
  bool warned = false;
  for (const std::string& text : said(report.warnings)) {
    warned = warned || text == "rule 3 (operator aten::mul: ignore) matched no output";
  }
  CHECK(warned);
  options.spec.strict_rules = true;
  CHECK_THROWS_AS(compare_traces(baseline, candidate, options), core::Error);
}

TEST_CASE_FIXTURE(RulesFixture, "row 35: with the overload as well, and the rule is named") {
  options.spec.rules = {rule_for("aten::add.Tensor", PolicyKind::kIgnore),
                        rule_for("aten::(addmm|mul)", PolicyKind::kBitwise)};
  const Report report = compare_traces(baseline, candidate, options);
  CHECK(exit_of(report) == 1);
  CHECK(only_output(report).rule == 1);
  CHECK(only_output(report).policy == "bitwise");
  CHECK(report.coverage.ignored == 1);
  CHECK(report.coverage.skipped == 1);
  CHECK(report.coverage.tensors == 2);
  CHECK(report.coverage.outputs == 3);
}

TEST_CASE_FIXTURE(RulesFixture,
                  "row 35: a tensor that no rule matches is not judged, equal or not") {
  options.spec.rules = {rule_for("aten::addm?m?", PolicyKind::kTolerance)};
  const Report report = compare_traces(baseline, candidate, options);
  CHECK(exit_of(report) == 4);
  CHECK(said(report.reasons.front()) == "no rule for op 2 output 0");
  CHECK(said_fix(report).find("\"unmatched\"") != std::string::npos);
  options.spec.unmatched = Unmatched::kPolicy;
  CHECK(exit_of(compare_traces(baseline, candidate, options)) == 0);
  options.spec.unmatched = Unmatched::kIgnore;
  const Report ignored = compare_traces(baseline, candidate, options);
  CHECK(exit_of(ignored) == 0);
  CHECK(ignored.coverage.ignored == 1);
}

TEST_CASE_FIXTURE(RulesFixture, "row 35: all ignored is nothing compared") {
  options.spec.rules = {rule_for(".*", PolicyKind::kIgnore)};
  const Report report = compare_traces(baseline, candidate, options);
  CHECK(exit_of(report) == 4);
  CHECK(report.status == Status::kNothingCompared);
  CHECK(said(report.reasons.front()) == "every output is ignored by a rule");
}

TEST_CASE_FIXTURE(RulesFixture, "row 35: module, phase, tensor, dtype and device") {
  configs::Rule rule;
  rule.match.module = NamePattern("m");
  rule.match.phase = NamePattern("forward");
  rule.match.tensor = NamePattern("output 0");
  rule.match.dtype = NamePattern("float(16|32)");
  rule.match.device = NamePattern("cpu");
  rule.policy.kind = PolicyKind::kTolerance;
  options.spec.rules = {rule};
  CHECK(exit_of(compare_traces(baseline, candidate, options)) == 0);
  for (auto* pattern : {&options.spec.rules[0].match.module,
                        &options.spec.rules[0].match.phase,
                        &options.spec.rules[0].match.tensor,
                        &options.spec.rules[0].match.dtype,
                        &options.spec.rules[0].match.device}) {
    const auto kept = *pattern;
    *pattern = NamePattern("x");
    CHECK(exit_of(compare_traces(baseline, candidate, options)) == 4);
    *pattern = kept;
  }
}

TEST_CASE("a pattern takes linear time, and names beyond the limit match nothing") {
  const NamePattern pattern("(a+)+b");
  CHECK_FALSE(pattern.matches(std::string(4096, 'a')));
  CHECK(NamePattern("a*").matches(std::string(4096, 'a')));
  CHECK_FALSE(NamePattern("a*").matches(std::string(4097, 'a')));
  CHECK(NamePattern(".*").matches("\xff\n\x01"));
  CHECK_FALSE(NamePattern::problem("a(").empty());
  CHECK_THROWS_AS(NamePattern("a("), core::Error);
}

TEST_CASE("bit-equal passes under every policy") {
  for (const char* dtype : {"float64", "float16", "complex64", "int32", "bool"}) {
    const ordered_json tensor = std::string(dtype) == "complex64"
                                    ? tensor_of(dtype, {{0, 1}, {1, 0}})
                                    : tensor_of(dtype, {0, 1});
    for (const CompareOptions& options : {with_ulp(0), with_ulp(0, 1), with_cosine()}) {
      CHECK(exit_of(judge(tensor, tensor, options)) == 0);
    }
  }
}

}  // namespace
}  // namespace repro_check::comparators::policies_test
