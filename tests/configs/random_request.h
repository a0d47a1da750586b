// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "configs/parser/config_parser.h"

namespace repro_check::configs::test {

/// Requests such as the parser could have made, from a seed.
class RandomRequest {
 public:
  explicit RandomRequest(std::uint32_t seed) : random_(seed) {}

  RecordRequest make() {
    RecordRequest request;
    request.run = run();
    request.dump = "/" + text();
    request.replace_existing = coin();
    request.report_outputs = coin();
    request.bare = coin();
    if (coin()) request.found_environment["OMP_NUM_THREADS"] = text();
    if (coin()) request.found_environment["MKL_CBWR"] = std::nullopt;
    return request;
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  bool coin() { return below(2) == 1; }

  template <typename T, std::size_t N>
  T one_of(const std::array<T, N>& values) {
    return values[below(N)];
  }

  /// Some letters, among them those that JSON and terminals trip over.
  std::string text() {
    static constexpr std::array<const char*, 10> kPieces{
        "a", "Z", "\"", "\\", "\n", "\x1b", "\x7f", "é", "🙂", "/~1"};
    std::string result = "t";
    for (std::uint64_t i = below(6); i > 0; --i) result += one_of(kPieces);
    return result;
  }

  double number() {
    static constexpr std::array<double, 8> kNumbers{
        0.1, -0.0, 1.0, 5e-324, 1.7976931348623157e308, -3.5, 1e-300, 123456789.123456789};
    return coin() ? one_of(kNumbers) : std::uniform_real_distribution<double>(-1e6, 1e6)(random_);
  }

  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> sizes(below(4));
    for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(below(5));
    return sizes;
  }

  GeneratedInput generated() {
    using core::Dtype;
    constexpr std::array kFloating{
        Dtype::kFloat16, Dtype::kBFloat16, Dtype::kFloat32, Dtype::kComplex64};
    constexpr std::array kWhole{Dtype::kInt16, Dtype::kInt32, Dtype::kInt64};
    GeneratedInput input;
    input.distribution = static_cast<Distribution>(below(6));
    input.shape = shape();
    input.dtype = one_of(kFloating);
    switch (input.distribution) {
      case Distribution::kZeros:
      case Distribution::kOnes:
        break;
      case Distribution::kArange:
        input.dtype = coin() ? one_of(kWhole) : Dtype::kFloat64;
        input.low = input.dtype == Dtype::kFloat64 ? number() : static_cast<double>(below(100));
        break;
      case Distribution::kNormal:
        input.seed = below(std::uint64_t{1} << 32U);
        input.mean = number();
        input.std = std::abs(number());
        break;
      case Distribution::kUniform:
        input.seed = below(std::uint64_t{1} << 32U);
        input.low = -std::abs(number()) - 1;
        input.high = std::abs(number());
        break;
      case Distribution::kRandint:
        input.seed = below(std::uint64_t{1} << 32U);
        input.dtype = one_of(kWhole);
        input.low = -static_cast<double>(below(1000));
        input.high = static_cast<double>(below(1000)) + 1;
        break;
    }
    return input;
  }

  ValueInput value() {
    switch (below(5)) {
      case 0:
        return {nullptr};
      case 1:
        return {coin()};
      case 2:
        return {static_cast<std::int64_t>(random_())};
      case 3:
        return {number()};
      default:
        return {text()};
    }
  }

  std::vector<InputSpec> items(int depth) {
    std::vector<InputSpec> result(below(3));
    for (InputSpec& item : result) item = input(depth + 1);
    return result;
  }

  InputSpec input(int depth) {
    constexpr int kDeepest = 3;
    InputSpec spec;
    spec.pointer = "/" + text();
    switch (below(depth < kDeepest ? 8 : 5)) {
      case 0:
        spec.source = generated();
        break;
      case 1:
        spec.source = FileInput{FileInput::Kind::kNpy, "/" + text()};
        break;
      case 2:
        spec.source = FileInput{FileInput::Kind::kTorch, "/" + text()};
        break;
      case 3:
        spec.source = FileInput{FileInput::Kind::kHdf5, "/" + text(), text()};
        break;
      case 4:
        spec.source = value();
        break;
      case 5:
        spec.source = ContainerInput{ContainerInput::Kind::kList, items(depth)};
        break;
      case 6:
        spec.source = ContainerInput{ContainerInput::Kind::kTuple, items(depth)};
        break;
      default: {
        ContainerInput dict{ContainerInput::Kind::kDict, items(depth)};
        for (std::size_t i = 0; i < dict.items.size(); ++i) {
          dict.items[i].name = text() + std::to_string(i);
        }
        spec.source = std::move(dict);
      }
    }
    return spec;
  }

  DumpSpec dump() {
    DumpSpec spec;
    spec.directory = "/" + text();
    spec.level = static_cast<DumpLevel>(below(3));
    if (coin()) spec.keep_ops = {{below(9), 9 + below(9)}, {30, 30}};
    spec.depth = static_cast<DumpDepth>(below(3));
    spec.browse = static_cast<BrowseMode>(below(3));
    spec.verify_inputs = coin();
    for (std::uint64_t i = below(3); i > 0; --i) spec.include.push_back(text());
    for (std::uint64_t i = below(3); i > 0; --i) spec.exclude.push_back(text());
    spec.memory = kLeastDumpMemory + below(1U << 30U);
    if (coin()) spec.max_bytes = below(1U << 30U);
    if (coin()) spec.slice = core::SliceRule{1 + below(99), 1 + below(9), {}};
    if (spec.slice && coin()) spec.slice->above = below(1U << 30U);
    if (coin()) spec.reference = "/" + text();
    return spec;
  }

  std::vector<CallSpec> calls() {
    std::vector<CallSpec> result(1 + below(3));
    for (CallSpec& call : result) {
      const std::uint64_t named_from = below(4);
      for (std::uint64_t i = 0; i < below(4); ++i) {
        call.push_back(input(0));
        if (i >= named_from) call.back().name = text() + std::to_string(i);
      }
    }
    return result;
  }

  RunSpec run() {
    using core::Dtype;
    RunSpec spec;
    spec.name = "run-" + std::to_string(below(1000));
    spec.model = {"/" + text(), "forward_2", static_cast<ModelMode>(below(3)), {}, {}};
    if (coin()) spec.model.weights_from = "/" + text();
    if (spec.model.weights_from && coin()) spec.model.weights = {text() + "1", text() + "2"};
    spec.calls = calls();
    spec.seed = below(std::uint64_t{1} << 32U);
    spec.determinism = static_cast<DeterminismMode>(below(3));
    spec.disable_dropout = coin();
    spec.rng = static_cast<RngMode>(below(2));
    spec.grad = static_cast<GradMode>(below(3));
    spec.device = coin() ? "cpu" : "cuda:" + std::to_string(below(64));
    if (coin()) spec.dtype = one_of(std::array{Dtype::kFloat16, Dtype::kBFloat16, Dtype::kFloat64});
    if (coin()) spec.threads = static_cast<int>(1 + below(4096));
    if (coin()) spec.interop_threads = static_cast<int>(1 + below(4096));
    spec.optimize_executor = coin();
    if (coin()) spec.env["A_1"] = text();
    if (coin()) spec.env["B"] = std::nullopt;
    if (coin()) spec.settings["x.y"] = text();
    if (coin()) spec.settings["z"] = "off";
    if (coin()) spec.recorder = "/" + text();
    if (coin()) spec.extensions = {"/" + text() + "1", "/" + text() + "2"};
    spec.dump = dump();
    return spec;
  }

  std::mt19937_64 random_;
};

}  // namespace repro_check::configs::test
