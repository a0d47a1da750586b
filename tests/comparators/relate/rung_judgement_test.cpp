// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/rung_judgement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/trace/record_names.h"
#include "tests/support/memory_source.h"

namespace repro_check::comparators {
namespace {

using core::CompileRung;
using Values = std::vector<double>;

constexpr double kOneRounding = 1e-7;

Values multiplied(Values values, double factor) {
  for (double& each : values) each *= factor;
  return values;
}

/// A recording of one call of a region: an input, an operator `gelu` inside, an output that it
/// gives, and the gradient of that.
class Recorded {
 public:
  struct What {
    Values node = {0.5, -2, 3};  ///< empty = no operator was recorded
    Values output = {0.5, -2, 3};
    bool has_gradient = true;
    std::string graph = "cafe";
    bool draws = false;
    std::int64_t index = 3;  ///< an integer that the region returns as well
  };

  explicit Recorded(const What& what) : graph_(what.graph) {
    fixture_.manifest.trace.level = "tensor";
    tensor(begin(core::kRegionInputsRecord), "input[L_x_]", {1, 2, 3});
    fixture_.ops.back().arguments.push_back(text(core::kRegionFunction, "forward"));
    begin("aten::gelu");
    if (what.draws) fixture_.ops.back().generator.emplace();
    if (!what.node.empty()) {
      tensor(begin(core::kRegionNodeRecord), std::string(core::kNodeValues), what.node);
      for (const auto& [name, value] : {std::pair(core::kRegionNode, "gelu_1"),
                                        std::pair(core::kRegionOperator, "gelu"),
                                        std::pair(core::kRegionModule, "mlp.act")}) {
        fixture_.ops.back().arguments.push_back(text(name, value));
      }
      place("/a/model.py:40");
    }
    tensor(begin(core::kRegionRecord), "output[0]", what.output);
    fixture_.ops.back().arguments.push_back(
        text(std::string(core::kRegionMaker) + "output[0]", "gelu_1"));
    add(fixture_.ops.back(),
        "output[1]",
        core::Dtype::kInt64,
        std::as_bytes(std::span(&what.index, 1)),
        {});
    if (!what.has_gradient) return;
    tensor(begin(core::kRegionGradientRecord), std::string(core::kGradientValues), {1, 1, 1});
    fixture_.ops.back().arguments.push_back(text(core::kRegionOf, "output[0]"));
  }

  [[nodiscard]] RegionSide side() const {
    return read_regions(std::make_unique<test_support::MemorySource>(fixture_));
  }

 private:
  static core::Argument text(std::string_view name, std::string value) {
    core::Argument argument{std::string(name), {}};
    argument.value.data = std::move(value);
    return argument;
  }
  void place(const char* line) {
    fixture_.ops.back().arguments.push_back(text(core::kRegionLine, line));
  }
  core::OpRecord& begin(std::string_view name) {
    core::OpRecord& record = fixture_.ops.emplace_back();
    record.index = fixture_.ops.size() - 1;
    record.op =
        std::make_shared<core::OperatorInfo>(core::OperatorInfo{std::string(name), "", false});
    record.site = std::make_shared<core::CallSite>();
    record.arguments.push_back(text(core::kRegionGraph, graph_));
    return record;
  }
  void tensor(core::OpRecord& record, const std::string& slot, const Values& values) {
    const std::vector<float> numbers(values.begin(), values.end());
    add(record,
        slot,
        core::Dtype::kFloat32,
        std::as_bytes(std::span(numbers)),
        {static_cast<std::int64_t>(values.size())});
  }
  void add(core::OpRecord& record,
           const std::string& slot,
           core::Dtype dtype,
           std::span<const std::byte> bytes,
           std::vector<std::int64_t> shape) {
    core::TensorRecord& added = record.tensors.emplace_back();
    added.slot = slot;
    added.role = core::TensorRole::kOutput;
    added.dtype = dtype;
    added.shape = std::move(shape);
    added.state = core::ContentState::kHashed;
    added.digest = core::digest_bytes(bytes);
    added.stored = true;
    fixture_.contents[added.content_key()].assign(bytes.begin(), bytes.end());
  }

