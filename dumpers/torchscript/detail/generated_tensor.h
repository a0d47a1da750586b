// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "configs/spec/run_config.h"

namespace repro_check::torchscript {

/// Makes the tensor on the CPU with RandomNumbers, in float64 or int64, and rounds it to its dtype
/// (to nearest, ties to even). Complex dtypes get the same number as real and imaginary part in
/// turn; bool is "not zero".
/// @param where  JSON pointer, for messages
/// @throws core::Error{kUsage} when the shape, dtype or range makes no sense
at::Tensor generate_tensor(const configs::GeneratedInput& input, const std::string& where);

}  // namespace repro_check::torchscript
