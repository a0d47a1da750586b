// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "baselines/baseline.h"

namespace repro_check::test_support {

inline core::Digest digest(std::uint64_t number) { return {number, ~number}; }

/// One of everything a baseline can hold, with names that have to be escaped.
inline baselines::Baseline sample_baseline() {
  baselines::Baseline baseline;
  baseline.gate = "bert";
  baseline.model = digest(1);
  baseline.config = digest(2);
  baseline.policy = "bitwise";
  baseline.platform.fields = {{"os.machine", "x86_64"}, {"mkl", "a b  c"}, {"probe.exp", ""}};
  baseline.facts = {{"/seed", "7"}, {"/env/A B", "\"x\ny\""}};
  baseline.root = digest(3);
  baseline.tensors = {
      {core::NamedTensorKind::kInput, "x", core::Dtype::kFloat32, {2, 3}, digest(4)},
      {core::NamedTensorKind::kParameter, "*", core::Dtype::kBFloat16, {}, digest(5)},
      {core::NamedTensorKind::kBuffer, "-", core::Dtype::kInt64, {0}, digest(6)}};
  baseline.ops = {"f aten::add.Tensor - 0 float32[2,3]:" + core::to_hex(digest(7)),
                  "g aten::topk a\\x20b.\\xc3\\xa9 1/2/3/4 float32[1]:" + core::to_hex(digest(8)) +
                      " 1.values=unknown[]:undefined",
                  "o aten::item \\x2d 0 =nan\\x20\"two\\x20words\""};
  baseline.operators = baseline.ops.size();
  return baseline;
}

/// The same of a recording of blocks.
inline baselines::Baseline sample_of_blocks() {
  using core::Phase;
  baselines::Baseline baseline = sample_baseline();
  baseline.ops.resize(1);
  baseline.operators = 1;
  baselines::AcceptedBlocks& blocks = baseline.blocks.emplace();
  blocks.calls = {
      {0, {3, "encoder 0", 0, Phase::kForward, false, digest(20), digest(21), 0}},
      {0, {3, "-", 2, Phase::kEval, false, std::nullopt, digest(22), 0}},
      {1, {4, "head", 0, Phase::kForward, false, digest(23), std::nullopt, 0}},
  };
  blocks.parameters = {{0, {3, "head.weight", digest(24)}}, {1, {4, "head.weight", std::nullopt}}};
  baselines::count_anew(blocks);
  return baseline;
}

}  // namespace repro_check::test_support
