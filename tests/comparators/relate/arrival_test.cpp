// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/arrival.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/tensor/element_number.h"
#include "core/trace/program_records.h"
#include "tests/support/memory_source.h"

namespace repro_check::comparators {
namespace {

using core::Dtype;
using core::ExitCode;
using test_support::DumpFixture;
using test_support::MemorySource;

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;

  [[nodiscard]] std::int64_t rows() const { return shape.front(); }
  [[nodiscard]] std::size_t width() const {
    return values.size() / static_cast<std::size_t>(rows());
  }
};

Tensor random(std::vector<std::int64_t> shape, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Tensor tensor{std::move(shape), {}};
  tensor.values.resize(static_cast<std::size_t>(core::element_count(tensor.shape)));
  std::ranges::generate(tensor.values, [&] { return normal(generator); });
  return tensor;
}

Tensor full(std::vector<std::int64_t> shape, float value) {
  Tensor tensor{std::move(shape), {}};
  tensor.values.assign(static_cast<std::size_t>(core::element_count(tensor.shape)), value);
  return tensor;
}

Tensor turned(const Tensor& of) {
  Tensor out{{of.shape[1], of.shape[0]}, std::vector<float>(of.values.size())};
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(of.shape[0]);
    const std::size_t column = i % static_cast<std::size_t>(of.shape[0]);
    out.values[i] = of.values[(column * static_cast<std::size_t>(of.shape[1])) + row];
  }
  return out;
}

Tensor cut(const Tensor& of, std::int64_t begin, std::int64_t end) {
  Tensor out{of.shape, {}};
  out.shape[0] = end - begin;
  const auto width = static_cast<std::ptrdiff_t>(of.width());
  out.values.assign(of.values.begin() + (begin * width), of.values.begin() + (end * width));
  return out;
}

Tensor joined(const std::vector<Tensor>& parts) {
  Tensor out = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    out.shape[0] += parts[i].shape[0];
    out.values.insert(out.values.end(), parts[i].values.begin(), parts[i].values.end());
  }
  return out;
}

/// A recording in which weights are read, step by step.
class Program {
 public:
  explicit Program(bool keeps_values = true) : keeps_values_(keeps_values) {}

  Program& has(const std::string& name,
               const Tensor& tensor,
               std::uint32_t step = 0,
               Dtype dtype = Dtype::kFloat32) {
    const auto plain = std::as_bytes(std::span(tensor.values));
    std::vector<std::byte> bytes = core::converted(Dtype::kFloat32, plain, dtype);
    core::OpRecord& record = fixture_.ops.emplace_back();
    record.index = fixture_.ops.size() - 1;
    record.step = step;
    record.op = std::make_shared<core::OperatorInfo>(core::OperatorInfo{"aten::linear", "", false});
    core::TensorRecord& read = record.tensors.emplace_back();
    read.slot = "weight";
    read.name = "state:" + name;
    read.dtype = dtype;
    read.shape = tensor.shape;
    read.state = core::ContentState::kHashed;
    read.digest = core::digest_bytes(bytes);
    read.stored = keeps_values_;
    if (keeps_values_) fixture_.contents[read.content_key()] = std::move(bytes);
    return *this;
  }

  [[nodiscard]] std::unique_ptr<core::DumpSource> dump() const {
    return std::make_unique<MemorySource>(fixture_);
  }

 private:
  DumpFixture fixture_;
  bool keeps_values_;
};

WeightSide side(const std::vector<Program>& programs) {
  std::vector<std::unique_ptr<core::DumpSource>> dumps;
  std::vector<std::string> prefixes;
  for (const Program& program : programs) {
    prefixes.push_back(programs.size() > 1 ? "rank " + std::to_string(dumps.size()) + ": " : "");
    dumps.push_back(program.dump());
  }
  return read_weights(std::move(dumps), prefixes);
}

WeightsReport judge(const Program& sender, const Program& receiver) {
  return judge_arrival(side({sender}), side({receiver}), 0.9);
}

std::vector<FindingId> ids(const WeightsReport& report) {
  std::vector<FindingId> out;
  for (const Finding& finding : report.findings) out.push_back(finding.id);
  return out;
}

const Tensor kQ = random({16, 12}, 1);
const Tensor kK = random({8, 12}, 2);
const Tensor kV = random({8, 12}, 3);
const Tensor kHead = random({40, 12}, 4);

