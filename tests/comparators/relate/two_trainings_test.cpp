// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comparators/relate/training_judgement.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "core/trace/record_names.h"
#include "tests/support/memory_source.h"

namespace repro_check::comparators {
namespace {

using core::Dtype;
using core::ExitCode;
using Values = std::vector<double>;

Values drawn_numbers(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  Values values(count);
  for (double& each : values) each = normal(generator);
  return values;
}

/// Each number off by about a rounding of float32.
Values rounded(Values values, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, 1e-7);
  for (double& each : values) each *= 1 + normal(generator);
  return values;
}

Values times(Values values, double factor) {
  for (double& each : values) each *= factor;
  return values;
}

struct Matrix {
  std::vector<std::int64_t> shape;
  Values values;
};

/// The rows, or columns, that a rank has of a matrix, by hand.
Matrix part_of(const Matrix& whole, std::size_t axis, std::int64_t place, std::int64_t parts) {
  const std::int64_t columns = whole.shape[1];
  Matrix part{whole.shape, {}};
  part.shape[axis] /= parts;
  const std::int64_t from = part.shape[axis] * place;
  for (std::int64_t row = 0; row < part.shape[0]; ++row) {
    for (std::int64_t column = 0; column < part.shape[1]; ++column) {
      const std::int64_t of_row = row + (axis == 0 ? from : 0);
      const std::int64_t of_column = column + (axis == 1 ? from : 0);
      part.values.push_back(whole.values[static_cast<std::size_t>((of_row * columns) + of_column)]);
    }
  }
  return part;
}

/// A recording of a training of one step.
class Trained {
 public:
  explicit Trained(std::uint32_t ranks = 1) {
    fixture_.manifest.trace.level = "tensor";
    fixture_.manifest.trace.depth = "all";
    if (ranks > 1)
      fixture_.manifest.environment.push_back({std::string(core::kRanks), std::to_string(ranks)});
  }

  Trained& begins_with(const std::string& name, const Matrix& values) {
    core::OpRecord& record = add("aten::linear");
    add_tensor(record, "weight", values).name = "state:" + name;
    return *this;
  }
  Trained& reads(const std::vector<std::int64_t>& halves) {
    core::OpRecord& record = add(core::kBatchRecord);
    core::ValueList list;
    for (const std::int64_t half : halves) list.items.emplace_back().data = half;
    record.arguments.push_back({std::string(core::kSampleDigests), {std::move(list)}});
    return *this;
  }
  Trained& loses(double loss) {
    add_output(add(core::kLossRecord), "loss", {{}, {loss}});
    return *this;
  }
  /// @param values  by slot: `grad.fc.weight`
  Trained& steps(const std::map<std::string, Matrix>& values) {
    core::OpRecord& record = add(core::kStepRecord);
    for (const auto& [slot, of] : values) add_output(record, slot, of);
    return *this;
  }

  [[nodiscard]] std::unique_ptr<core::DumpSource> dump() const {
    return std::make_unique<test_support::MemorySource>(fixture_);
  }

 private:
  core::OpRecord& add(std::string_view name) {
    core::OpRecord& record = fixture_.ops.emplace_back();
    record.index = fixture_.ops.size() - 1;
    record.op =
        std::make_shared<core::OperatorInfo>(core::OperatorInfo{std::string(name), "", false});
    record.site = std::make_shared<core::CallSite>();
    return record;
  }
  core::TensorRecord& add_tensor(core::OpRecord& record,
                                 const std::string& slot,
                                 const Matrix& of) {
    core::TensorRecord& tensor = record.tensors.emplace_back();
    const std::vector<float> numbers(of.values.begin(), of.values.end());
    const auto bytes = std::as_bytes(std::span(numbers));
    tensor.slot = slot;
    tensor.dtype = Dtype::kFloat32;
    tensor.shape = of.shape;
    tensor.state = core::ContentState::kHashed;
    tensor.digest = core::digest_bytes(bytes);
    tensor.stored = true;
    fixture_.contents[tensor.content_key()].assign(bytes.begin(), bytes.end());
    return tensor;
  }
  void add_output(core::OpRecord& record, const std::string& slot, const Matrix& of) {
    add_tensor(record, slot, of).role = core::TensorRole::kOutput;
  }

