// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "core/trace/run_manifest.h"

namespace repro_check::capture {

/// Accelerators this process can use, each with its index.
std::vector<c10::Device> present_devices();

/// Says that the number of threads was set by the run, not by a variable.
void note_pinned_threads(bool pinned) noexcept;

/// `default`, `avx2`, `avx512`: which CPU kernels are in use.
std::string cpu_capability();

/// Digests of five fixed computations on a device, under the settings in force:
/// `probe.convolution`, `probe.matmul`, `probe.softmax`, `probe.exp`, `probe.sum`. Two machines
/// that are described alike may still compute differently; these tell them apart. Draws nothing.
/// What a device cannot compute is `unavailable`.
/// @param device  `cpu`, `cuda:0`
std::vector<core::EnvironmentFact> probe_numbers(const std::string& device);

}  // namespace repro_check::capture
