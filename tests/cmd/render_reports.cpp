// SPDX-License-Identifier: Apache-2.0
#include "tests/cmd/render_reports.h"

#include <limits>
#include <utility>

#include "cmd/words/causes.h"
#include "comparators/measure/records.h"
#include "tests/cmd/render_builders.h"

namespace repro_check::tests {
namespace {

using comparators::Cause;
using comparators::DivergenceKind;
using comparators::OpDivergence;
using comparators::Relation;
using comparators::Report;
using comparators::Status;
using comparators::TensorComparison;
using comparators::TensorMetrics;
using comparators::TensorOutcome;
using core::Dtype;

Report diverged_origin() {
  Report out = base(Status::kDiverged, DivergenceKind::kOrigin);
  set_diverged(out.coverage, 2, 429);
  out.first_divergence = first_origin();
  OpDivergence second = first_origin();
  second.baseline_index = second.candidate_index = 137;
  second.baseline = second.candidate =
      record(137, "aten::addmm", {"encoder.layers.9.linear1", "model.py", 123});
  out.divergences = {
      propagated(42, "aten::gelu", 1e-7), second, propagated(489, "aten::_log_softmax", 8.106e-05)};
  out.divergences_total = 431;
  return out;
}

Report pass(bool within) {
  Report out = base(Status::kReproducible, DivergenceKind::kNone);
  if (within) {
    out.coverage.equal = 455;
    out.coverage.within_policy = 36;
    out.policy = "tolerance, dtype defaults of assert_close";
    out.policy_kind = configs::PolicyKind::kTolerance;
    out.first_bit_difference = 41;
    out.draws = {3, {"cpu"}, {1234}, {}, {}};
  }
  return out;
}

Report from_weights() {
  Report out = base(Status::kDiverged, DivergenceKind::kWeights);
  set_diverged(out.coverage, 0, 450);
  out.differences.clear();
  comparators::NamedTensorDifference weight;
  weight.kind = core::NamedTensorKind::kParameter;
  weight.name = "encoder.layers.3.linear1.weight";
  weight.baseline = {5, 6};
  weight.candidate = {5, 7};
  weight.metrics = float_metrics();
  weight.metrics->elements = 262144;
  weight.metrics->n_diff = weight.metrics->n_beyond = 1;
  weight.metrics->ulp_max = 1;
  weight.samples = {float_samples().front()};
  out.named_tensors = {weight};
  out.first_divergence = first_origin();
  out.first_divergence->relation = Relation::kPropagated;
  out.first_divergence->cause =
      Cause{comparators::CauseKind::kWeights,
            {told("no operator made a difference; the runs had different models")},
            told("load the same checkpoint")};
  out.divergences = {propagated(488, "aten::_log_softmax", 3.1e-05)};
  out.divergences_total = 450;
  return out;
}

Report from_inputs() {
  Report out = base(Status::kDiverged, DivergenceKind::kInputs);
  out.differences.clear();
  comparators::NamedTensorDifference input;
  input.name = "tokens";
  input.baseline = input.candidate = {3, 4};
  input.note = {cmd::as_said("shape differs: [2, 16] against [2, 17]")};
  out.named_tensors = {input};
  return out;
}

Report parted() {
  Report out = base(Status::kDiverged, DivergenceKind::kControlFlow);
  out.coverage.candidate_ops = 402;
  out.coverage.compared = out.coverage.equal = 213;
  out.coverage.missing_in_candidate = 278;
  out.coverage.missing_in_baseline = 189;
  comparators::ControlFlow parting;
  parting.last_common_baseline = 212;
  parting.last_common_candidate = 212;
  parting.last_common = record(212, "aten::gt", {"decoder", "generate.py", 88});
  parting.baseline_next = "aten::slice";
  parting.candidate_next = "aten::cat";
  parting.unmatched_baseline = 278;
  parting.unmatched_candidate = 189;
  out.control_flow = parting;
  OpDivergence only =
      divergence(213, "aten::slice", {"decoder.head", "generate.py", 90}, Relation::kMissing);
  only.kind = DivergenceKind::kControlFlow;
  only.candidate_index.reset();
  only.candidate = {};
  only.cause =
      Cause{comparators::CauseKind::kControlFlow,
            {told("the baseline ran 278 operators that the candidate did not, and the candidate "
                  "189 others; op 212 aten::gt (decoder) said True | False; all operators before "
                  "it agree")},
            told("look at the branch: another graph or version, a value of the host, or random "
                 "numbers")};
  out.first_divergence = only;
  out.divergences_total = 467;
  return out;
}

Report missing() {
  Report out = base(Status::kDiverged, DivergenceKind::kMissing);
  out.coverage.compared = out.coverage.equal = 490;
  out.coverage.missing_in_baseline = out.coverage.missing_in_candidate = 1;
  OpDivergence lost = divergence(
      57, "aten::dropout", {"encoder.layers.4.drop", "model.py", 140}, Relation::kMissing);
  lost.candidate_index.reset();
  lost.candidate = {};
  OpDivergence extra = divergence(
      91, "aten::contiguous", {"encoder.layers.6.attn", "model.py", 97}, Relation::kMissing);
  extra.baseline_index.reset();
  extra.baseline = {};
  out.first_divergence = lost;
  out.divergences = {extra};
  out.divergences_total = 2;
  return out;
}

Report mismatch() {
  Report out = base(Status::kDiverged, DivergenceKind::kMismatch);
  out.coverage.mismatched = 1;
  out.coverage.origins = 1;
  out.coverage.equal = 490;
  OpDivergence op = divergence(41, "aten::addmm", kLinear, Relation::kMismatch);
  TensorComparison output = tensor(Dtype::kFloat32, {8, 512}, TensorOutcome::kMismatch);
  output.candidate.dtype = Dtype::kFloat16;
  output.note = {cmd::as_said("dtype differs: float32 against float16")};
  op.outputs = {output};
  op.cause = Cause{comparators::CauseKind::kMismatch,
                   {},
                   told("use the same autocast setting and the same model in both runs")};
  out.first_divergence = op;
  out.divergences_total = 1;
  return out;
}

// Bits alone tell a NaN from a NaN, and integers beyond 2^53 are not to be rounded.
Report unusual_numbers(bool integers) {
  Report out = base(Status::kDiverged, DivergenceKind::kOrigin);
  out.coverage.equal = 490;
  out.coverage.diverged = out.coverage.origins = 1;
  OpDivergence op = divergence(0, "aten::mul", {"", "model.py", 7}, Relation::kOrigin);
  TensorComparison output =
      tensor(integers ? Dtype::kInt64 : Dtype::kFloat32, {3}, TensorOutcome::kBeyond);
  TensorMetrics m;
  m.elements = 3;
  m.n_diff = m.n_beyond = integers ? 1 : 3;
  m.first_diff = m.first_beyond = 0;
  if (integers) {
    m.n_finite = 3;
    m.max_abs = 18446744073709551616.0;
    m.max_abs_exact = 18446744073709551615U;
    m.max_rel = 2.0;
    output.samples = {{0,
                       {0},
                       "-9223372036854775808",
                       "9223372036854775807",
                       "8000000000000000",
                       "7fffffffffffffff",
                       std::nullopt}};
  } else {
    m.nan_baseline = 1;
    m.inf_candidate = 1;
    m.nan_both_payload = 1;
    m.max_rel = std::numeric_limits<double>::infinity();
    m.rtol_needed = m.atol_needed = std::numeric_limits<double>::infinity();
    m.cosine = std::numeric_limits<double>::quiet_NaN();
    output.samples = {{0, {0}, "nan", "1", "7fc00000", "3f800000", std::nullopt},
                      {1, {1}, "3", "inf", "40400000", "7f800000", std::nullopt},
                      {2, {2}, "nan", "nan", "7fc00000", "ffc00000", std::nullopt}};
  }
  output.metrics = m;
  output.note = comparators::describe_metrics(m);
  op.outputs = {output};
  op.severity = std::numeric_limits<double>::infinity();
  out.first_divergence = op;
  out.divergences_total = 1;
  return out;
}

Report digest_only() {
  Report out = diverged_origin();
  out.divergences.clear();
  out.divergences_total = 1;
  set_diverged(out.coverage, 1, 0);
  auto& output = out.first_divergence->outputs.front();
  output.metrics.reset();
  output.samples.clear();
  output.candidate.stored = output.baseline.stored = false;
  for (auto& each : out.runs) {
    each.manifest.trace.level = "digest";
  }
  return out;
}

Report rng() {
  Report out = digest_only();
  out.kind = DivergenceKind::kRng;
  out.differences.clear();
  out.first_divergence->kind = DivergenceKind::kRng;
  out.first_divergence->baseline.generator = core::GeneratorUse{"cpu", 1, 0xAB, 0xCD, 4096};
  out.first_divergence->candidate.generator = core::GeneratorUse{"cpu", 2, 0xEF, 0x12, -1};
  out.first_divergence->cause = Cause{comparators::CauseKind::kRngStream,
                                      {told("the generators were seeded apart: 1 against 2")},
                                      told("give both runs the same seed")};
  for (auto& each : out.runs) {
    each.manifest.trace.level = "tensor";
  }
  return out;
}

Report trouble(Status status, std::string reason, std::string mend) {
  Report out = base(status, DivergenceKind::kNone);
  out.coverage = {};
  out.coverage.baseline_ops = out.coverage.candidate_ops = 491;
  out.differences.clear();
  out.reasons = {cmd::as_said(std::move(reason))};
  out.mend = cmd::as_said(std::move(mend));
  return out;
}

Report not_comparable() {
  Report out =
      trouble(Status::kNotComparable,
              "candidate was recorded at level \"digest\", policy \"tolerance\" needs tensors",
              "record with dump.level \"tensor\", or compare with policy \"bitwise\"");
  out.runs[1].manifest.trace.level = "digest";
  out.coverage.not_judged = 491;
  return out;
}

Report damaged() {
  Report out = trouble(Status::kDamaged,
                       "candidate/trace.h5, op 41 output 0: stored bytes do not match their digest",
                       "record again and check the disk; this is not a divergence");
  out.runs[1].status = "damaged";
  out.coverage.compared = out.coverage.equal = 490;
  out.coverage.not_judged = 1;
  return out;
}

Report incomplete() {
  Report out = trouble(Status::kIncomplete,
                       "candidate was never finished: it stopped after op 212 aten::gt",
                       "record it again");
  out.runs[1] = {};
  out.runs[1].name = "candidate";
  out.runs[1].location = "repro-check-out/candidate";
  out.runs[1].status = "incomplete";
  out.runs[1].last_op = 212;
  out.coverage = {};
  return out;
}

Report run_failed() {
  Report out = trouble(Status::kRunFailed,
                       "candidate was killed by SIGSEGV in op 57 aten::conv2d (backbone.conv1, "
                       "model.py:40)",
                       "");
  out.coverage = {};
  out.runs[1] = {};
  out.runs[1].name = "candidate";
  out.runs[1].location = "repro-check-out/candidate";
  out.runs[1].status = "failed";
  out.runs[1].signal = "SIGSEGV";
  out.runs[1].last_op = 57;
  return out;
}

Report several_at_once() {
  Report out = diverged_origin();
  out.status = Status::kDamaged;
  out.also = {Status::kDiverged};
  out.reasons = {
      cmd::as_said("candidate/trace.h5, op 212 output 0: stored bytes do not match their digest")};
  out.mend = cmd::as_said("record again and check the disk");
  out.runs[1].status = "damaged";
  return out;
}

Report hostile() {
  Report out = diverged_origin();
  const Place place{
      "encoder\x1b[31m.\xe2\x80\xaelayer\n::error file=x::pwned", "##[group]\xff.py", 1};
  out.first_divergence->baseline = record(41, "evil::op\r\n::warning::x", place);
  out.first_divergence->candidate = out.first_divergence->baseline;
  out.divergences.clear();
  out.divergences_total = 1;
  set_diverged(out.coverage, 1, 0);
  out.runs[1].name = "candi'date $(reboot)\x07";
  out.runs[1].location = "out/it's $(reboot)";
  out.warnings = {cmd::as_said("::set-output name=x::y"),
                  cmd::as_said("a warning ##vso[task.complete]")};
  return out;
}

}  // namespace

std::vector<NamedReport> handmade_reports() {
  cmd::RenderOptions with_config;
  with_config.config_path = "config.json";
  with_config.hdf5_version = "1.10.8";
  cmd::RenderOptions verbose = with_config;
  verbose.verbosity = 1;
  cmd::RenderOptions quiet;
  quiet.verbosity = -1;
  cmd::RenderOptions with_log = with_config;
  with_log.logs = {{},
                   {"repro-check-out/candidate.log", "OMP: Error #15: Initializing libiomp5.so"}};
  cmd::RenderOptions everything;
  everything.all = true;
  return {{"reproducible", pass(false), with_config},
          {"reproducible_within", pass(true), {}},
          {"diverged_origin", diverged_origin(), with_config},
          {"diverged_origin_all", diverged_origin(), everything},
          {"diverged_origin_quiet", diverged_origin(), quiet},
          {"diverged_origin_verbose", diverged_origin(), verbose},
          {"diverged_weights", from_weights(), with_config},
          {"diverged_inputs", from_inputs(), with_config},
          {"diverged_control_flow", parted(), {}},
          {"diverged_missing", missing(), {}},
          {"diverged_mismatch", mismatch(), {}},
          {"diverged_nan", unusual_numbers(false), {}},
          {"diverged_int64", unusual_numbers(true), {}},
          {"diverged_digest_only", digest_only(), with_config},
          {"diverged_rng", rng(), with_config},
          {"not_comparable", not_comparable(), with_config},
          {"nothing_compared",
           trouble(Status::kNothingCompared, "the two dumps have no operator in common", ""),
           {}},
          {"damaged", damaged(), {}},
          {"damaged_and_diverged", several_at_once(), {}},
          {"incomplete", incomplete(), with_config},
          {"run_failed", run_failed(), with_log},
          {"hostile", hostile(), with_config}};
}

}  // namespace repro_check::tests