  test_support::DumpFixture fixture_;
};

Training training_of(std::initializer_list<const Trained*> processes) {
  std::vector<std::unique_ptr<core::DumpSource>> dumps;
  for (const Trained* each : processes) dumps.push_back(each->dump());
  return read_training(std::move(dumps));
}

const Matrix kWeight{{8, 4}, drawn_numbers(32, 1)};
const Matrix kBias{{8}, Values(8)};
const Matrix kGradient{{8, 4}, drawn_numbers(32, 2)};
const Matrix kBiasGradient{{8}, drawn_numbers(8, 3)};
const Matrix kAfter{{8, 4}, drawn_numbers(32, 4)};
const Matrix kBiasAfter{{8}, drawn_numbers(8, 5)};
constexpr double kLoss = 2.5;
const std::vector<std::int64_t> kSamples{1, 2, 3, 4, 5, 6, 7, 8};

Trained single() {
  Trained one;
  one.begins_with("fc.weight", kWeight).begins_with("fc.bias", kBias).reads(kSamples).loses(kLoss);
  one.steps({{"grad.fc.weight", {kGradient.shape, rounded(kGradient.values, 11)}},
             {"grad.fc.bias", {kBiasGradient.shape, rounded(kBiasGradient.values, 12)}},
             {"param.fc.weight", {kAfter.shape, rounded(kAfter.values, 13)}},
             {"param.fc.bias", {kBiasAfter.shape, rounded(kBiasAfter.values, 14)}}});
  return one;
}

/// One of two ranks that has every parameter.
struct Replica {
  std::vector<std::int64_t> samples;
  double factor = 1;
  double bias_factor = 1;
  Matrix begin = kWeight;
  double after = 1;

  [[nodiscard]] Trained trained(unsigned seed) const {
    Trained rank(2);
    rank.begins_with("fc.weight", begin).begins_with("fc.bias", kBias).reads(samples).loses(kLoss);
    rank.steps(
        {{"grad.fc.weight", {{8, 4}, rounded(times(kGradient.values, factor), seed)}},
         {"grad.fc.bias", {{8}, rounded(times(kBiasGradient.values, bias_factor), seed + 1)}},
         {"param.fc.weight", {{8, 4}, rounded(times(kAfter.values, after), seed + 2)}},
         {"param.fc.bias", {{8}, rounded(kBiasAfter.values, seed + 3)}}});
    return rank;
  }
};

TrainingsReport judged(Training a, Training b, const std::vector<std::uint64_t>& cuts = {}) {
  const TwoTrainings both = relate_trainings(std::move(a), std::move(b));
  const std::vector<const comparators::Trained*> wanted = judged_tensors(both);
  const auto shadow = [&](std::size_t i, std::size_t /*output*/) -> Values {
    const comparators::Trained& tensor = *wanted[i];
    Values exact{kLoss};
    if (tensor.kind != TrainedKind::kLoss) {
      const bool is_gradient = tensor.kind == TrainedKind::kGradient;
      const Matrix& weight = is_gradient ? kGradient : kAfter;
      const Matrix& bias = is_gradient ? kBiasGradient : kBiasAfter;
      exact = tensor.content.shape.size() == 1 ? bias.values : weight.values;
    }
    return exact;
  };
  return judge_trainings(both, 0.9, shadow, cuts);
}

TrainingsReport judged(const Replica& first, const Replica& second) {
  const Trained one = single();
  const Trained rank0 = first.trained(20);
  const Trained rank1 = second.trained(30);
  return judged(training_of({&one}), training_of({&rank0, &rank1}));
}

const Replica kFirst{{1, 2, 3, 4}};
const Replica kSecond{{5, 6, 7, 8}};

const FieldValue* field(const Finding& finding, std::string_view name) {
  for (const Field& each : finding.fields) {
    if (each.name == name) return &each.value;
  }
  return nullptr;
}

TEST_CASE("ranks that train as one process does agree") {
  const TrainingsReport report = judged(kFirst, kSecond);
  CHECK(exit_code_of(report) == ExitCode::kReproducible);
  CHECK(report.judged == std::array<std::uint64_t, kTrainedKinds>{1, 0, 2, 0, 2});
  CHECK(report.are_samples_known);
  CHECK(report.worst.ratio < 4);
}

TEST_CASE("a gradient that is a factor off is said with the factor") {
  Replica first = kFirst;
  Replica second = kSecond;
  first.factor = second.factor = first.bias_factor = second.bias_factor = 2;
  const TrainingsReport report = judged(first, second);
  REQUIRE(report.has_diverged());
  CHECK(report.findings.front().id == FindingId::kTrainingGradientScaled);
  CHECK(std::get<double>(*field(report.findings.front(), "factor")) == doctest::Approx(2));
  CHECK(std::get<std::int64_t>(*field(report.findings.front(), "count")) == 2);
}

TEST_CASE("a gradient of which each rank has a part is told from a scaled one") {
  Replica first = kFirst;
  Replica second = kSecond;
  first.bias_factor = 0.25;
  second.bias_factor = 0.75;
  const TrainingsReport report = judged(first, second);
  REQUIRE(report.has_diverged());
  REQUIRE(report.findings.size() == 1);
  const Finding& finding = report.findings.front();
  CHECK(finding.id == FindingId::kTrainingGradientPartial);
  CHECK(finding.where.tensor == "fc.bias");
  CHECK(finding.where.step == 0U);
  CHECK(std::get<double>(*field(finding, "summed")) == 1);
}

TEST_CASE("what comes first leads") {
  Replica other = kSecond;
  other.samples = {5, 6, 7, 9};
  other.factor = 3;
  TrainingsReport report = judged(kFirst, other);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings.front().id == FindingId::kTrainingReadsOther);
  other.begin.values[3] += 1;
  report = judged(kFirst, other);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings.front().id == FindingId::kTrainingStartsElsewhere);
  CHECK(std::get<RankList>(*field(report.findings.front(), "ranks")) == RankList{1});
  Replica late = kSecond;
  late.after = 1.01;
  report = judged(kFirst, late);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings.front().id == FindingId::kTrainingStepBeyond);
}

