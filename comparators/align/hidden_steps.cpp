// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/hidden_steps.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

using Operators = std::vector<std::uint64_t>;

/// For the record of each optimizer's step the operators of phase optimizer that were called since
/// the backward pass, or since the step before it.
std::vector<Operators> operators_before_steps(const core::DumpSource& dump) {
  std::vector<Operators> steps;
  Operators since;
  for (std::uint64_t op = 0; op < dump.op_count(); ++op) {
    const core::OpRecord head = dump.op_head(op);
    if (core::is_named_values(head)) {
      if (head.op->name == core::kStepRecord) steps.push_back(std::exchange(since, {}));
    } else if (head.phase == core::Phase::kOptimizer) {
      since.push_back(op);
    } else {
      since.clear();
    }
  }
  return steps;
}

}  // namespace

std::vector<std::uint64_t> operators_of_hidden_steps(const core::DumpSource& dump,
                                                     const core::DumpSource& other) {
  Operators hidden;
  const std::string& here = dump.manifest().trace.optimizer;
  const std::string& there = other.manifest().trace.optimizer;
  if (here.empty() || here == core::kOptimizerState || there != core::kOptimizerState)
    return hidden;
  const std::vector<Operators> all = operators_before_steps(dump);
  const std::vector<Operators> some = operators_before_steps(other);
  for (std::size_t step = 0; step < std::min(all.size(), some.size()); ++step) {
    const std::size_t both = std::min(all[step].size(), some[step].size());
    hidden.insert(
        hidden.end(), all[step].begin() + static_cast<std::ptrdiff_t>(both), all[step].end());
  }
  return hidden;
}

}  // namespace repro_check::comparators
