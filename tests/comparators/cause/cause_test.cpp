// SPDX-License-Identifier: Apache-2.0
// Relation and cause: whose fault a difference is.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/comparators/cause/cause_traces.h"
#include "tests/comparators/said.h"

namespace repro_check::comparators {
namespace {

TEST_CASE("origin and propagated, with the root of the chain") {
  Trace baseline = model("baseline");
  Trace candidate = model("candidate");
  candidate.tensor("t0", {5, 7}).tensor("t1", {7, 9}).tensor("t2", {9, 11});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.kind == DivergenceKind::kOrigin);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  CHECK(report.first_divergence->producers.empty());
  CHECK(cause_of(report).name() == "unexplained");
  REQUIRE(report.divergences.size() == 2);
  CHECK(report.divergences[0].relation == Relation::kPropagated);
  CHECK(report.divergences[0].producers == std::vector<std::uint64_t>{0});
  CHECK(report.divergences[1].producers == std::vector<std::uint64_t>{1});
  CHECK(mentions(said(report.divergences[1].cause).evidence,
                 "from op 1, and the difference from op 0"));
  CHECK(report.divergences[1].severity > 0);
}

TEST_CASE("a further origin with bit-equal inputs is listed as one") {
  Trace baseline = model("baseline");
  Trace candidate = model("candidate");
  candidate.tensor("t0", {5, 7}).tensor("t2", {9, 11});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.coverage.origins == 2);
  CHECK(report.coverage.propagated == 0);
  REQUIRE_FALSE(report.warnings.empty());
  CHECK(
      mentions(said(report.warnings.front()), "read differing inputs and gave bit-equal outputs"));
}

TEST_CASE("what the memory for a result held before makes no difference") {
  for (const char* name : {"aten::mul.out", "custom::mul.out"}) {
    const bool is_read = std::string_view(name).starts_with("custom");
    Trace baseline("baseline");
    Trace candidate("candidate");
    for (Trace* trace : {&baseline, &candidate}) {
      trace->tensor("x", {1, 2}).tensor("room", {3, 4}).tensor("y", {5, 6}).op(name, {"x"}, {"y"});
      trace->json()["ops"][0]["inputs"]["out"] = "room";
    }
    candidate.tensor("room", {7, 8});
    CHECK(compare_traces(baseline, candidate).warnings.empty() != is_read);
    candidate.tensor("y", {5, 7});
    const Report report = compare_traces(baseline, candidate);
    CHECK(report.first_divergence->inputs.empty() != is_read);
    CHECK((cause_of(report).name() == "unexplained") != is_read);
  }
}

TEST_CASE("row 45: input data and weights are told apart from computation") {
  Trace baseline = model("baseline");
  Trace other_input = model("candidate");
  other_input.tensor("x", {1, 3}).tensor("t0", {5, 7});
  const Report inputs = compare_traces(baseline, other_input);
  CHECK(exit_of(inputs) == 1);
  CHECK(inputs.kind == DivergenceKind::kInputs);
  CHECK(inputs.first_divergence->relation == Relation::kOrigin);
  CHECK(cause_of(inputs).name() == "input data");
  CHECK(mentions(cause_of(inputs).evidence, "`tokens`"));
  REQUIRE(inputs.named_tensors.size() == 1);
  CHECK(inputs.named_tensors[0].name == "tokens");
  CHECK(inputs.named_tensors[0].metrics->n_diff == 1);
  REQUIRE(inputs.first_divergence->inputs.size() == 1);
  CHECK(inputs.first_divergence->inputs[0].metrics);

  Trace other_weights = model("candidate");
  other_weights.json()["tensors"]["w"] = tensor_of("float32", {"40400000", "40800001"}, "bits");
  other_weights.tensor("t2", {9, 11});
  const Report weights = compare_traces(baseline, other_weights);
  CHECK(weights.kind == DivergenceKind::kWeights);
  CHECK(weights.first_divergence->baseline_index == 2);
  CHECK(mentions(cause_of(weights).evidence,
                 "state `head.weight` differs, 1 of 2 elements, max 1 ULP"));
}

TEST_CASE("a value without a name is no layer that moved") {
  Trace baseline = model("baseline");
  Trace candidate = model("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->tensor("v", {3, 5}).named("parameter", "tail.weight", "v").op("aten::neg", {"v"}, {"v"});
  }
  candidate.tensor("mean", {3, 5}).tensor("t2", {9, 11});
  candidate.json()["ops"][2]["inputs"]["in1"] = "mean";
  CHECK(mentions(
      cause_of(compare_traces(baseline, candidate)).evidence,
      "where the baseline reads state `head.weight`, the candidate reads a tensor that is no"));
}

