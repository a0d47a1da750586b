// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/two_passes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "tests/support/memory_source.h"

namespace repro_check::comparators {
namespace {

using core::Dtype;
using core::ExitCode;

std::vector<float> normal_numbers(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& each : values) each = normal(generator);
  return values;
}

/// A recording of an embedding and linear layers that are called one after the other.
class Net {
 public:
  static constexpr std::int64_t kWidth = 8;

  explicit Net(std::vector<std::int64_t> ids) : ids_(std::move(ids)) {
    fixture_.manifest.trace.level = "tensor";
  }

  Net& looks_up(const std::string& path, const std::vector<float>& table) {
    core::OpRecord& record = add("aten::embedding", path);
    tensor(record, "weight", table, rows_of(table), "state:" + path + ".weight");
    core::TensorRecord& indices = record.tensors.emplace_back();
    indices.slot = "indices";
    indices.dtype = Dtype::kInt64;
    indices.shape = {static_cast<std::int64_t>(ids_.size())};
    keep(indices, std::as_bytes(std::span(ids_)));
    last_.clear();
    for (const std::int64_t id : ids_) {
      last_.insert(last_.end(), table.begin() + (id * kWidth), table.begin() + ((id + 1) * kWidth));
    }
    output(record, last_, kWidth);
    return *this;
  }

  /// @param off  added to the first element of the result
  Net& multiplies(const std::string& path, const std::vector<float>& weight, float off = 0) {
    core::OpRecord& record = add("aten::linear", path);
    tensor(record, "input", last_, static_cast<std::int64_t>(ids_.size()), "");
    tensor(record, "weight", weight, rows_of(weight), "state:" + path + ".weight");
    const std::size_t width = weight.size() / kWidth;
    std::vector<float> made(ids_.size() * width);
    for (std::size_t row = 0; row < ids_.size(); ++row) {
      for (std::size_t k = 0; k < width; ++k) {
        for (std::size_t j = 0; j < kWidth; ++j) {
          made[(row * width) + k] += last_[(row * kWidth) + j] * weight[(k * kWidth) + j];
        }
      }
    }
    made.front() += off;
    output(record, made, static_cast<std::int64_t>(width));
    if (width == kWidth) last_ = made;
    return *this;
  }

  /// One operator in the place of three that multiply, and end in another one.
  Net& fuses(const std::string& path, const std::vector<std::vector<float>>& weights, float off) {
    Net apart = *this;
    for (const std::vector<float>& weight : weights) apart.multiplies("", weight);
    core::OpRecord& record = add("aten::fused_layers", path);
    tensor(record, "input", last_, static_cast<std::int64_t>(ids_.size()), "");
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::string name = "weight" + std::to_string(i);
      tensor(record, name, weights[i], rows_of(weights[i]), "state:" + path + "." + name);
    }
    last_ = apart.last_;
    last_.front() += off;
    output(record, last_, kWidth);
    return *this;
  }

  [[nodiscard]] PassSide side() const {
    return read_side(std::make_unique<test_support::MemorySource>(fixture_), 0);
  }

 private:
  static std::int64_t rows_of(const std::vector<float>& values) {
    return static_cast<std::int64_t>(values.size()) / kWidth;
  }

  core::OpRecord& add(const char* name, const std::string& path) {
    core::OpRecord& record = fixture_.ops.emplace_back();
    record.index = fixture_.ops.size() - 1;
    record.op = std::make_shared<core::OperatorInfo>(core::OperatorInfo{name, "", false});
    auto site = std::make_shared<core::CallSite>();
    site->module_path = path;
    site->module_type = "Module";
    record.site = std::move(site);
    return record;
  }

  void keep(core::TensorRecord& record, std::span<const std::byte> bytes) {
    record.state = core::ContentState::kHashed;
    record.digest = core::digest_bytes(bytes);
    record.stored = true;
    fixture_.contents[record.content_key()].assign(bytes.begin(), bytes.end());
  }

