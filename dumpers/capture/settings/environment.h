// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
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

/// How many threads an OpenMP region of this process really gets, and what LibTorch says.
struct ThreadTeam {
  int reported = 0;
  int measured = 0;
};
ThreadTeam measure_team();

/// Flush-to-zero and denormals-are-zero on every thread of the team.
/// @return whether the processor can
bool set_flush_denormal(bool on);

/// Control register of SSE on the calling thread; 0 where there is none.
std::uint32_t read_mxcsr() noexcept;

}  // namespace repro_check::capture
