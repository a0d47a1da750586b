// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "comparators/report.h"
#include "core/run_manifest.h"

namespace repro_check::comparators {

/// What differs in the surroundings of two runs: how each was asked to run, settings as used,
/// variables, machine and libraries. In the order of the baseline's manifest.
std::vector<Difference> manifest_differences(const core::RunManifest& baseline,
                                             const core::RunManifest& candidate);

/// Which part of the surroundings a difference belongs to, as far as a cause can be seen in it.
enum class DifferenceGroup {
  kOther,     ///< cannot explain an operator that gets equal inputs: names, seeds, the model file
  kSettings,  ///< determinism, precision, reductions, kernels switched on or off
  kEnvironment,  ///< device, instruction set, libraries, variables
  kThreads,
};
DifferenceGroup group_of(const Difference& difference);

/// `threads.intra_op 2 -> 1`
std::string to_text(const Difference& difference);

}  // namespace repro_check::comparators
