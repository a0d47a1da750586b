// SPDX-License-Identifier: Apache-2.0
#include "tests/cmd/render_builders.h"

#include <memory>
#include <utility>

namespace repro_check::tests {

using comparators::Cause;
using comparators::Coverage;
using comparators::DivergenceKind;
using comparators::OpDivergence;
using comparators::Relation;
using comparators::Report;
using comparators::RunSummary;
using comparators::Sample;
using comparators::Status;
using comparators::TensorComparison;
using comparators::TensorMetrics;
using comparators::TensorOutcome;
using core::Dtype;

namespace {

RunSummary run(const std::string& name, const std::string& threads) {
  RunSummary out;
  out.name = name;
  out.location = std::string("repro-check-out/").append(name);
  out.manifest.created = "2026-01-01T00:00:00Z";
  out.manifest.run_name = name;
  out.manifest.seed = 1234;
  out.manifest.seconds = 0.5;
  out.manifest.model_digest = {1, 2};
  out.manifest.settings = {{"threads.intra_op", "2", threads},
                           {"deterministic_algorithms", "off", "off"}};
  out.manifest.environment = {{"libtorch.version", "2.13.0"}};
  out.manifest.named_tensors = {
      {core::NamedTensorKind::kInput, "tokens", Dtype::kInt64, {2, 16}, {3, 4}},
      {core::NamedTensorKind::kParameter,
       "encoder.layers.3.linear1.weight",
       Dtype::kFloat32,
       {512, 512},
       {5, name == "baseline" ? 6U : 7U}}};
  out.manifest.trace.operators = 491;
  return out;
}

Coverage whole_coverage() {
  Coverage c;
  c.baseline_ops = 491;
  c.candidate_ops = 491;
  c.compared = 491;
  c.equal = 491;
  c.tensors = 1204;
  c.elements = 375000000;
  c.bytes = 1500000000;
  return c;
}

}  // namespace

const Place kLinear{"encoder.layers.3.linear1", "/home/ann/project/model.py", 123};

core::OpRecord record(std::uint64_t index, const std::string& name, const Place& place) {
  core::OpRecord out;
  out.index = index;
  out.op = std::make_shared<core::OperatorInfo>(core::OperatorInfo{name, "", false});
  core::CallSite site;
  site.module_path = place.module;
  if (!place.file.empty()) {
    site.frames = {{"/opt/torch/nn/modules/linear.py", 134, "forward"},
                   {place.file, place.line, "forward"}};
  }
  out.site = std::make_shared<core::CallSite>(std::move(site));
  return out;
}

OpDivergence divergence(std::uint64_t index,
                        const std::string& name,
                        const Place& place,
                        Relation relation) {
  OpDivergence out;
  out.baseline_index = index;
  out.candidate_index = index;
  out.baseline = record(index, name, place);
  out.candidate = record(index, name, place);
  out.relation = relation;
  return out;
}

TensorComparison tensor(Dtype dtype, std::vector<std::int64_t> shape, TensorOutcome outcome) {
  TensorComparison out;
  out.baseline.role = core::TensorRole::kOutput;
  out.baseline.slot = std::string("0");
  out.baseline.dtype = dtype;
  out.baseline.shape = std::move(shape);
  out.baseline.state = core::ContentState::kHashed;
  out.baseline.digest = {0x0123456789abcdef, 0xfedcba9876543210};
  out.baseline.stored = true;
  out.candidate = out.baseline;
  out.candidate.digest.low = 1;
  out.outcome = outcome;
  return out;
}

TensorMetrics float_metrics() {
  TensorMetrics m;
  m.elements = 4096;
  m.n_diff = 3;
  m.n_beyond = 3;
  m.n_finite = 4096;
  m.first_diff = 17;
  m.first_beyond = 17;
  m.max_abs = 2.384185791015625e-07;
  m.max_abs_index = 1937;
  m.mean_abs = 1.2e-10;
  m.max_rel = 1.4643e-07;
  m.max_rel_index = 1937;
  m.max_rel_finite = 1.4643e-07;
  m.mean_rel = 8.1e-11;
  m.ulp_max = 2;
  m.ulp_mean = 1.3333333333333333;
  m.rmse = 4.6e-09;
  m.l2_rel = 3.9e-09;
  m.cosine = 1.0;
  m.norm_ratio = 1.0;
  m.within_1e3 = 1.0;
  m.within_5e3 = 1.0;
  m.rtol_needed = 1.4643e-07;
  m.atol_needed = 2.384185791015625e-07;
  return m;
}

std::vector<Sample> float_samples() {
  return {
      {17, {0, 17}, "1.366584", "1.3665841", "3faeec39", "3faeec3a", 1},
      {1937, {3, 401}, "-0.8142025", "-0.8142026", "bf506f93", "bf506f95", 2},
      {3617, {7, 33}, "2.041771", "2.0417707", "4002ac60", "4002ac5f", 1},
  };
}

void set_diverged(Coverage& c, std::uint64_t origins, std::uint64_t propagated) {
  c.origins = origins;
  c.propagated = propagated;
  c.diverged = origins + propagated;
  c.equal = c.compared - c.diverged;
}

Report base(Status status, DivergenceKind kind) {
  Report out;
  out.status = status;
  out.kind = kind;
  out.runs = {run("baseline", "2"), run("candidate", "1")};
  out.coverage = whole_coverage();
  out.policy = "bitwise, NaN equals NaN";
  out.policy_kind = configs::PolicyKind::kBitwise;
  out.differences = {{"threads.intra_op", "2", "1", true}};
  out.seconds = 0.25;
  return out;
}

OpDivergence first_origin() {
  OpDivergence out = divergence(41, "aten::addmm", kLinear, Relation::kOrigin);
  TensorComparison output = tensor(Dtype::kFloat32, {8, 512}, TensorOutcome::kBeyond);
  output.metrics = float_metrics();
  output.samples = float_samples();
  out.outputs = {output};
  out.cause = Cause{comparators::CauseKind::kThreads,
                    {comparators::Phrase("inputs-equal"),
                     comparators::Phrase("suspects",
                                         {{"suspects", std::vector<std::string>{"threads 2 -> 1"}},
                                          {"is_only", true}})},
                    comparators::Phrase("value-note",
                                        {{"value",
                                          "use the same number of threads, or accept it with "
                                          "policy \"tolerance\""}})};
  return out;
}

OpDivergence propagated(std::uint64_t index, const std::string& name, double max_abs) {
  OpDivergence out =
      divergence(index, name, {"head", "/home/ann/project/model.py", 201}, Relation::kPropagated);
  TensorComparison output = tensor(Dtype::kFloat32, {8, 512}, TensorOutcome::kBeyond);
  output.metrics = float_metrics();
  output.metrics->max_abs = max_abs;
  out.outputs = {output};
  out.producers = {41};
  out.severity = max_abs;
  return out;
}

}  // namespace repro_check::tests