TEST_CASE("weights that differ and change no output are a difference, not a divergence") {
  Trace baseline = model("baseline");
  Trace candidate = model("candidate");
  candidate.tensor("w", {3, 5});
  const Report report = compare_traces(baseline, candidate);
  CHECK(exit_of(report) == 0);
  CHECK(report.named_tensors.size() == 1);
}

TEST_CASE("an unnamed input that no operator made is a constant") {
  Trace baseline = chain("baseline", {"aten::a"});
  Trace candidate = chain("candidate", {"aten::a"});
  candidate.tensor("x", {1, 2, 4}).tensor("t0", {7, 8, 10});
  CHECK(cause_of(compare_traces(baseline, candidate)).name() == "constant differs");
}

TEST_CASE("a value that changed after it was recorded") {
  LateWrite sides;
  sides.candidate.tensor("t2", {9, 100});
  const Report report = compare_traces(sides.baseline, sides.candidate);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  CHECK(cause_of(report).name() == "unobserved write");
  CHECK(mentions(cause_of(report).evidence, "op 0"));
  // By whom, where the recorder saw it happen.
  sides.candidate.json()["tensors"]["late"]["watch"] = "moved";
  CHECK(cause_of(compare_traces(sides.baseline, sides.candidate)).name() ==
        "race on a tensor in use");
}

TEST_CASE("a scalar result that differs is an origin, its use is propagated") {
  Trace baseline = chain("baseline", {"aten::a"});
  Trace candidate = chain("candidate", {"aten::a"});
  baseline.op("aten::item", {"t0"}, {}, {{"results", {0.5}}});
  candidate.op("aten::item", {"t0"}, {}, {{"results", {0.75}}});
  baseline.tensor("z", {1}).op("aten::mul", {"t0"}, {"z"}, {{"scalars", {{"other", 0.5}}}});
  candidate.tensor("z", {2}).op("aten::mul", {"t0"}, {"z"}, {{"scalars", {{"other", 0.75}}}});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  REQUIRE(report.divergences.size() == 1);
  CHECK(report.divergences[0].relation == Relation::kPropagated);
  CHECK(report.divergences[0].producers == std::vector<std::uint64_t>{1});
  // Within a tolerance a number returned is judged like a tensor.
  CHECK(exit_of(compare_traces(baseline, candidate, tolerance(1, 0))) == 0);
}

TEST_CASE("an argument that differs") {
  const Report report = compute("aten::leaky_relu",
                                {{"scalars", {{"negative_slope", 0.1}}}},
                                {{"scalars", {{"negative_slope", 0.2}}}});
  CHECK(report.kind == DivergenceKind::kOrigin);
  CHECK(cause_of(report).name() == "argument differs");
  CHECK(report.first_divergence->notes ==
        std::vector<std::string>{"negative_slope: 0.1 against 0.2"});
}

TEST_CASE("dropout with other seeds: the generators started apart") {
  const ordered_json drew = {
      {"seeded", true}, {"generator", {{"seed", 1}, {"before", 10}, {"after", 20}, {"drawn", 4}}}};
  ordered_json other = drew;
  other["generator"] = {{"seed", 2}, {"before", 11}, {"after", 21}, {"drawn", 4}};
  const Report report = compute("aten::dropout", drew, other, {{"seed", 1}}, {{"seed", 2}});
  CHECK(report.kind == DivergenceKind::kRng);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  CHECK(cause_of(report).name() == "rng stream");
  CHECK(mentions(cause_of(report).evidence, "the generators started apart (seed 1 against 2)"));
  CHECK(mentions(cause_of(report).advice, "\"disable_dropout\": true"));
  CHECK(mentions(cause_of(report).advice, "\"seed\""));
  const Report own = compute("aten::rand", drew, other, {{"seed", 1}}, {{"seed", 1}});
  CHECK(mentions(cause_of(own).advice, "give that generator the same seed in every run"));
  // The generator was not recorded, but the seeds were.
  const Report unrecorded = compute(
      "aten::dropout", {{"seeded", true}}, {{"seeded", true}}, {{"seed", 1}}, {{"seed", 2}});
  CHECK(unrecorded.kind == DivergenceKind::kRng);
}