  core::TensorRecord& tensor(core::OpRecord& record,
                             const std::string& slot,
                             const std::vector<float>& values,
                             std::int64_t rows,
                             const std::string& name) {
    core::TensorRecord& tensor = record.tensors.emplace_back();
    tensor.slot = slot;
    tensor.name = name;
    tensor.dtype = Dtype::kFloat32;
    tensor.shape = {rows, static_cast<std::int64_t>(values.size()) / rows};
    keep(tensor, std::as_bytes(std::span(values)));
    return tensor;
  }

  void output(core::OpRecord& record, const std::vector<float>& values, std::int64_t width) {
    core::TensorRecord& made =
        tensor(record, "0", values, static_cast<std::int64_t>(values.size()) / width, "");
    made.role = core::TensorRole::kOutput;
    made.producer = static_cast<std::int64_t>(record.index);
    made.storage = made.producer;
  }

  std::vector<std::int64_t> ids_;
  std::vector<float> last_;
  test_support::DumpFixture fixture_;
};

const std::vector<float> kLookedUp = normal_numbers(20 * Net::kWidth, 1);
const std::vector<float> kQuery = normal_numbers(8 * Net::kWidth, 2);
const std::vector<float> kKey = normal_numbers(4 * Net::kWidth, 3);
const std::vector<float> kWide = normal_numbers(8 * Net::kWidth, 4);

std::vector<float> stacked(std::vector<float> one, const std::vector<float>& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

Net reference() {
  Net net({3, 1, 4, 1, 5});
  net.looks_up("embed", kLookedUp).multiplies("layers.0.k", kKey).multiplies("layers.0.q", kQuery);
  return net.multiplies("layers.0.up", kWide);
}

/// Both computations are so exact that the values that A recorded may stand for float64.
RelateReport judged(const TwoPasses& passes,
                    double least = 0.9,
                    const std::vector<std::uint64_t>& cuts = {}) {
  const auto calls = judged_calls(passes.a.pass, passes.related);
  const auto brought = brought_to_a(passes.a.pass,
                                    passes.numbers_a(),
                                    passes.b.pass,
                                    passes.numbers_b(),
                                    passes.related,
                                    passes.rows());
  const auto shadow = [&](std::size_t i) {
    const auto values = passes.a.numbers(*passes.a.pass.calls[calls[i]].output);
    return ShadowValues{values, values, values};
  };
  return judge_passes(passes, least, shadow, cuts);
}

}  // namespace

TEST_CASE("rows that are found one by one, here and there, are no proof") {
  Net fused({4, 3, 5, 1, 1});
  fused.looks_up("tok", kLookedUp).multiplies("blocks.0.qk", stacked(kQuery, kKey));
  fused.multiplies("blocks.0.wide", kQuery).multiplies("blocks.0.ff", kWide);
  // Not the same sequence: no proof that rows are the same.
  CHECK(judged(relate_passes(reference().side(), fused.side())).no_verdict ==
        NoVerdict::kOtherInputs);
}

TEST_CASE(
    "features of a fused module are those of the modules that it is made of, in their order") {
  Net fused({3, 1, 4, 1, 5});
  fused.looks_up("tok", kLookedUp).multiplies("blocks.0.qk", stacked(kQuery, kKey));
  const TwoPasses passes = relate_passes(reference().side(), fused.side());
  REQUIRE(passes.related.modules.size() >= 2);
  const RelatedModule& qk = *std::ranges::find_if(passes.related.modules, [&](const auto& each) {
    return passes.b.pass.calls[each.b].path == "blocks.0.qk";
  });
  CHECK(qk.tie == ModuleTie::kWeights);
  CHECK(names_of(qk, passes.a.pass) == "layers.0.q + layers.0.k");
  REQUIRE(qk.parts.size() == 2);
  CHECK(qk.parts[1].begin == 8);
  CHECK(qk.parts[1].count == 4);
  const RelateReport report = judged(passes);
  CHECK(exit_code_of(report) == ExitCode::kReproducible);
  CHECK(report.count(ModuleState::kWithin) == 2);
}

