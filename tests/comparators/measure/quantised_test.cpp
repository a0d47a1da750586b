// SPDX-License-Identifier: Apache-2.0
// Tensors quantised channel by channel: by their integers, and by the values these stand for.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comparators/measure/conversion.h"
#include "tests/comparators/corpus.h"

namespace repro_check::comparators {
namespace {

using Numbers = std::vector<double>;

/// Dequantised in pieces of every size, since parts are read as the measurer pleases.
template <class Integer>
Numbers dequantise(core::Dtype dtype,
                   const std::vector<std::int64_t>& shape,
                   const std::vector<Integer>& integers,
                   const Quantiser& quantiser,
                   std::size_t piece) {
  std::vector<std::byte> bytes(integers.size() * sizeof(Integer));
  std::memcpy(bytes.data(), integers.data(), bytes.size());
  const DequantisedParts parts(
      std::make_unique<core::MemoryParts>(std::move(bytes)), dtype, shape, quantiser);
  CHECK(parts.size() == integers.size() * sizeof(double));
  Numbers out(integers.size());
  for (std::size_t at = 0; at < out.size(); at += piece) {
    const std::span<double> into(&out[at], std::min(piece, out.size() - at));
    const auto values = parts.read(at * sizeof(double), std::as_writable_bytes(into));
    CHECK(values.size() == into.size() * sizeof(double));
  }
  return out;
}

TEST_CASE("channels are dequantised as torch.dequantize does") {
  // integers, scales and zero points of torch.quantize_per_channel, values of its dequantize()
  for (std::size_t piece = 1; piece <= 7; ++piece) {
    CHECK(dequantise<std::int8_t>(core::Dtype::kQInt8,
                                  {2, 3},
                                  {4, 1, 8, 10, -2, -10},
                                  {0, {0.5, 0.25}, {3, -2}},
                                  piece) == Numbers{0.5, -1, 2.5, 3, 0, -2});
    CHECK(dequantise<std::int32_t>(core::Dtype::kQInt32,
                                   {2, 3},
                                   {4, -2, 2, 9, 2, 0},
                                   {1, {0.5, 0.25, 1.5}, {3, 2, 1}},
                                   piece) == Numbers{0.5, -1, 1.5, 3, 0, -1.5});
    CHECK(dequantise<std::uint8_t>(core::Dtype::kQUInt8,
                                   {2, 3},
                                   {12, 8, 15, 32, 21, 12},
                                   {0, {0.5, 0.25}, {10.5, 20.25}},
                                   piece) == Numbers{0.75, -1.25, 2.25, 2.9375, 0.1875, -2.0625});
    CHECK(dequantise<std::int8_t>(core::Dtype::kQInt8,
                                  {2, 2, 2},
                                  {1, 2, 3, 4, 5, 6, 7, 8},
                                  {1, {1, 10}, {0, 0}},
                                  piece) == Numbers{1, 2, 30, 40, 5, 6, 70, 80});
    CHECK(dequantise<std::int8_t>(
              core::Dtype::kQInt8, {5}, {1, 2, 3, 4, 5}, {std::nullopt, {0.5}, {1}}, piece) ==
          Numbers{0, 0.5, 1, 1.5, 2});
  }
}

/// qint8 [2, 2], one channel a row.
ordered_json channels_op(const ordered_json& integers,
                         const ordered_json& scales,
                         const ordered_json& zero_points = {0, 0}) {
  ordered_json dump = one_op("run",
                             {{"dtype", "qint8"},
                              {"shape", {2, 2}},
                              {"values", integers},
                              {"layout", "quantised"},
                              {"attributes", "scheme=per_channel_affine axis=0"},
                              {"parts", {{"scales", "scales"}, {"zero_points", "zeros"}}}});
  dump["tensors"]["scales"] = tensor_of("float64", scales);
  dump["tensors"]["zeros"] = tensor_of("int64", zero_points);
  return dump;
}

CompareOptions cosine() {
  CompareOptions options;
  options.spec.policy.kind = configs::PolicyKind::kCosine;
  return options;
}

const TensorComparison& first_output(const Report& report) {
  REQUIRE(report.first_divergence);
  REQUIRE_FALSE(report.first_divergence->outputs.empty());
  return report.first_divergence->outputs.front();
}

TEST_CASE("row 28 channel by channel: other scales, the same values") {
  const ordered_json from = channels_op({2, 4, 6, 8}, {0.5, 0.25});
  const ordered_json same = channels_op({4, 8, 12, 16}, {0.25, 0.125});
  CHECK(compare_json(from, same, bitwise()).status == Status::kDiverged);
  for (const CompareOptions& options : {tolerance(), cosine()}) {
    const Report report = compare_json(from, same, options);
    CHECK(report.status == Status::kReproducible);
    CHECK(report.coverage.within_policy == 1);
    CHECK(report.coverage.tensors == 3);
  }
  // Zero points too: (q - 3) * scale.
  const ordered_json moved = channels_op({5, 7, 6, 8}, {0.5, 0.25}, {3, 0});
  CHECK(compare_json(from, moved, bitwise()).status == Status::kDiverged);
  CHECK(compare_json(from, moved, tolerance()).status == Status::kReproducible);
  CHECK(compare_json(from, from, tolerance()).coverage.equal == 1);
}

TEST_CASE("the values decide: of each channel by its own scale") {
  const ordered_json from = channels_op({2, 4, 6, 8}, {0.5, 0.25});
  // Equal integers, and one channel twice as large.
  const Report scaled = compare_json(from, channels_op({2, 4, 6, 8}, {0.5, 0.5}), tolerance());
  CHECK(scaled.status == Status::kDiverged);
  const TensorComparison& output = first_output(scaled);
  CHECK(output.baseline.slot == "0");
  REQUIRE(output.metrics);
  CHECK(output.metrics->n_diff == 2);
  CHECK(output.metrics->first_diff == 2);
  CHECK(output.metrics->max_abs == 2);
  CHECK(output.metrics->max_rel == 1);
  CHECK_FALSE(output.metrics->ulp_max);
  // One integer apart is a quarter in the second row.
  const ordered_json near = channels_op({2, 4, 6, 9}, {0.5, 0.25});
  CHECK(first_output(compare_json(from, near, tolerance())).metrics->max_abs == 0.25);
  CHECK(compare_json(from, near, tolerance(0, 0.25)).status == Status::kReproducible);
  CHECK(compare_json(from, near, tolerance(0, 0.24)).status == Status::kDiverged);
  // A scale that differs by less than the tolerance.
  const ordered_json close = channels_op({2, 4, 6, 8}, {0.5, 0.2500001});
  CHECK(compare_json(from, close, tolerance()).status == Status::kReproducible);
  CHECK(compare_json(from, close, bitwise()).status == Status::kDiverged);
}

TEST_CASE("what says nothing of a channel's scale is not judged by integers instead") {
  const ordered_json from = channels_op({2, 4, 6, 8}, {0.5, 0.25});
  const ordered_json to = channels_op({4, 8, 12, 16}, {0.25, 0.125});
  const auto without_bytes = [](ordered_json dump, const char* tensor) {
    dump["tensors"][tensor]["stored"] = false;
    return dump;
  };
  for (const char* tensor : {"scales", "y"}) {
    const Report report =
        compare_json(without_bytes(from, tensor), without_bytes(to, tensor), tolerance());
    CHECK(report.status == Status::kNotComparable);
    CHECK(report.coverage.not_judged == 1);
  }
  // Recorded without its scales: even equal integers are no equal values.
  ordered_json bare = from;
  bare["tensors"]["y"].erase("parts");
  CHECK(compare_json(bare, bare, tolerance()).status == Status::kNotComparable);
  CHECK(compare_json(bare, bare, bitwise()).status == Status::kReproducible);
  // As many scales as there are channels.
  const ordered_json short_of = channels_op({2, 4, 6, 9}, {0.5});
  CHECK(compare_json(short_of, channels_op({2, 4, 6, 8}, {0.5}), tolerance()).status ==
        Status::kNotComparable);
  ordered_json damaged = to;
  damaged["tensors"]["scales"]["damaged"] = true;
  CHECK(compare_json(from, damaged, tolerance()).status == Status::kDamaged);
}

TEST_CASE("scales that a rule judges for themselves are strict there") {
  const ordered_json from = channels_op({2, 4, 6, 8}, {0.5, 0.25});
  const ordered_json to = channels_op({4, 8, 12, 16}, {0.25, 0.125});
  CompareOptions options = tolerance();
  configs::Rule rule;
  rule.match.tensor = configs::NamePattern("output 0.scales");
  rule.policy.kind = configs::PolicyKind::kBitwise;
  options.spec.rules = {rule};
  options.spec.unmatched = configs::Unmatched::kPolicy;
  CHECK(compare_json(from, to, options).status == Status::kDiverged);
  // Nobody looks at the values: then the scales are judged as what they are.
  options.spec.rules[0].match.tensor = configs::NamePattern("output 0");
  options.spec.rules[0].policy.kind = configs::PolicyKind::kIgnore;
  CHECK(compare_json(from, to, options).status == Status::kDiverged);
}

}  // namespace
}  // namespace repro_check::comparators
