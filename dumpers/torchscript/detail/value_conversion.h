// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <string>

#include "configs/spec/run_config.h"
#include "dumpers/torchscript/detail/input_builder.h"

namespace repro_check::torchscript {

/// One input as a value of the type a schema asks for: an integer where a float is wanted, a string
/// for a device, null for None, a list for List[...].
/// @param argument  its name, for messages
/// @throws core::Error{kUsage}
c10::IValue convert_input(const configs::InputSpec& input,
                          const c10::TypePtr& type,
                          const std::string& argument,
                          const InputContext& context);

}  // namespace repro_check::torchscript
