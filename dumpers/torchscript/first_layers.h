// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check::torchscript {

/// Adds to the description of a method what the weights of the model tell of its tensors.
void describe_by_weights(const torch::jit::Module& module,
                         const torch::jit::Method& method,
                         ModelDescription& description);

}  // namespace repro_check::torchscript
