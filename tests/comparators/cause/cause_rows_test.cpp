// SPDX-License-Identifier: Apache-2.0
// Rows of the decision table one by one: the cause, what holds beside it, what was not recorded.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/comparators/cause/cause_traces.h"

namespace repro_check::comparators {
namespace {

std::vector<std::string> also_of(const Report& report) {
  std::vector<std::string> names;
  for (const auto& further : cause_of(report).also) names.emplace_back(further.name());
  return names;
}

TEST_CASE("row 14: half a number range away from the largest is overflow") {
  Trace baseline = chain("baseline", {"aten::a"});
  Trace candidate = chain("candidate", {"aten::a"});
  baseline.json()["tensors"]["t0"] = tensor_of("float16", {65504});
  candidate.json()["tensors"]["t0"] = tensor_of("float16", {"inf"});
  const Report report = compare_traces(baseline, candidate, tolerance());
  CHECK(exit_of(report) == 1);
  CHECK(cause_of(report).name() == "overflow");
  CHECK(mentions(cause_of(report).evidence, "65504 became inf"));
  CHECK(mentions(cause_of(compare_traces(candidate, baseline, tolerance())).evidence,
                 "inf became 65504: overflow of float16"));
  // 1000 did not become infinite by overflow.
  baseline.json()["tensors"]["t0"] = tensor_of("float16", {1000});
  CHECK(cause_of(compare_traces(baseline, candidate)).name() == "unexplained");
  // Saturation: a cast to float8 that clamps against one that gives NaN.
  baseline.json()["tensors"]["t0"] = tensor_of("float8_e4m3fn", {"7E"}, "bits");
  candidate.json()["tensors"]["t0"] = tensor_of("float8_e4m3fn", {"7F"}, "bits");
  CHECK(cause_of(compare_traces(baseline, candidate)).name() == "overflow");
}

Report written_in_place(const std::string& baseline_watch, const std::string& candidate_watch) {
  Trace baseline("baseline");
  Trace candidate("candidate");
  const auto fill = [](Trace& trace, const std::string& watch, const ordered_json& after) {
    trace.tensor("x", {1, 2}).tensor("after", after);
    trace.json()["tensors"]["after"]["storage"] = "x";
    if (!watch.empty()) trace.json()["tensors"]["x"]["watch"] = watch;
    trace.op("aten::relu_", {"x"}, {"after"});
  };
  fill(baseline, baseline_watch, {1, 0});
  fill(candidate, candidate_watch, {1, 3});
  return compare_traces(baseline, candidate);
}

TEST_CASE("an input that was written between its digest and the call is a race") {
  const Report candidate = written_in_place("steady", "moved");
  CHECK(cause_of(candidate).name() == "race on a tensor in use");
  CHECK(mentions(cause_of(candidate).evidence, "wrote its input in0"));
  CHECK(mentions(cause_of(candidate).evidence, "in the candidate"));
  CHECK(mentions(cause_of(written_in_place("moved", "steady")).evidence, "in the baseline"));
  CHECK(mentions(cause_of(written_in_place("moved", "moved")).evidence, "in both runs"));
}

TEST_CASE("an output that was written while it was stored is a race as well") {
  Trace baseline = chain("baseline", {"aten::mul"});
  Trace candidate = chain("candidate", {"aten::mul"});
  candidate.tensor("t0", {7, 8, 10});
  candidate.json()["tensors"]["t0"]["watch"] = "moved";
  const Report report = compare_traces(baseline, candidate);
  CHECK(cause_of(report).name() == "race on a tensor in use");
  CHECK(mentions(cause_of(report).evidence, "wrote its output 0 after it was digested"));
}

TEST_CASE("of an input that nobody watched it is not known whether it was written") {
  const std::string unknown = "whether its value was changed by another thread while in use";
  const auto missing = [](const Report& report) { return cause_of(report).not_recorded; };
  CHECK(std::ranges::count(missing(written_in_place("steady", "steady")), unknown) == 0);
  CHECK(std::ranges::count(missing(written_in_place("steady", "")), unknown) == 1);
  CHECK(std::ranges::count(missing(written_in_place("", "")), unknown) == 1);
  CHECK(cause_of(written_in_place("steady", "steady")).name() == "unexplained");
}

TEST_CASE("flush to zero needs every differing element to be subnormal on one side") {
  Trace baseline = chain("baseline", {"aten::mul"});
  Trace candidate = chain("candidate", {"aten::mul"});
  const auto bits = [](const ordered_json& values) { return tensor_of("float32", values, "bits"); };
  baseline.json()["tensors"]["t0"] = bits({"00000001", "3F800000", "80012345"});
  candidate.json()["tensors"]["t0"] = bits({"00000000", "3F800000", "80000000"});
  CHECK(cause_of(compare_traces(baseline, candidate)).name() == "flush to zero");
  candidate.json()["tensors"]["t0"] = bits({"00000000", "3F800001", "80000000"});
  CHECK(cause_of(compare_traces(baseline, candidate)).name() == "unexplained");
  candidate.json()["tensors"]["t0"] = bits({"00000002", "3F800000", "80012345"});
  CHECK(cause_of(compare_traces(baseline, candidate)).name() == "unexplained");
}

TEST_CASE("rows that hold beside the cause are listed in the order of the table") {
  const ordered_json from = {
      {"settings", {{"threads.intra_op", "2"}, {"allow_tf32_cudnn", "true"}}},
      {"environment", {{"libtorch.version", "2.13.0"}}}};
  const ordered_json to = {{"settings", {{"threads.intra_op", "1"}, {"allow_tf32_cudnn", "false"}}},
                           {"environment", {{"libtorch.version", "2.14.1"}}}};
  const Report report = compute("aten::index_put_",
                                {{"strides", {{"in0", {1}}}}, {"scalars", {{"accumulate", 1}}}},
                                {{"strides", {{"in0", {2}}}}, {"scalars", {{"accumulate", 0}}}},
                                from,
                                to);
  CHECK(cause_of(report).name() == "argument differs");
  CHECK(also_of(report) == std::vector<std::string>{"layout differs",
                                                    "settings differ",
                                                    "environment differs",
                                                    "threads",
                                                    "nondeterministic kernel"});
  for (const auto& further : cause_of(report).also) {
    CHECK_FALSE(further.evidence.empty());
    CHECK_FALSE(further.advice.empty());
  }
}

/// What two runs were told, what of it the recorder saw, and what it found on the machine.
struct Surroundings {
  const char* configuration = "{}";
  ordered_json settings = ordered_json::object();
  ordered_json environment = ordered_json::object();
};

SaidCause cause_between(const Surroundings& from, const Surroundings& to) {
  const auto manifest = [](const Surroundings& side) {
    return ordered_json{{"configuration", side.configuration},
                        {"settings", side.settings},
                        {"environment", side.environment}};
  };
  return cause_of(compute("aten::mm", kNone, kNone, manifest(from), manifest(to)));
}

TEST_CASE("a setting is named, and what follows from it is not") {
  const auto cause = cause_between({R"({"settings": {}})",
                                    {{"mkldnn.enabled", "on"}},
                                    {{"probe.convolution", "aa"}, {"cpu.mxcsr", "0x1f80"}}},
                                   {R"({"settings": {"mkldnn.enabled": "off"}})",
                                    {{"mkldnn.enabled", "off"}},
                                    {{"probe.convolution", "bb"}, {"cpu.mxcsr", "0x9fc0"}}});
  CHECK(cause.name() == "settings differ");
  CHECK(mentions(cause.evidence, "suspect: mkldnn.enabled on -> off, the only setting"));
  CHECK(mentions(cause.advice, R"(give both runs "settings": {"mkldnn.enabled": "on"})"));
  CHECK(cause.also.empty());
}

TEST_CASE("a variable is named, whether the configuration or the shell set it") {
  for (const char* configuration : {R"({"env": {"ATEN_CPU_CAPABILITY": "default"}})", "{}"}) {
    const auto cause =
        cause_between({"{}", {{"env.ATEN_CPU_CAPABILITY", "unset"}}, {{"cpu.capability", "avx2"}}},
                      {configuration,
                       {{"env.ATEN_CPU_CAPABILITY", "default"}},
                       {{"cpu.capability", "default"}, {"probe.exp", "bb"}}});
    CHECK(cause.name() == "settings differ");
    CHECK(mentions(cause.evidence, "suspect: env.ATEN_CPU_CAPABILITY unset -> default, the only"));
    CHECK(mentions(cause.advice, R"("env": {"ATEN_CPU_CAPABILITY": null})"));
  }
}

TEST_CASE("the executor is one setting, however many LibTorch makes of it") {
  const auto cause = cause_between(
      {R"({"optimize_executor": false})", {{"jit.optimize", "false"}, {"jit.profiling", "false"}}},
      {R"({"optimize_executor": true})", {{"jit.optimize", "true"}, {"jit.profiling", "true"}}});
  CHECK(cause.name() == "settings differ");
  CHECK(mentions(cause.evidence, "suspect: optimize_executor false -> true, the only setting"));
  CHECK(mentions(cause.advice, "give both runs \"optimize_executor\": false"));
}

TEST_CASE("threads and determinism are named, and not the variables that they pin") {
  const auto threads = cause_between({R"({"threads": 2})",
                                      {{"threads.intra_op", "2"}, {"env.OMP_NUM_THREADS", "2"}},
                                      {{"openmp.team", "2"}, {"probe.sum", "aa"}}},
                                     {R"({"threads": 1})",
                                      {{"threads.intra_op", "1"}, {"env.OMP_NUM_THREADS", "1"}},
                                      {{"openmp.team", "1"}, {"probe.sum", "bb"}}});
  CHECK(threads.name() == "threads");
  CHECK(mentions(threads.evidence, "suspect: threads.intra_op 2 -> 1, the only setting"));
  const auto several = cause_between(
      {R"({"settings": {"a": "on", "b": "on"}})", {{"a", "on"}, {"b", "on"}}, kNone},
      {R"({"settings": {"a": "off", "b": "off"}})", {{"a", "off"}, {"b", "off"}}, kNone});
  CHECK(mentions(several.advice, "repro-check bisect"));
}

TEST_CASE("what a collective brings comes from another rank") {
  for (const char* name : {"c10d::allreduce_", "_c10d_functional::all_reduce"}) {
    CHECK(cause_of(compute(name, kNone, kNone)).name() == "received from another rank");
  }
  CHECK(cause_of(compute("c10d_like::op", kNone, kNone)).name() == "unexplained");
}

TEST_CASE("a probe is the suspect where nothing else differs") {
  const auto cause =
      cause_between({"{}", kNone, {{"probe.exp", "aa"}}}, {"{}", kNone, {{"probe.exp", "bb"}}});
  CHECK(cause.name() == "environment differs");
  CHECK(mentions(cause.evidence, "probe.exp: the machine gives other numbers for one computation"));
}

TEST_CASE("evidence that was not recorded is said to be missing, not to be absent") {
  const Report bare = compute("aten::rand", {{"seeded", true}}, {{"seeded", true}});
  CHECK(cause_of(bare).name() == "unexplained");
  const auto& missing = cause_of(bare).not_recorded;
  CHECK(missing == std::vector<std::string>{
                       "generator positions", "settings", "environment", "thread counts"});
  CHECK(mentions(cause_of(bare).evidence, "not recorded: generator positions, settings"));
  const ordered_json known = {{"settings", {{"threads.intra_op", "2"}}},
                              {"environment", {{"libtorch.version", "2.13.0"}}}};
  const Report full = compute("aten::mm", kNone, kNone, known, known);
  CHECK(cause_of(full).not_recorded.empty());
  CHECK(mentions(cause_of(full).evidence,
                 "checked and equal: arguments, memory layout, settings, environment, threads"));
}

TEST_CASE("what was accepted holds results alone, and nothing beside them is called equal") {
  Trace baseline("baseline");
  Trace candidate("candidate");
  baseline.tensor("x", {1, 2})
      .tensor("y", {3, 4})
      .op("aten::rand", {"x"}, {"y"}, {{"seeded", true}});
  candidate.tensor("x", {1, 2})
      .tensor("y", {3, 5})
      .op("aten::rand", {"x"}, {"y"}, {{"seeded", true}});
  CompareOptions options;
  options.paired = [](auto) {};
  const Report report = compare_traces(baseline, candidate, options);
  CHECK(report.from_accepted);
  CHECK(mentions(cause_of(report).evidence,
                 "checked and equal: configuration; not in a baseline: arguments, generator "
                 "positions, memory layout, settings, environment"));
  CHECK(mentions(cause_of(report).advice, "repro-check diff"));
}

TEST_CASE("inputs that nobody recorded are not called equal") {
  Trace baseline = model("baseline");
  Trace candidate = model("candidate");
  for (Trace* trace : {&baseline, &candidate}) {
    trace->json()["tensors"]["x"] = {{"dtype", "float32"}, {"shape", {2}}, {"state", "excluded"}};
    trace->json()["named"] = ordered_json::array();
  }
  candidate.tensor("t0", {5, 7});
  const Report report = compare_traces(baseline, candidate);
  CHECK(mentions(cause_of(report).evidence, "those of its inputs that were recorded"));
  REQUIRE_FALSE(cause_of(report).not_recorded.empty());
  CHECK(cause_of(report).not_recorded[0] == "the content of some of its inputs");
}

TEST_CASE("a value that is not what its producer returned was changed by nobody recorded") {
  LateWrite sides;
  // Op 0 diverges as well, but op 1 reads neither side's result of it in the candidate.
  sides.candidate.json()["tensors"]["t0"]["values"] = {5, 7};
  const Report report = compare_traces(sides.baseline, sides.candidate);
  CHECK(report.first_divergence->baseline_index == 0);
  REQUIRE(report.divergences.size() == 1);
  CHECK(said(report.divergences[0].cause).name() == "unobserved write");
  CHECK(mentions(said(report.divergences[0].cause).evidence,
                 "is not what op 0 aten::linear (m) returned, in the candidate"));
}

TEST_CASE("an operator that promotes otherwise") {
  Trace baseline = chain("baseline", {"aten::mul"});
  Trace candidate = chain("candidate", {"aten::mul"});
  candidate.json()["tensors"]["t0"] = tensor_of("float64", {7, 8, 9});
  const Report report = compare_traces(baseline, candidate);
  CHECK(report.kind == DivergenceKind::kMismatch);
  CHECK(cause_of(report).name() == "dtype promotion");
  CHECK(mentions(cause_of(report).evidence, "float32 against float64"));
  CHECK(also_of(report) == std::vector<std::string>{"mismatch"});
}

TEST_CASE("another dtype is not put down to what cannot change one") {
  Trace baseline = chain("baseline", {"aten::mul"});
  Trace candidate = chain("candidate", {"aten::mul"});
  candidate.json()["tensors"]["t0"] = tensor_of("float64", {7, 8, 9});
  baseline.manifest()["environment"] = {{"cpu.mxcsr", "0x1f80"}};
  candidate.manifest()["environment"] = {{"cpu.mxcsr", "0x9fc0"}};
  const auto said = [&] {
    const Report report = compare_traces(baseline, candidate);
    std::string text = cause_of(report).evidence;
    for (const auto& further : cause_of(report).also) text += further.evidence;
    return text;
  };
  CHECK_FALSE(mentions(said(), "suspect"));
  baseline.manifest()["settings"] = {{"default_dtype", "float32"}};
  candidate.manifest()["settings"] = {{"default_dtype", "float64"}};
  CHECK(mentions(said(), "suspect: default_dtype float32 -> float64"));
}

TEST_CASE("weights that differ beside a divergent producer: both are said") {
  Trace baseline = model("baseline");
  Trace candidate = model("candidate");
  candidate.tensor("t0", {5, 7}).tensor("t1", {7, 9}).tensor("w", {3, 5}).tensor("t2", {9, 11});
  const Report report = compare_traces(baseline, candidate);
  REQUIRE(report.divergences.size() == 2);
  const OpDivergence& last = report.divergences[1];
  CHECK(last.relation == Relation::kPropagated);
  CHECK(last.producers == std::vector<std::uint64_t>{1});
  CHECK(said(last.cause).name() == "weights");
  REQUIRE(said(last.cause).also.size() == 1);
  CHECK(said(last.cause).also[0].name() == "propagated");
}

TEST_CASE("generators of two versions, and who drew last before they parted") {
  const auto drew = [](int before, int after) {
    return ordered_json{
        {"seeded", true},
        {"generator", {{"seed", 1}, {"before", before}, {"after", after}, {"drawn", 4}}}};
  };
  const Report versions = compute("aten::randn",
                                  drew(1, 2),
                                  drew(1, 2),
                                  {{"environment", {{"libtorch.version", "1.13.1"}}}},
                                  {{"environment", {{"libtorch.version", "2.13.0"}}}});
  CHECK(cause_of(versions).name() == "generator algorithm");
  CHECK(also_of(versions) == std::vector<std::string>{"environment differs"});

  Trace baseline = chain("baseline", {"aten::a"});
  Trace candidate = chain("candidate", {"aten::a"});
  baseline.tensor("r", {1}).op("aten::rand", {}, {"r"}, drew(1, 2));
  candidate.tensor("r", {1}).op("aten::rand", {}, {"r"}, drew(1, 2));
  baseline.tensor("d", {1}).op("aten::dropout", {"r"}, {"d"}, drew(2, 3));
  candidate.tensor("d", {2}).op("aten::dropout", {"r"}, {"d"}, drew(9, 10));
  const Report parted = compare_traces(baseline, candidate);
  CHECK(cause_of(parted).name() == "rng stream");
  CHECK(mentions(cause_of(parted).evidence, "op 1 aten::rand (m) was the last to draw alike"));
}

TEST_CASE("argmax returns nothing but indices") {
  Trace baseline = chain("baseline", {"aten::a", "aten::argmax"});
  Trace candidate = chain("candidate", {"aten::a", "aten::argmax"});
  baseline.json()["tensors"]["t1"] = tensor_of("int64", {0});
  candidate.json()["tensors"]["t1"] = tensor_of("int64", {2});
  CHECK(cause_of(compare_traces(baseline, candidate)).name() == "ties broken differently");
}

TEST_CASE("MKL's vector functions may differ from process to process") {
  const auto cause = [](const char* name, int elements, const char* threads) {
    Trace baseline("baseline");
    Trace candidate("candidate");
    for (Trace* trace : {&baseline, &candidate}) {
      trace->tensor("x", {1});
      trace->json()["tensors"]["y"] = {{"dtype", "float32"}, {"shape", {elements}}, {"fill", 1}};
      trace->op(name, {"x"}, {"y"});
      trace->manifest()["settings"] = {{"threads.intra_op", threads}};
    }
    candidate.json()["tensors"]["y"]["fill"] = 2;
    return cause_of(compare_traces(baseline, candidate)).name();
  };
  CHECK(cause("aten::tanh", 3'072, "2") == "nondeterministic kernel");
  CHECK(cause("aten::sqrt", 3'096, "2") == "nondeterministic kernel");
  CHECK(cause("aten::exp_", 2'049, "2") == "nondeterministic kernel");
  CHECK(cause("aten::tanh", 2'048, "2") == "unexplained");
  CHECK(cause("aten::tanh", 3'072, "1") == "unexplained");
  CHECK(cause("aten::trunc", 3'072, "2") == "unexplained");
}

TEST_CASE("putting adds only where it is told to accumulate") {
  const auto evidence = [](const ordered_json& scalars) {
    return cause_of(compute("aten::index_put_", {{"scalars", scalars}}, {{"scalars", scalars}}))
        .evidence;
  };
  CHECK(mentions(evidence({{"accumulate", true}}), "it adds in the order"));
  CHECK(mentions(evidence({{"accumulate", false}}), "any of them may be written last"));
  CHECK_FALSE(mentions(evidence({{"accumulate", false}}), "adds"));
  CHECK_FALSE(mentions(evidence(ordered_json::object()), "adds"));
}

TEST_CASE("what is nondeterministic on a device alone, and what mends it there") {
  const auto cause = [](const char* name, const char* device) {
    Trace baseline("baseline");
    Trace candidate("candidate");
    for (Trace* trace : {&baseline, &candidate}) trace->tensor("x", {1, 2});
    baseline.tensor("y", {3, 4});
    candidate.tensor("y", {3, 5});
    for (Trace* trace : {&baseline, &candidate}) {
      for (const char* tensor : {"x", "y"}) trace->json()["tensors"][tensor]["device"] = device;
      trace->op(name, {"x"}, {"y"});
    }
    return cause_of(compare_traces(baseline, candidate));
  };
  for (const char* name : {"aten::lstm",
                           "aten::_cudnn_rnn",
                           "aten::conv2d",
                           "aten::cudnn_convolution",
                           "aten::sum",
                           "aten::linalg_vector_norm",
                           "aten::scatter_add_"}) {
    CAPTURE(name);
    CHECK(cause(name, "cpu").name() == "unexplained");
    CHECK(cause(name, "cuda:0").name() == "nondeterministic kernel");
    CHECK_FALSE(mentions(cause(name, "cuda:0").advice, "threads"));
  }
  CHECK(cause("aten::relu", "cuda:0").name() == "unexplained");
}

TEST_CASE("an argument is mended where it is written") {
  const auto advice =
      [](const char* name, const ordered_json& from, const ordered_json& to, const char* model) {
        return cause_of(compute("aten::layer_norm",
                                {{"scalars", {{name, from}}}},
                                {{"scalars", {{name, to}}}},
                                kNone,
                                {{"model", model}}))
            .advice;
      };
  CHECK(mentions(advice("eps", 1e-5, 1e-6, "other"), "two model files"));
  CHECK(mentions(advice("approximate", "none", "tanh", "other"), "two model files"));
  CHECK(mentions(advice("eps", 1e-5, 1e-6, "model"), "the model computes it"));
  CHECK(mentions(advice("train", true, false, "model"), "\"mode\""));
}

}  // namespace
}  // namespace repro_check::comparators