TEST_CASE("numbers that are drawn in the form of what differs are none of what it holds") {
  const auto drawing = [](const char* name, double shown, double drawn, int seed) {
    Trace trace(name);
    trace.tensor("x", {1, shown}).op("aten::exp", {}, {"x"}).tensor("r", {drawn, 2});
    trace.op("aten::randn_like",
             {},
             {"r"},
             {{"seeded", true},
              {"inputs", {{"self", "x"}}},
              {"generator", {{"seed", seed}, {"before", 1}, {"after", 2}, {"drawn", 2}}}});
    return trace;
  };
  Trace baseline = drawing("baseline", 1, 1, 1);
  Trace alike = drawing("candidate", 2, 1, 1);
  CHECK(compare_traces(baseline, alike).warnings.empty());
  Trace apart = drawing("candidate", 2, 2, 2);
  const Report report = compare_traces(baseline, apart);
  CHECK(report.coverage.origins == 2);
  REQUIRE(report.divergences.size() == 1);
  CHECK(report.divergences[0].kind == DivergenceKind::kRng);
}

TEST_CASE("what is made in another form is not at fault where it was given that form") {
  const auto filling = [](const char* name, const std::vector<double>& numbers) {
    Trace trace(name);
    trace.tensor("x", numbers).op("aten::exp", {}, {"x"});
    trace.tensor("z", std::vector<double>(numbers.size()));
    trace.op("aten::zeros_like", {}, {"z"}, {{"inputs", {{"self", "x"}}}});
    return trace;
  };
  Trace baseline = filling("baseline", {1, 2});
  Trace candidate = filling("candidate", {1, 2, 3});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.first_divergence->baseline_index == 0);
  CHECK(report.coverage.origins == 1);
}

TEST_CASE("row 46: an extra draw parts the stream") {
  Trace baseline = chain("baseline", {"aten::a", "aten::b"});
  Trace candidate = chain("candidate", {"aten::a"});
  candidate.tensor("r", {1}).op(
      "aten::rand",
      {},
      {"r"},
      {{"seeded", true}, {"generator", {{"before", 1}, {"after", 2}, {"drawn", 8}}}});
  candidate.op("aten::b", {"t0"}, {"t1"}).tensor("t1", {7, 8, 9});
  baseline.tensor("d", {1}).op("aten::dropout",
                               {"t1"},
                               {"d"},
                               {{"seeded", true}, {"generator", {{"before", 1}, {"after", 2}}}});
  candidate.tensor("d", {2}).op("aten::dropout",
                                {"t1"},
                                {"d"},
                                {{"seeded", true}, {"generator", {{"before", 2}, {"after", 3}}}});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.kind == DivergenceKind::kMissing);
  CHECK(report.first_divergence->candidate_index == 1);
  REQUIRE(report.divergences.size() == 1);
  CHECK(report.divergences[0].kind == DivergenceKind::kRng);
  CHECK(mentions(said(report.divergences[0].cause).evidence,
                 "op 1 aten::rand (m), which drew 8 numbers in the candidate only"));
}

TEST_CASE("row 47: a kernel known to be nondeterministic") {
  const Report report = compute("aten::index_put_");
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  CHECK(cause_of(report).name() == "nondeterministic kernel");
  CHECK(mentions(cause_of(report).evidence, "likely"));
  CHECK(mentions(cause_of(report).advice, "\"determinism\": \"error\""));
  CHECK(cause_of(compute("aten::scatter_add")).name() == "unexplained");
}

TEST_CASE("row 48: thread counts, settings and environment are suspects") {
  const ordered_json two = {{"settings", {{"threads.intra_op", "2"}}}};
  const ordered_json one = {{"settings", {{"threads.intra_op", "1"}}}};
  const Report threads = compute("aten::sum", kNone, kNone, two, one);
  CHECK(cause_of(threads).name() == "threads");
  CHECK(mentions(cause_of(threads).evidence,
                 "suspect: threads.intra_op 2 -> 1, the only setting that differs"));
  const Report also = compute("aten::index_put_", kNone, kNone, two, one);
  CHECK(cause_of(also).name() == "threads");
  REQUIRE(cause_of(also).also.size() == 1);
  CHECK(cause_of(also).also[0].name() == "nondeterministic kernel");
  CHECK_FALSE(cause_of(also).also[0].advice.empty());
  const Report library = compute("aten::mm",
                                 kNone,
                                 kNone,
                                 {{"environment", {{"libtorch.version", "2.13.0"}}}},
                                 {{"environment", {{"libtorch.version", "2.14.1"}}}});
  CHECK(cause_of(library).name() == "environment differs");
  const Report setting = compute("aten::mm",
                                 kNone,
                                 kNone,
                                 {{"settings", {{"allow_tf32_cudnn", "true"}}}},
                                 {{"settings", {{"allow_tf32_cudnn", "false"}}}});
  CHECK(cause_of(setting).name() == "settings differ");
  const Report host = compute("aten::mm",
                              kNone,
                              kNone,
                              {{"environment", {{"host.name", "a"}}}},
                              {{"environment", {{"host.name", "b"}}}});
  CHECK(cause_of(host).name() == "unexplained");
  REQUIRE(host.differences.size() == 1);
  CHECK_FALSE(host.differences[0].affects_numbers);
}