TEST_CASE("a number that is none is beyond every floor") {
  const Trained one = single();
  const Trained rank0 = kFirst.trained(20);
  Replica other = kSecond;
  other.after = std::numeric_limits<double>::quiet_NaN();
  Trained rank1 = other.trained(30);
  TrainingsReport report = judged(training_of({&one}), training_of({&rank0, &rank1}));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings.front().id == FindingId::kTrainingStepBeyond);
  other = kSecond;
  other.factor = std::numeric_limits<double>::infinity();
  rank1 = other.trained(30);
  report = judged(training_of({&one}), training_of({&rank0, &rank1}));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings.front().id == FindingId::kTrainingGradientBeyond);
}

TEST_CASE("another seed is not comparable") {
  Replica first = kFirst;
  Replica second = kSecond;
  first.begin.values = second.begin.values = drawn_numbers(32, 9);
  const TrainingsReport report = judged(first, second);
  CHECK(report.no_verdict == NoVerdict::kNothingRelated);
  CHECK(exit_code_of(report) == ExitCode::kNotComparable);
}

TEST_CASE("parts of parameters are found by their place, and by their values") {
  // Of the bias, all zeros, the name alone says which part it is.
  const auto rank = [](std::int64_t place, const std::string& mark, const std::string& bias) {
    Trained trained(2);
    const Matrix begin = part_of(kWeight, 1, place, 2);
    const Matrix gradient = part_of(kGradient, 1, place, 2);
    const Matrix after = part_of(kAfter, 1, place, 2);
    trained.begins_with("fc.weight" + mark, begin).begins_with("fc.bias" + bias, {{4}, Values(4)});
    trained.reads(kSamples).loses(kLoss);
    const auto half = [&](const Values& all) {
      return Matrix{{4}, Values(all.begin() + (4 * place), all.begin() + (4 * place) + 4)};
    };
    trained.steps({{"grad.fc.weight" + mark, gradient},
                   {"grad.fc.bias" + bias, half(kBiasGradient.values)},
                   {"param.fc.weight" + mark, after},
                   {"param.fc.bias" + bias, half(kBiasAfter.values)}});
    return trained;
  };
  const Trained one = single();
  for (const bool is_marked : {true, false}) {
    const auto mark = [&](int axis, int place) {
      return is_marked || axis == 0
                 ? "@" + std::to_string(axis) + ":" + std::to_string(place) + "/2"
                 : std::string();
    };
    const Trained rank0 = rank(0, mark(1, 0), mark(0, 0));
    const Trained rank1 = rank(1, mark(1, 1), mark(0, 1));
    const TrainingsReport report = judged(training_of({&one}), training_of({&rank0, &rank1}));
    CHECK(exit_code_of(report) == ExitCode::kReproducible);
    CHECK(report.judged[static_cast<std::size_t>(TrainedKind::kGradient)] == 2);
    CHECK(report.unjudged == 0);
  }
}

TEST_CASE("behind an operator without float64 a distance is no proof, and a factor is") {
  const Trained one = single();
  Replica other = kSecond;
  other.after = 1.01;
  const Trained rank0 = kFirst.trained(20);
  const Trained late = other.trained(30);
  CHECK(judged(training_of({&one}), training_of({&rank0, &late}), {0}).no_verdict ==
        NoVerdict::kBehindCut);
  Replica first = kFirst;
  first.factor = other.factor = first.bias_factor = other.bias_factor = 2;
  const Trained scaled0 = first.trained(20);
  const Trained scaled1 = other.trained(30);
  CHECK(judged(training_of({&one}), training_of({&scaled0, &scaled1}), {0}).has_diverged());
}

TEST_CASE("a training that is not whole is refused") {
  const Trained rank0 = kFirst.trained(20);
  CHECK_THROWS_AS(training_of({&rank0}), core::Error);
  Trained no_step;
  no_step.begins_with("fc.weight", kWeight).loses(kLoss);
  CHECK_THROWS_AS(training_of({&no_step}), core::Error);
}

}  // namespace
}  // namespace repro_check::comparators
