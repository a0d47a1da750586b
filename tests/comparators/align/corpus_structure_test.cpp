// SPDX-License-Identifier: Apache-2.0
// The fault corpus of the comparison reference: dtype, shape, layout, content that is not there,
// and dumps that cannot be compared.
#include <doctest/doctest.h>

#include <string>

#include "tests/comparators/corpus.h"
#include "tests/comparators/said.h"

namespace repro_check::comparators::corpus_structure_test {
namespace {

Report judge(const ordered_json& from, const ordered_json& to, const CompareOptions& options = {}) {
  return compare_json(one_op("baseline", from), one_op("candidate", to), options);
}

ordered_json shaped(const std::string& dtype,
                    const ordered_json& shape,
                    const ordered_json& values) {
  return {{"dtype", dtype}, {"shape", shape}, {"values", values}};
}

ordered_json with(ordered_json tensor, const std::string& key, const ordered_json& value) {
  tensor[key] = value;
  return tensor;
}

void check_mismatch(const Report& report, const std::string& note) {
  CHECK(exit_of(report) == 1);
  CHECK(report.kind == DivergenceKind::kMismatch);
  CHECK(report.coverage.mismatched == 1);
  CHECK(report.coverage.origins == 1);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->relation == Relation::kMismatch);
  REQUIRE(report.first_divergence->outputs.size() == 1);
  CHECK(said_as_one(report.first_divergence->outputs.front().note) == note);
  CHECK_FALSE(report.first_divergence->outputs.front().metrics);
}

TEST_CASE("rows 25 and 26: dtype and shape stand beside the digest") {
  check_mismatch(judge(tensor_of("float32", {1.5}), tensor_of("float64", {1.5})),
                 "dtype differs: float32 against float64");
  check_mismatch(judge(tensor_of("int32", {1}), tensor_of("float32", {"00000001"}, "bits")),
                 "dtype differs: int32 against float32");
  check_mismatch(judge(shaped("float32", {2, 3}, {0, 0, 0, 0, 0, 0}),
                       shaped("float32", {3, 2}, {0, 0, 0, 0, 0, 0})),
                 "shape differs: [2, 3] against [3, 2]");
  check_mismatch(
      judge(
          shaped("float32", ordered_json::array(), {1}), shaped("float32", {1}, {1}), tolerance()),
      "shape differs: [] against [1]");
}

TEST_CASE("row 27: strides are a note") {
  const ordered_json from = shaped("float32", {2, 2}, {1, 2, 3, 4});
  const Report report = judge(from, with(from, "strides", {1, 2}));
  CHECK(exit_of(report) == 0);
  REQUIRE_FALSE(report.warnings.empty());
  CHECK(said(report.warnings.front()).find("another memory layout") != std::string::npos);
}

TEST_CASE("rows 28 and 29: quantiser and sparse structure") {
  const ordered_json half = {{"dtype", "qint8"},
                             {"shape", {1}},
                             {"values", {2}},
                             {"layout", "quantised"},
                             {"attributes", "scale=0.5"}};
  const ordered_json quarter = with(with(half, "values", {4}), "attributes", "scale=0.25");
  check_mismatch(judge(half, quarter), "quantiser differs: scale=0.5 against scale=0.25");
  CHECK(judge(half, quarter, tolerance()).status == Status::kReproducible);
  CHECK(judge(half, with(half, "values", {3}), tolerance()).status == Status::kDiverged);
  const ordered_json coo = {{"dtype", "float32"},
                            {"shape", {4}},
                            {"state", "composite"},
                            {"layout", "sparse_coo"},
                            {"attributes", "coalesced=false"}};
  check_mismatch(judge(coo, with(coo, "attributes", "coalesced=true"), tolerance()),
                 "layout structure differs: coalesced=false against coalesced=true");
  check_mismatch(judge(coo, shaped("float32", {4}, {1, 2, 3, 4})),
                 "layout differs: sparse_coo against strided");
}

TEST_CASE("row 30: empty tensors are compared, and are nothing compared when alone") {
  const ordered_json empty = shaped("float32", {0, 3}, ordered_json::array());
  const Report alone = judge(empty, empty);
  CHECK(exit_of(alone) == 4);
  CHECK(alone.status == Status::kNothingCompared);
  CHECK(alone.coverage.tensors == 1);
  CHECK(exit_of(judge(empty, shaped("float32", {3, 0}, ordered_json::array()))) == 1);
  ordered_json dump = one_op("baseline", empty);
  dump["ops"].push_back({{"operator", "aten::relu"}, {"outputs", {"x"}}});
  CHECK(exit_of(compare_json(dump, dump)) == 0);
}

TEST_CASE("row 31: no content is no evidence") {
  const ordered_json meta = {
      {"dtype", "float32"}, {"shape", {2}}, {"state", "none"}, {"device", "meta"}};
  const Report alone = judge(meta, meta);
  CHECK(exit_of(alone) == 4);
  CHECK(alone.coverage.skipped == 1);
  CHECK(exit_of(judge(meta, tensor_of("float32", {1, 2}))) == 4);
  CHECK(exit_of(judge(meta, tensor_of("float32", {1, 2}), tolerance())) == 4);
}

TEST_CASE("scales say nothing of values that could not be read") {
  const ordered_json packed = {
      {"dtype", "quint8"}, {"shape", {2}}, {"state", "none"}, {"device", "cpu"}};
  ordered_json dump = one_op("baseline", packed);
  dump["tensors"]["scales"] = tensor_of("float32", {0.5});
  dump["ops"][0]["outputs"] = {"y", "scales"};
  dump["ops"].push_back({{"operator", "aten::relu"}, {"outputs", {"x"}}});
  const Report report = compare_json(dump, dump);
  CHECK(report.coverage.skipped == 1);
  CHECK(report.coverage.tensors == 2);
  CHECK(report.coverage.metadata_only == 1);
}

/// A packed tensor as it is recorded: the whole without a number of its own, its bytes, its scales.
ordered_json packed_op(const std::string& dtype,
                       const ordered_json& bytes,
                       const ordered_json& scales) {
  ordered_json dump = one_op("run",
                             {{"dtype", "unknown"},
                              {"shape", {2, 2}},
                              {"state", "composite"},
                              {"layout", "quantised"},
                              {"attributes", "dtype=" + dtype + " scheme=per_channel_affine"},
                              {"parts", {{"values", "bytes"}, {"scales", "scales"}}}});
  dump["tensors"]["bytes"] = tensor_of("uint8", bytes);
  dump["tensors"]["scales"] = tensor_of("float32", scales);
  return dump;
}

TEST_CASE("packed elements are compared by their bytes, whatever the policy allows numbers") {
  const ordered_json from = packed_op("quint4x2", {0x53, 0x17}, {0.5, 0.25});
  const Report same = compare_json(from, from, tolerance());
  CHECK(same.status == Status::kReproducible);
  CHECK(same.coverage.compared == 1);
  CHECK(same.coverage.tensors == 3);
  CHECK(same.coverage.skipped == 0);

  const ordered_json nibble = packed_op("quint4x2", {0x53, 0x16}, {0.5, 0.25});
  CompareOptions cosine;
  cosine.spec.policy.kind = configs::PolicyKind::kCosine;
  for (const CompareOptions& options : {bitwise(), tolerance(), tolerance(1, 100), cosine}) {
    const Report report = compare_json(from, nibble, options);
    CHECK(report.status == Status::kDiverged);
    REQUIRE(report.first_divergence);
    CHECK(report.first_divergence->baseline.op->name == "aten::linear");
    REQUIRE(report.first_divergence->outputs.size() == 1);
    CHECK(report.first_divergence->outputs.front().baseline.slot == "0.values");
    CHECK(report.first_divergence->outputs.front().policy == "bitwise");
  }
  // The same bytes as numbers of their own are within such a tolerance, before and after.
  ordered_json plain_from = from;
  ordered_json plain_to = nibble;
  for (ordered_json* dump : {&plain_from, &plain_to}) {
    const ordered_json relu = {{"operator", "aten::relu"}, {"outputs", {"bytes"}}};
    (*dump)["ops"].insert((*dump)["ops"].begin(), relu);
    (*dump)["ops"].push_back({{"operator", "aten::neg"}, {"outputs", {"bytes"}}});
  }
  const Report report = compare_json(plain_from, plain_to, tolerance(1, 100));
  CHECK(report.coverage.within_policy == 2);
  CHECK(report.coverage.diverged == 1);

  const Report scaled =
      compare_json(from, packed_op("quint4x2", {0x53, 0x17}, {0.5, 0.5}), bitwise());
  CHECK(scaled.status == Status::kDiverged);
  CHECK(scaled.first_divergence->outputs.front().baseline.slot == "0.scales");
}

TEST_CASE("dtypes without a number of their own are told apart by name") {
  check_mismatch(compare_json(packed_op("quint4x2", {0x53, 0x17}, {0.5, 0.25}),
                              packed_op("quint2x4", {0x53, 0x17}, {0.5, 0.25}),
                              tolerance()),
                 "dtype differs: quint4x2 against quint2x4");
  const ordered_json bits = {
      {"dtype", "unknown"}, {"shape", {2}}, {"state", "composite"}, {"attributes", "dtype=int4"}};
  check_mismatch(judge(bits, with(bits, "attributes", "dtype=uint4")),
                 "dtype differs: int4 against uint4");
  check_mismatch(judge(bits, tensor_of("uint8", {1, 2})), "dtype differs: int4 against uint8");
}

TEST_CASE("row 32: nothing in common") {
  ordered_json none = one_op("baseline", tensor_of("float32", {1}));
  none["ops"] = ordered_json::array();
  const ordered_json some = one_op("candidate", tensor_of("float32", {1}));
  CHECK(compare_json(none, none).status == Status::kNothingCompared);
  const Report half = compare_json(some, none);
  CHECK(half.status == Status::kNothingCompared);
  CHECK(exit_of(half) == 4);
  CHECK(half.coverage.missing_in_candidate == 1);
  ordered_json other = some;
  other["ops"][0]["operator"] = "aten::conv2d";
  const Report apart = compare_json(some, other);
  CHECK(apart.status == Status::kNothingCompared);
  CHECK(apart.kind == DivergenceKind::kNone);
  CHECK_FALSE(apart.first_divergence);
  CHECK(apart.divergences_total == 0);
}

TEST_CASE("row 33: digests alone decide bitwise, not a tolerance") {
  ordered_json from = one_op("baseline", tensor_of("float32", {1}));
  ordered_json to = one_op("candidate", tensor_of("float32", {2}));
  from["manifest"]["level"] = to["manifest"]["level"] = "digest";
  const Report bits = compare_json(from, to, bitwise());
  CHECK(exit_of(bits) == 1);
  CHECK(said_as_one(bits.first_divergence->outputs.front().note) == "differs");
  const Report judged = compare_json(from, to, tolerance());
  CHECK(judged.status == Status::kNotComparable);
  CHECK(judged.coverage.not_judged == 1);
  CHECK_FALSE(said_fix(judged).empty());
  CHECK(exit_of(compare_json(from, from, tolerance())) == 0);
}

TEST_CASE("row 34: digests of another rule") {
  ordered_json from = one_op("baseline", tensor_of("float32", {1}));
  ordered_json to = one_op("candidate", tensor_of("float32", {1}));
  to["manifest"]["digest_algorithm"] = "another";
  CHECK(exit_of(compare_json(from, to)) == 0);
  from["manifest"]["level"] = to["manifest"]["level"] = "digest";
  const Report report = compare_json(from, to);
  CHECK(report.status == Status::kNotComparable);
  CHECK(exit_of(report) == 4);
}

TEST_CASE("row 39: other depths") {
  ordered_json from = one_op("baseline", tensor_of("float32", {1}));
  ordered_json to = from;
  to["manifest"]["depth"] = "leaf";
  const Report report = compare_json(from, to);
  CHECK(report.status == Status::kNotComparable);
  REQUIRE_FALSE(report.reasons.empty());
  CHECK(said(report.reasons.front()).find("depth") != std::string::npos);
}

TEST_CASE("row 44: other ranks") {
  ordered_json from = one_op("baseline", tensor_of("float32", {1}));
  ordered_json to = from;
  to["ops"].push_back(to["ops"][0]);
  to["ops"][1]["rank"] = 1;
  CHECK(compare_json(from, to).status == Status::kNotComparable);
}

TEST_CASE("row 55: damaged bytes outrank a divergence") {
  const ordered_json damaged = with(tensor_of("float32", {2}), "damaged", true);
  const Report report = judge(tensor_of("float32", {1}), damaged, bitwise());
  CHECK(report.status == Status::kDamaged);
  CHECK(exit_of(report) == 3);
  CHECK(report.also == std::vector<Status>{Status::kDiverged});
  CHECK(report.runs[1].status == "damaged");
  CHECK(report.runs[0].status == "complete");
  // A place may be part of another, and of what a sentence says besides.
  ordered_json from = one_op("run", tensor_of("float32", {1}));
  ordered_json to = from;
  to["run"] = "run 2, op";
  to["tensors"]["y"] = damaged;
  const Report nested = compare_json(from, to);
  CHECK(nested.status == Status::kDamaged);
  CHECK(nested.runs[0].status == "complete");
  CHECK(nested.runs[1].status == "damaged");
  // Bytes that need not be read are not read, unless all of them are to be verified.
  const ordered_json equal = with(tensor_of("float32", {1}), "damaged", true);
  CHECK(judge(equal, equal).status == Status::kReproducible);
  CompareOptions all;
  all.verify_all = true;
  CHECK(judge(equal, equal, all).status == Status::kDamaged);
}

TEST_CASE("row 57: a certain divergence outranks what cannot be judged") {
  ordered_json from = one_op("baseline", tensor_of("float32", {1}));
  from["tensors"]["z"] = with(tensor_of("float32", {5}), "stored", false);
  from["ops"].push_back(
      {{"operator", "aten::relu"}, {"inputs", {{"self", "x"}}}, {"outputs", {"z"}}});
  ordered_json to = from;
  to["tensors"]["y"]["values"] = {3};
  to["tensors"]["z"]["values"] = {6};
  const Report report = compare_json(from, to, tolerance());
  CHECK(report.status == Status::kDiverged);
  CHECK(report.also == std::vector<Status>{Status::kNotComparable});
  CHECK(report.coverage.not_judged == 1);
  CHECK(report.coverage.diverged == 1);
}

TEST_CASE("undefined equals undefined only, and so does uninitialised memory") {
  const ordered_json undefined = {{"state", "undefined"}};
  const ordered_json garbage = {{"dtype", "float32"}, {"shape", {2}}, {"state", "uninitialised"}};
  check_mismatch(judge(undefined, tensor_of("float32", {1})), "undefined against a tensor");
  check_mismatch(judge(garbage, tensor_of("float32", {1, 2})),
                 "uninitialised memory against values");
  const Report report = judge(garbage, garbage);
  CHECK(report.coverage.skipped == 1);
  CHECK(report.status == Status::kNothingCompared);
}

TEST_CASE("excluded content is compared by nobody") {
  const ordered_json left_out = {{"dtype", "float32"}, {"shape", {2}}, {"state", "excluded"}};
  CHECK(judge(left_out, left_out).coverage.skipped == 1);
  CHECK(judge(left_out, tensor_of("float32", {1, 2})).status == Status::kNotComparable);
}

TEST_CASE("the number of results is part of the result") {
  ordered_json from = one_op("baseline", tensor_of("float32", {1}));
  ordered_json to = from;
  to["ops"][0]["outputs"].push_back("x");
  const Report report = compare_json(from, to);
  CHECK(report.kind == DivergenceKind::kMismatch);
  CHECK(exit_of(report) == 1);
}

TEST_CASE("zeros everywhere are warned of") {
  const ordered_json zeros = tensor_of("float32", {0, 0, 0});
  const Report report = judge(zeros, zeros);
  CHECK(exit_of(report) == 0);
  REQUIRE_FALSE(report.warnings.empty());
  CHECK(said(report.warnings.front()) ==
        "3 of 3 output elements are 0 on both sides: agreement on zeros says "
        "little");
}

}  // namespace
}  // namespace repro_check::comparators::corpus_structure_test