Program trainer() {
  Program program;
  program.has("model.q.weight", kQ).has("model.k.weight", kK).has("model.v.weight", kV);
  program.has("model.q.bias", full({16}, 0)).has("model.k.bias", full({8}, 0));
  program.has("model.v.bias", full({8}, 0)).has("model.norm.weight", full({12}, 1));
  program.has("head.weight", kHead);
  return program;
}

}  // namespace

TEST_CASE("weights of other names, put together, turned and cut, are found and proved") {
  Program engine;
  engine.has("qkv.weight", joined({kQ, kK, kV})).has("qkv.bias", full({32}, 0));
  engine.has("norm.gamma", full({12}, 1)).has("head.turned", turned(kHead));
  const WeightsReport report = judge(trainer(), engine);
  CHECK(exit_code_of(report) == ExitCode::kReproducible);
  CHECK(report.count(WeightState::kArrived) == 4);
  CHECK(report.findings.empty());
  CHECK(report.unsent.empty());
  CHECK(report.related == report.elements);
  const RelatedWeight& qkv = report.weights[0].relation;
  REQUIRE(qkv.segments.size() == 3);
  CHECK(qkv.axis == 0);
  CHECK(qkv.segments[1] == Segment{16, 8, 1, 0, 0, 0, Dtype::kUnknown});
  // What has no value of its own goes where its module goes.
  REQUIRE(report.weights[1].relation.segments.size() == 3);
  CHECK(report.weights[1].relation.segments[0].source == 3);
  const RelatedWeight& head = report.weights[3].relation;
  REQUIRE(head.segments.size() == 1);
  CHECK(head.axis != head.segments[0].axis);
}

TEST_CASE("shards of ranks are put together, and whole weights are found in shards") {
  Program whole = trainer();
  Program first;
  Program second;
  first.has("q", cut(kQ, 0, 8)).has("head", turned(cut(turned(kHead), 0, 6)));
  second.has("q", cut(kQ, 8, 16)).has("head", turned(cut(turned(kHead), 6, 12)));
  const WeightsReport sent = judge_arrival(side({whole}), side({first, second}), 0.9);
  CHECK(exit_code_of(sent) == ExitCode::kReproducible);
  CHECK(sent.weights[3].name == "rank 1: head");
  CHECK(sent.weights[3].relation.axis == 1);
  CHECK(sent.weights[3].relation.segments.front().from == 6);
  Program engine;
  engine.has("q", kQ).has("head", kHead);
  const WeightsReport gathered = judge_arrival(side({first, second}), side({engine}), 0.9);
  CHECK(exit_code_of(gathered) == ExitCode::kReproducible);
  CHECK(gathered.weights[1].relation.axis == 1);
  CHECK(gathered.weights[1].relation.segments.size() == 2);
}

TEST_CASE("experts that are stacked, and axes in another order") {
  Program sender;
  const Tensor one = random({6, 5}, 7);
  const Tensor two = random({6, 5}, 8);
  const Tensor kernel = random({4, 3, 2, 2}, 9);
  sender.has("experts.0", one).has("experts.1", two).has("conv", kernel);
  Tensor stacked = joined({one, two});
  stacked.shape = {2, 6, 5};
  Tensor last{{4, 2, 2, 3}, std::vector<float>(kernel.values.size())};
  for (std::size_t o = 0; o < 4; ++o) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t p = 0; p < 4; ++p) {
        last.values[(((o * 4) + p) * 3) + c] = kernel.values[(((o * 3) + c) * 4) + p];
      }
    }
  }
  Program receiver;
  receiver.has("experts", stacked).has("conv_channels_last", last);
  const WeightsReport report = judge(sender, receiver);
  CHECK(exit_code_of(report) == ExitCode::kReproducible);
  CHECK(report.weights[0].relation.segments.size() == 2);
  CHECK(report.weights[1].relation.segments.size() == 1);
  // The same numbers in a row, in an order that no permutation of axes makes.
  std::swap(last.values[0], last.values[4]);
  Program shuffled;
  shuffled.has("experts", stacked).has("conv_channels_last", last);
  CHECK(exit_code_of(judge(sender, shuffled)) != ExitCode::kReproducible);
}

