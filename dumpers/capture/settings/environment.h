// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace repro_check::capture {

/// Accelerators this process can use, each with its index.
std::vector<c10::Device> present_devices();

/// Says that the number of threads was set by the run, not by a variable.
void note_pinned_threads(bool pinned) noexcept;

/// `default`, `avx2`, `avx512`: which CPU kernels are in use.
std::string cpu_capability();

}  // namespace repro_check::capture