TEST_CASE("an operator with the weights of several layers belongs to the module around them") {
  const std::vector<std::vector<float>> weights{kQuery, kWide, normal_numbers(64, 6)};
  Net apart({3, 1, 4, 1, 5});
  apart.looks_up("tok", kLookedUp);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    apart.multiplies("h.0.part" + std::to_string(i), weights[i]);
  }
  for (const float off : {0.0F, 1e-2F}) {
    Net fused({3, 1, 4, 1, 5});
    fused.looks_up("tok", kLookedUp).fuses("s.0", weights, off);
    const TwoPasses passes = relate_passes(apart.side(), fused.side());
    const auto found = std::ranges::find_if(passes.related.modules, [&](const auto& each) {
      return passes.b.pass.calls[each.b].path == "s.0";
    });
    REQUIRE(found != passes.related.modules.end());
    CHECK(found->tie == ModuleTie::kParts);
    CHECK(names_of(*found, passes.a.pass) == "h.0");
    const RelateReport report = judged(passes);
    CHECK(exit_code_of(report) == (off == 0 ? ExitCode::kReproducible : ExitCode::kDivergence));
    if (off != 0) CHECK(report.findings.front().where.tensor == "s.0");
  }
}

TEST_CASE("the module whose own error is beyond the floor is named") {
  Net other({3, 1, 4, 1, 5});
  other.looks_up("tok", kLookedUp).multiplies("b.0.k", kKey).multiplies("b.0.q", kQuery);
  other.multiplies("b.0.up", kWide, 1e-2F);
  const RelateReport report = judged(relate_passes(reference().side(), other.side()));
  CHECK(exit_code_of(report) == ExitCode::kDivergence);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].id == FindingId::kModuleBeyondFloor);
  CHECK(report.findings[0].where.tensor == "b.0.up");
  CHECK(report.count(ModuleState::kFault) == 1);
}

TEST_CASE("behind an operator without float64 a module beyond the floor is no fault and no pass") {
  Net other({3, 1, 4, 1, 5});
  other.looks_up("tok", kLookedUp).multiplies("b.0.k", kKey).multiplies("b.0.q", kQuery);
  other.multiplies("b.0.up", kWide, 1e-2F);
  const TwoPasses passes = relate_passes(reference().side(), other.side());
  const RelateReport cut = judged(passes, 0.9, {3});  // the operator of `up`
  CHECK(exit_code_of(cut) == ExitCode::kNotComparable);
  CHECK(cut.no_verdict == NoVerdict::kBehindCut);
  CHECK(exit_code_of(judged(passes, 0.9, {1})) == ExitCode::kDivergence);
}

TEST_CASE("where float64 has no number, B must have none") {
  const auto judged_pair = [](float a, float b) {
    const auto net = [](const std::string& block, float off) {
      Net made({3, 1, 4, 1, 5});
      made.looks_up("tok", kLookedUp).multiplies(block + ".0.up", kWide);
      return made.multiplies(block + ".1.up", kQuery, off);
    };
    return judged(relate_passes(net("h", a).side(), net("b", b).side()));
  };
  CHECK(exit_code_of(judged_pair(-INFINITY, -1e38F)) == ExitCode::kReproducible);
  CHECK(exit_code_of(judged_pair(NAN, NAN)) == ExitCode::kReproducible);
  for (const auto& [a, b] : {std::pair{-INFINITY, 0.0F}, {-INFINITY, INFINITY}, {NAN, 0.0F}}) {
    const RelateReport report = judged_pair(a, b);
    CHECK(exit_code_of(report) == ExitCode::kNotComparable);
    CHECK(report.no_verdict == NoVerdict::kNoMeasure);
  }
}

TEST_CASE("a module with other weights is related by its siblings, and comes before its output") {
  const std::vector<float> stale = normal_numbers(8 * Net::kWidth, 9);
  const auto net = [](const std::string& block, const std::vector<float>& second) {
    Net made({3, 1, 4, 1, 5});
    made.looks_up("tok", kLookedUp).multiplies(block + ".0.up", kWide);
    return made.multiplies(block + ".1.up", second).multiplies(block + ".2.up", kQuery);
  };
  const RelateReport report =
      judged(relate_passes(net("h", normal_numbers(64, 5)).side(), net("b", stale).side()));
  CHECK(exit_code_of(report) == ExitCode::kDivergence);
  REQUIRE(!report.findings.empty());
  CHECK(report.findings[0].id == FindingId::kModuleWithOtherWeights);
  CHECK(report.findings[0].where.tensor == "b.1.up");
}