TEST_CASE("reading memory that nobody wrote") {
  Trace baseline("baseline");
  Trace candidate("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->json()["tensors"]["u"] = {
        {"dtype", "float32"}, {"shape", {2}}, {"state", "uninitialised"}};
    trace->op("aten::empty", {}, {"u"});
  }
  baseline.tensor("y", {1, 2}).op("aten::relu", {"u"}, {"y"});
  candidate.tensor("y", {1, 3}).op("aten::relu", {"u"}, {"y"});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.kind == DivergenceKind::kUninitialised);
  CHECK(report.coverage.skipped == 1);
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK(cause_of(report).name() == "uninitialised memory");
  // Two equal runs are reproducible although aten::empty is in the trace.
  CHECK(exit_of(compare_traces(baseline, baseline)) == 0);
}

TEST_CASE("row 49: an in-place operator") {
  Trace baseline = chain("baseline", {"aten::a"});
  Trace candidate = chain("candidate", {"aten::a"});
  for (Trace* trace : {&baseline, &candidate}) {
    trace->tensor("after", {1, 1, 1});
    trace->json()["tensors"]["after"]["storage"] = "t0";
  }
  candidate.json()["tensors"]["after"]["values"] = {1, 1, 2};
  baseline.op("aten::add_", {"t0"}, {"after"}).op("aten::sum", {"after"}, {"x"});
  candidate.op("aten::add_", {"t0"}, {"after"}).op("aten::sum", {"after"}, {"x"});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
}

TEST_CASE("row 50: NaN on both sides passes and names its first maker") {
  Trace baseline = chain("baseline", {"aten::a", "aten::log", "aten::b"});
  baseline.tensor("t1", {"nan", 1, 2}).tensor("t2", {"nan", 1, 2});
  const Report report = compare_traces(baseline, baseline);
  CHECK(exit_of(report) == 0);
  REQUIRE(report.warnings.size() == 1);
  CHECK(said(report.warnings[0]) ==
        "NaN in 2 outputs (2 elements), first made by op 1 aten::log (m)");
  // One run alone, whichever: of a divergence as of a pass.
  Trace finite = chain("finite", {"aten::a", "aten::log", "aten::b"});
  CHECK(said(compare_traces(baseline, finite).warnings[0])
            .starts_with("NaN in the baseline: 2 outputs"));
  CHECK(said(compare_traces(finite, baseline).warnings[0])
            .starts_with("NaN in the candidate: 2 outp"));
}

TEST_CASE("NaN is known at level digest, and not of what older recorders left") {
  Trace trace = chain("baseline", {"aten::a", "aten::log", "aten::b"});
  trace.tensor("t1", {"nan", "inf", "-inf"}).tensor("t2", {1, 2, 3});
  trace.json()["manifest"]["level"] = "digest";
  const Report counted = compare_traces(trace, trace);
  REQUIRE(counted.warnings.size() == 2);
  CHECK(said(counted.warnings[0]).starts_with("NaN in 1 output (1 element), first made by op 1"));
  CHECK(said(counted.warnings[1])
            .starts_with("Infinity in 1 output (2 elements), first made by op 1"));
  Trace older = trace;
  older.json()["counts"] = false;
  const Report unknown = compare_traces(older, older);
  REQUIRE(unknown.warnings.size() == 1);
  CHECK(said(unknown.warnings[0]) == "NaN and infinity were not counted in 3 outputs");
  // What one run says is enough: the values are the same.
  CHECK(
      said(compare_traces(older, trace).warnings[0]).starts_with("NaN in the candidate: 1 output"));
}