TEST_CASE("a dtype of the receiver's is said, and a detour through a narrower one is a fault") {
  Program half;
  half.has("q", kQ, 0, Dtype::kBFloat16).has("head", kHead, 0, Dtype::kBFloat16);
  const WeightsReport report = judge(trainer(), half);
  CHECK(exit_code_of(report) == ExitCode::kReproducible);
  CHECK(report.weights[0].relation.segments.front().rounded == Dtype::kBFloat16);
  Tensor detour = kHead;
  const auto plain = std::as_bytes(std::span(kHead.values));
  const std::vector<std::byte> back = core::converted(
      Dtype::kBFloat16, core::converted(Dtype::kFloat32, plain, Dtype::kBFloat16), Dtype::kFloat32);
  std::memcpy(detour.values.data(), back.data(), back.size());
  Program wide;
  wide.has("q", kQ).has("head", detour);
  const WeightsReport rounded = judge(trainer(), wide);
  CHECK(exit_code_of(rounded) == ExitCode::kDivergence);
  CHECK(ids(rounded) == std::vector{FindingId::kWeightsRounded});
  // What was sent narrow is held exactly in a wider dtype.
  CHECK(exit_code_of(judge(half, wide)) == ExitCode::kDivergence);
  Program widened;
  widened.has("head", detour);
  CHECK(exit_code_of(judge(half, widened)) == ExitCode::kReproducible);
}

TEST_CASE("weights of an earlier step, in part or whole") {
  const Tensor before = random({40, 12}, 11);
  Program sender;
  sender.has("q", kQ).has("head", before, 0).has("head", kHead, 3);
  Program stale;
  stale.has("q", kQ).has("head", before);
  const WeightsReport report = judge(sender, stale);
  CHECK(exit_code_of(report) == ExitCode::kDivergence);
  CHECK(ids(report) == std::vector{FindingId::kWeightsOfEarlierStep});
  CHECK(report.weights[1].steps == 0);
  Program mixed;
  mixed.has("q", kQ).has("head", joined({cut(kHead, 0, 30), cut(before, 30, 40)}));
  const WeightsReport partly = judge(sender, mixed);
  CHECK(exit_code_of(partly) == ExitCode::kDivergence);
  REQUIRE(partly.weights[1].relation.segments.size() == 2);
  CHECK(partly.weights[1].relation.segments[1].version == 0);
  CHECK(partly.related == partly.elements);
}

TEST_CASE("a shard or a tensor that is missing, and weights at another's place") {
  Program partly;
  partly.has("q", kQ).has("head.weight", joined({cut(kHead, 0, 20), random({20, 12}, 12)}));
  const WeightsReport report = judge(trainer(), partly);
  CHECK(exit_code_of(report) == ExitCode::kDivergence);
  CHECK(ids(report) == std::vector{FindingId::kWeightsOfOtherValues});
  CHECK(report.weights[1].relation.related_rows() == 20);
  Program own;
  own.has("model.q.weight", kQ).has("head.weight", random({40, 12}, 13));
  CHECK(ids(judge(trainer(), own)) == std::vector{FindingId::kWeightsOfOtherValues});
  Program swapped;
  swapped.has("model.k.weight", kV).has("model.v.weight", kK).has("head.weight", kHead);
  const WeightsReport misplaced = judge(trainer(), swapped);
  CHECK(exit_code_of(misplaced) == ExitCode::kDivergence);
  CHECK(misplaced.count(WeightState::kMisplaced) == 2);
}

