// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "configs/spec/run_config.h"
#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check::torchscript {

/// The tensor that one input names, new each time, on the CPU and in its own dtype. Empty when the
/// input is no tensor (a value, a list, ...).
/// @throws core::Error{kUsage} with the JSON pointer, when it cannot be read or made
std::optional<at::Tensor> read_tensor(const configs::InputSpec& input, const Hdf5Reader& hdf5);

}  // namespace repro_check::torchscript
