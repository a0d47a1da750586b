// SPDX-License-Identifier: Apache-2.0
#include "comparators/report/causes.h"

#include <array>
#include <cstddef>

namespace repro_check::comparators {
namespace {

struct CauseFacts {
  CauseKind kind;
  std::string_view name;
  std::string_view advice;  ///< empty where it depends on the operator
};

constexpr auto kCauses = std::to_array<CauseFacts>({
    {CauseKind::kNone, "", ""},
    {CauseKind::kMode,
     "eval against train",
     "give both runs one \"mode\", \"eval\" or \"train\"; a traced or frozen model keeps the mode "
     "that it was made in"},
    {CauseKind::kInputData,
     "input data",
     "give both runs the same data: look at the file, the seed and the preprocessing of this "
     "input"},
    {CauseKind::kWeights,
     "weights",
     "load the same checkpoint in both runs; look at \"model\", at casts of dtype and at what "
     "changes the weights before the run"},
    {CauseKind::kConstant,
     "constant differs",
     "trace or script the model again, once, with a seed, and use that file in both runs"},
    {CauseKind::kArgument,
     "argument differs",
     "the model computes it: look at what it computes it from, \"inputs\" or a value of the host"},
    {CauseKind::kRngStream, "rng stream", "mend where the stream parted, or set \"rng\": \"host\""},
    {CauseKind::kGeneratorAlgorithm,
     "generator algorithm",
     "set \"rng\": \"host\", so that both draw on the CPU"},
    {CauseKind::kUninitialised,
     "uninitialised memory",
     "fill the tensor in the model (zeros instead of empty); \"determinism\": \"error\" fills "
     "fresh memory where LibTorch can, and shows who reads it"},
    {CauseKind::kRace,
     "race on a tensor in use",
     "wait for the other thread or stream before the tensor is written or read, or give the "
     "operator a clone()"},
    {CauseKind::kFlushToZero,
     "flush to zero",
     "set the same \"settings\": {\"flush_denormal\"} in both runs; a GPU kernel may flush by "
     "itself"},
    {CauseKind::kOverflow,
     "overflow",
     "use a wider \"dtype\", scale the values (loss scale, normalisation), or cast with "
     "saturation"},
    {CauseKind::kTies,
     "ties broken differently",
     "use a stable sort, or do not let the order of equal values matter"},
    {CauseKind::kLayout,
     "layout differs",
     "bring the tensor into one memory format in both runs (contiguous(memory_format))"},
    {CauseKind::kSettings, "settings differ", ""},
    {CauseKind::kEnvironment,
     "environment differs",
     "numbers of two environments agree only within a tolerance: set \"compare\": {\"policy\": "
     "\"tolerance\"}, or give both the same versions and, in \"env\", the same ATEN_CPU_CAPABILITY "
     "and MKL_CBWR"},
    {CauseKind::kThreads, "threads", "set the same \"threads\" in both runs"},
    {CauseKind::kNondeterministicKernel,
     "nondeterministic kernel",
     "set \"determinism\": \"error\", which takes a deterministic kernel or refuses"},
    {CauseKind::kUnexplained,
     "unexplained",
     "record again with \"dump\": {\"depth\": \"all\"} to see the kernel inside, and repeat the "
     "run to see whether it differs each time"},
    {CauseKind::kPropagated, "propagated", "look at where the control flow parted"},
    {CauseKind::kAmplified, "amplified", ""},
    {CauseKind::kUnobservedWrite,
     "unobserved write",
     "look for writes past the dispatcher (`.data`, another stream, custom operators); record with "
     "\"dump\": {\"depth\": \"all\"}"},
    {CauseKind::kOutsideOperators,
     "computed outside of operators",
     "compare how the two programs compute this value: arithmetic on numbers taken out of tensors "
     "is in no trace"},
    {CauseKind::kOtherValue, "another value is returned", "compare what the two programs return"},
    {CauseKind::kOtherStructure,
     "another structure is returned",
     "compare what the two programs return; nothing that the operators made differs"},
    {CauseKind::kDtypePromotion,
     "dtype promotion",
     "bring both runs to one type: the same autocast, the same default dtype, the same \"dtype\" "
     "argument; another LibTorch may promote otherwise"},
    {CauseKind::kMismatch,
     "mismatch",
     "run both with the same \"model\", \"dtype\" and autocast; another LibTorch may return "
     "another type"},
    {CauseKind::kOperatorDiffers,
     "operator differs",
     "compare the model files, and the LibTorch versions of the two runs"},
    {CauseKind::kReordered,
     "reordered",
     "make the order of the calls fixed: it may follow a set, a dict or threads; \"order\": "
     "\"relaxed\" lets it pass where everything is bit-equal"},
    {CauseKind::kDecomposed,
     "decomposed",
     "record both runs with the same LibTorch and the same \"dump\": {\"depth\"}"},
    {CauseKind::kLoop,
     "loop",
     "look at what ends the loop: a value computed by the model, or an input of another length"},
    {CauseKind::kControlFlow,
     "control flow",
     "look at the branch: another graph or version, a value of the host, or random numbers"},
    {CauseKind::kMissing,
     "missing",
     "compare the model files, \"mode\" and \"dump\": {\"depth\"} of the two runs"},
    {CauseKind::kExtra,
     "extra",
     "compare the model files, \"mode\" and \"dump\": {\"depth\"} of the two runs"},
});

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kCauses.size(); ++i) {
    if (kCauses[i].kind != static_cast<CauseKind>(i)) return false;
  }
  return kCauses.back().kind == kLastCause;
}
static_assert(is_in_order());

const CauseFacts& facts(CauseKind kind) { return kCauses.at(static_cast<std::size_t>(kind)); }

}  // namespace

std::string_view cause_name(CauseKind kind) noexcept { return facts(kind).name; }

Cause::Cause(CauseKind kind_, std::string evidence_)
    : Cause(kind_, std::move(evidence_), std::string(facts(kind_).advice)) {}

}  // namespace repro_check::comparators
