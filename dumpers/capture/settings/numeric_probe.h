// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/trace/run_manifest.h"

namespace repro_check::capture {

/// Digests of five fixed computations on a device, under the settings in force:
/// `probe.convolution`, `probe.matmul`, `probe.softmax`, `probe.exp`, `probe.sum`. Two machines
/// that are described alike may still compute differently; these tell them apart. Draws nothing.
/// What a device cannot compute is `unavailable`.
/// @param device  `cpu`, `cuda:0`
std::vector<core::EnvironmentFact> probe_numbers(const std::string& device);

}  // namespace repro_check::capture