TEST_CASE("an adapter that was merged, and one that is nowhere") {
  const Tensor down = random({2, 12}, 31);
  const Tensor up = random({16, 2}, 32);
  Tensor sum = kQ;
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 12; ++j) {
      const float product =
          (up.values[2 * i] * down.values[j]) + (up.values[(2 * i) + 1] * down.values[12 + j]);
      sum.values[(12 * i) + j] += 0.5F * product;
    }
  }
  const auto sender = [&](const Tensor& lora_b) {
    Program program;
    program.has("q.base_layer.weight", kQ).has("head.weight", kHead);
    program.has("q.lora_A.default.weight", down).has("q.lora_B.default.weight", lora_b);
    return program;
  };
  const auto engine = [&](const Tensor& weight) {
    Program program;
    program.has("q.weight", weight).has("head.weight", kHead);
    return program;
  };
  const WeightsReport merged = judge(sender(up), engine(sum));
  CHECK(exit_code_of(merged) == ExitCode::kReproducible);
  REQUIRE(merged.weights[0].relation.segments.front().merged);
  CHECK(merged.weights[0].relation.segments.front().merged->scale == doctest::Approx(0.5));
  CHECK(merged.unsent.empty());
  const WeightsReport bare = judge(sender(up), engine(kQ));
  CHECK(exit_code_of(bare) == ExitCode::kDivergence);
  CHECK(ids(bare) == std::vector{FindingId::kAdapterNotMerged});
  // Beside other rows, and turned.
  CHECK(exit_code_of(judge(sender(up), engine(joined({kHead, sum})))) == ExitCode::kReproducible);
  CHECK(exit_code_of(judge(sender(up), engine(turned(sum)))) == ExitCode::kReproducible);
  // One that adds nothing, and one that the receiver adds itself.
  CHECK(exit_code_of(judge(sender(full({16, 2}, 0)), engine(kQ))) == ExitCode::kReproducible);
  Program adapts = engine(kQ);
  adapts.has("q.a", down).has("q.b", up);
  CHECK(exit_code_of(judge(sender(up), adapts)) == ExitCode::kReproducible);
  Tensor other = sum;
  other.values[7] += 0.01F;
  CHECK(exit_code_of(judge(sender(up), engine(other))) != ExitCode::kReproducible);
}

TEST_CASE("rows that are multiplied by a number each are related where that is asked for, alone") {
  Tensor folded = kQ;
  for (std::size_t i = 0; i < folded.values.size(); ++i) {
    folded.values[i] *= 0.5F + (static_cast<float>(i / folded.width()) * 0.03F);
  }
  Tensor other = folded;
  other.values[3] *= 1.001F;
  Program engine;
  engine.has("conv.weight", folded).has("conv.other", other).has("head", kHead);
  const WeightSide sender = side({trainer()});
  const WeightSide receiver = side({engine});
  const auto related = relate_weights(sender, receiver, true);
  REQUIRE(related[0].segments.size() == 1);
  CHECK(related[0].segments[0].has_factors);
  CHECK(related[0].segments[0].source == 0);
  CHECK(related[1].segments.empty());
  CHECK(relate_weights(sender, receiver)[0].segments.empty());
}

TEST_CASE("another model, and dumps without values, are not comparable") {
  Program other;
  other.has("model.q.weight", random({16, 12}, 21)).has("head.weight", random({40, 12}, 22));
  const WeightsReport report = judge(trainer(), other);
  CHECK(exit_code_of(report) == ExitCode::kNotComparable);
  CHECK(report.related == 0);
  Program digests(false);
  digests.has("model.q.weight", kQ).has("head.weight", turned(kHead));
  const WeightsReport unread = judge(trainer(), digests);
  CHECK(exit_code_of(unread) == ExitCode::kNotComparable);
  CHECK(unread.count(WeightState::kArrived) == 1);
  CHECK(unread.count(WeightState::kUnread) == 1);
  Program same(false);
  same.has("q", kQ).has("head", kHead);
  CHECK(exit_code_of(judge(trainer(), same)) == ExitCode::kReproducible);
  CHECK(exit_code_of(judge(trainer(), Program())) == ExitCode::kNotComparable);
}

TEST_CASE("a view of a weight is no other value of it") {
  Program sender;
  sender.has("q", kQ).has("q", turned(kQ), 1).has("head", kHead, 1);
  Program receiver;
  receiver.has("w", turned(kQ)).has("head", kHead);
  const WeightsReport report = judge(sender, receiver);
  CHECK(exit_code_of(report) == ExitCode::kReproducible);
  CHECK(report.weights[0].relation.segments.front().version == 0);
}

TEST_CASE("tied weights, a vocabulary that was cut, and rows of zeros are innocent") {
  Tensor padded = kHead;
  std::fill_n(padded.values.begin(), 12, 0.0F);
  Program sender;
  sender.has("embed", padded).has("head", padded).has("q", kQ);
  Program receiver;
  receiver.has("shared", cut(padded, 0, 36)).has("q", kQ);
  const WeightsReport report = judge(sender, receiver);
  CHECK(exit_code_of(report) == ExitCode::kReproducible);
  CHECK(report.weights[0].relation.segments.size() == 1);
  CHECK(report.unsent.empty());
}

}  // namespace repro_check::comparators