TEST_CASE("a sibling that is wider says nothing of the features") {
  // h.0 gives 8 features, h.1 four; of the latter B has other weights.
  const auto net = [](const std::string& block, const std::vector<float>& narrow) {
    Net made({3, 1, 4, 1, 5});
    made.looks_up("tok", kLookedUp).multiplies(block + ".0.up", kWide);
    return made.multiplies(block + ".1.up", narrow).multiplies(block + ".2.up", kQuery);
  };
  const TwoPasses passes =
      relate_passes(net("h", kKey).side(), net("b", normal_numbers(4 * Net::kWidth, 9)).side());
  const auto found = std::ranges::find_if(passes.related.modules, [&](const auto& each) {
    return passes.b.pass.calls[each.b].path == "b.1.up";
  });
  REQUIRE(found != passes.related.modules.end());
  CHECK(found->tie == ModuleTie::kPattern);
  for (const FeatureRange& part : found->parts) CHECK(part.count == 4);
  CHECK(exit_code_of(judged(passes)) == ExitCode::kDivergence);
}

TEST_CASE("another model is not comparable, and nothing of it passes") {
  Net other({3, 1, 4, 1, 5});
  other.looks_up("embed", normal_numbers(20 * Net::kWidth, 11))
      .multiplies("x", normal_numbers(64, 12));
  const TwoPasses passes = relate_passes(reference().side(), other.side());
  const RelateReport report = judge_passes(passes, 0.9, [](std::size_t) -> ShadowValues {
    FAIL("nothing is asked of a shadow");
    return {};
  });
  CHECK(exit_code_of(report) == ExitCode::kNotComparable);
}

TEST_CASE("rows are found in another order, and padding is nobody's") {
  RowContents padded;
  padded.numbers = {{7, 8, 9, 0, 0, 5, 6, 0, 0, 0}};
  padded.sequences = 2;
  RowContents packed;
  packed.numbers = {{5, 6, 7, 8, 9}};
  const auto map = relate_rows(padded, packed);
  REQUIRE(map);
  CHECK(map->related == 5);
  CHECK(map->runs == 2);
  CHECK(map->of_b[0] == 5);
  CHECK(map->of_b[2] == 0);
  CHECK(map->next[0] == 6);
  CHECK_FALSE(map->next[1]);
  // The other way round the padding is B's.
  CHECK(relate_rows(packed, padded)->related == 5);
  packed.numbers = {{5, 7, 6, 9, 8}};
  CHECK_FALSE(relate_rows(padded, packed));
}

TEST_CASE("log-probabilities, and a temperature that was forgotten") {
  const std::vector<double> a{1, 2, 3, -1, 0, 4};
  RowMap rows = same_rows(2);
  rows.next[0] = 1;
  const std::vector<std::int64_t> tokens{0, 2};
  auto found = compare_log_probabilities(a, 3, a, 3, rows, tokens);
  REQUIRE(found);
  CHECK(found->max == 0);
  CHECK(found->divergence == doctest::Approx(0));
  CHECK(found->same_best == 2);
  CHECK(found->tokens == 1);
  CHECK_FALSE(found->factor);
  std::vector<double> b;
  for (const double each : a) b.push_back((each / 0.5) + 7);
  found = compare_log_probabilities(a, 3, b, 3, rows, tokens);
  REQUIRE(found->factor);
  CHECK(*found->factor == doctest::Approx(2));
  CHECK(found->worst.front().token == 2);
  b.back() += 1;
  CHECK_FALSE(compare_log_probabilities(a, 3, b, 3, rows, tokens)->factor);
}

}  // namespace repro_check::comparators
