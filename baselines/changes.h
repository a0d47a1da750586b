// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "baselines/baseline.h"

namespace repro_check::baselines {

/// One thing that is not what was accepted.
struct Change {
  std::string name;      ///< `config /seed`, `input tokens`, `model`, `cpu.capability`
  std::string accepted;  ///< `none` where there was no such thing
  std::string now;
};

/// What makes a baseline stale: configuration, inputs, and what the model is apart from its
/// numbers. Weights are none of it: another number there is what a gate is to find.
std::vector<Change> stale_reasons(const Baseline& accepted, const Baseline& now);

/// Fields in which two platforms differ, in their order.
std::vector<Change> platform_changes(const Platform& accepted, const Platform& now);

/// Whether every operator returned what was accepted. Both folded, or neither.
bool same_results(const Baseline& accepted, const Baseline& now);

/// Whether the model's parameters and buffers hold what was accepted.
bool same_weights(const Baseline& accepted, const Baseline& now);

/// For a summary: `3 of 491 operators change, first aten::addmm (encoder.0)`.
std::string describe_changes(const Baseline& accepted, const Baseline& now);

}  // namespace repro_check::baselines