  std::string graph_;
  test_support::DumpFixture fixture_;
};

RungReport judged_rung(const Recorded::What& a,
                       const Recorded::What& b,
                       CompileRung rung,
                       const std::vector<std::uint64_t>& cuts = {}) {
  const RegionSide one = Recorded(a).side();
  const RegionSide other = Recorded(b).side();
  const TwoRungs rungs = pair_rungs(one, other);
  const std::vector<const RegionTensor*> wanted = judged_tensors(rungs);
  const auto shadow = [&](std::size_t i, std::size_t /*output*/) -> Values {
    if (wanted[i]->role == RegionRole::kInput) return {1, 2, 3};
    if (wanted[i]->role == RegionRole::kGradient) return {1, 1, 1};
    return {0.5, -2, 3};
  };
  return judge_rung(rungs, rung, shadow, cuts);
}

Recorded::What compiled(double factor) {
  Recorded::What what;
  what.node.clear();
  what.output = multiplied(what.output, factor);
  return what;
}

}  // namespace

TEST_CASE("rounding on a rung is within the floor, and another function beyond it") {
  const RungReport near = judged_rung({}, compiled(1 + kOneRounding), CompileRung::kInductor);
  CHECK(near.no_verdict == NoVerdict::kNone);
  CHECK_FALSE(near.has_diverged());
  CHECK(near.judged == 4);
  CHECK(near.equal == 3);
  CHECK(near.worst > 0);
  CHECK(near.worst < kRungBound);

  const RungReport far = judged_rung({}, compiled(1.001), CompileRung::kInductor);
  REQUIRE(far.has_diverged());
  const Finding& finding = far.findings.front();
  CHECK(finding.id == FindingId::kCompiledKernelBeyond);
  CHECK(finding.where.line == "model.py:40");
  CHECK(finding.where.tensor == "output[0]");
}

TEST_CASE("on a rung without generated code the operator inside comes first") {
  Recorded::What other;
  other.node = multiplied(other.node, 1.001);
  other.output = other.node;
  for (const auto& [rung, id] :
       {std::pair(CompileRung::kAotEager, FindingId::kCompiledAutogradBeyond),
        std::pair(CompileRung::kAotEagerDecomposed, FindingId::kCompiledDecompositionBeyond)}) {
    const RungReport report = judged_rung({}, other, rung);
    REQUIRE(report.has_diverged());
    CHECK(report.findings.front().id == id);
    CHECK(report.findings.front().where.tensor == "gelu_1");
  }
}

TEST_CASE("NaN that one rung alone has is beyond the floor") {
  CHECK(judged_rung({}, compiled(std::numeric_limits<double>::quiet_NaN()), CompileRung::kInductor)
            .has_diverged());
}

TEST_CASE("what draws is no fault as written, and one where eager PyTorch draws") {
  Recorded::What drawing;
  drawing.draws = true;
  const RungReport written = judged_rung(drawing, compiled(2), CompileRung::kAsWritten);
  REQUIRE(written.has_diverged());
  CHECK(written.findings.front().id == FindingId::kCompiledDrawsItsOwn);
  CHECK(written.findings.front().weight == Finding::Weight::kNote);
  const RungReport inductor = judged_rung(drawing, compiled(2), CompileRung::kInductor);
  CHECK(inductor.findings.front().id == FindingId::kCompiledKernelBeyond);
}

TEST_CASE("nothing is said of other regions, integers, cuts, or nothing at all") {
  Recorded::What other = compiled(2);
  other.graph = "beef";
  CHECK(judged_rung({}, other, CompileRung::kInductor).no_verdict == NoVerdict::kOtherInputs);

  other = compiled(1);
  other.has_gradient = false;
  const RungReport missing = judged_rung({}, other, CompileRung::kInductor);
  CHECK(missing.no_verdict == NoVerdict::kOtherInputs);
  CHECK(missing.undecided == "gradient of output[0]");

  other = compiled(1);
  other.index = 4;
  const RungReport integer = judged_rung({}, other, CompileRung::kInductor);
  CHECK(integer.no_verdict == NoVerdict::kNoMeasure);
  CHECK(integer.undecided == "output[1]");

  const RungReport cut = judged_rung({}, compiled(2), CompileRung::kInductor, {1});
  CHECK(cut.no_verdict == NoVerdict::kBehindCut);
  CHECK_FALSE(cut.has_diverged());
}

TEST_CASE("an operator that alone is at fault takes the place of the output") {
  const RegionSide side = Recorded({}).side();
  RungReport report = judged_rung({}, compiled(2), CompileRung::kInductor);
  blame_operator(side.regions.at("cafe"), "gelu_1", "own::gelu", report.findings.front());
  const auto& fields = report.findings.front().fields;
  const auto operation = std::ranges::find(fields, "operator", &Field::name);
  CHECK(std::get<std::string>(operation->value) == "own::gelu");
  CHECK(std::ranges::count(fields, "place", &Field::name) == 1);
}

}  // namespace repro_check::comparators