TEST_CASE("what was given NaN, or asked for infinity, did not make it") {
  Trace trace = chain("baseline", {"aten::masked_fill", "aten::relu", "aten::softmax"});
  trace.tensor("t0", {"inf", 1, 2}).tensor("t1", {"inf", 1, 2}).tensor("t2", {"nan", 1, 2});
  trace.json()["ops"][0]["scalars"] = {{"value", "inf"}};
  const Report report = compare_traces(trace, trace);
  REQUIRE(report.warnings.size() == 2);
  CHECK(said(report.warnings[0]) ==
        "NaN in 1 output (1 element), first made by op 2 aten::softmax (m)");
  CHECK(said(report.warnings[1]) ==
        "Infinity in 2 outputs (2 elements), first in op 0 aten::masked_fill (m), "
        "whose arguments ask for it");
  Trace given = chain("baseline", {"aten::a", "aten::b"});
  given.tensor("x", {"nan", 1, 2}).tensor("t0", {"nan", 1, 2});
  CHECK(said(compare_traces(given, given).warnings[0]).find("which was given it as argument") !=
        std::string::npos);
}

TEST_CASE("a difference that passed and was amplified") {
  Trace baseline = model("baseline");
  Trace candidate = model("candidate");
  candidate.tensor("t0", {5, 6.000001}).tensor("t1", {7, 80});
  const Report report = compare_traces(baseline, candidate, tolerance());
  CHECK(report.coverage.within_policy == 1);
  CHECK(report.first_bit_difference == 0);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline_index == 1);
  CHECK(report.first_divergence->relation == Relation::kPropagated);
  CHECK(cause_of(report).name() == "amplified");
}

TEST_CASE("depth all: the innermost operator that ended first is the first divergence") {
  Trace baseline("baseline");
  Trace candidate("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->manifest()["depth"] = "all";
    trace->tensor("x", {1}).tensor("t", {2}).tensor("y", {3});
    trace->op("aten::linear", {"x"}, {"y"});
    trace->op("aten::t", {"x"}, {"t"}, {{"depth", 1}, {"parent", 0}});
    trace->op("aten::addmm", {"t"}, {"y"}, {{"depth", 1}, {"parent", 0}});
    trace->tensor("z", {4}).op("aten::relu", {"y"}, {"z"});
  }
  candidate.tensor("y", {30}).tensor("z", {40});
  const Report report = compare_traces(baseline, candidate);
  REQUIRE(report.first_divergence);
  CHECK(report.first_divergence->baseline_index == 2);
  CHECK(report.first_divergence->relation == Relation::kOrigin);
  REQUIRE(report.divergences.size() == 2);
  CHECK(report.divergences[0].baseline_index == 0);
  CHECK(report.divergences[0].relation == Relation::kPropagated);
  CHECK(report.divergences[0].producers == std::vector<std::uint64_t>{2});
  CHECK(report.divergences[1].baseline_index == 3);
  CHECK(report.divergences[1].relation == Relation::kPropagated);
  CHECK(report.coverage.origins == 1);
}

TEST_CASE("topk: equal values, other indices") {
  Trace baseline = chain("baseline", {"aten::a"});
  Trace candidate = chain("candidate", {"aten::a"});
  baseline.json()["tensors"]["i"] = tensor_of("int64", {0, 1});
  candidate.json()["tensors"]["i"] = tensor_of("int64", {1, 0});
  baseline.op("aten::topk", {"t0"}, {"x", "i"});
  candidate.op("aten::topk", {"t0"}, {"x", "i"});
  CHECK(cause_of(compare_traces(baseline, candidate)).name() == "ties broken differently");
}

TEST_CASE("inputs in another memory layout") {
  const Report report =
      compute("aten::mean", {{"strides", {{"in0", {1}}}}}, {{"strides", {{"in0", {2}}}}});
  CHECK(cause_of(report).name() == "layout differs");
}

TEST_CASE("the report is the same every time") {
  Trace baseline = model("baseline");
  Trace candidate = model("candidate");
  candidate.tensor("t0", {5, 7}).tensor("t1", {7, 9}).tensor("t2", {9, 11});
  const Report first = compare_traces(baseline, candidate);
  const Report second = compare_traces(baseline, candidate);
  REQUIRE(first.divergences.size() == second.divergences.size());
  CHECK(said(first.first_divergence->cause).evidence ==
        said(second.first_divergence->cause).evidence);
  CHECK(first.first_divergence->outputs[0].metrics->rmse ==
        second.first_divergence->outputs[0].metrics->rmse);
  CHECK(first.warnings == second.warnings);
  CHECK(first.reasons == second.reasons);
}

}  // namespace
}  // namespace repro_check::comparators
