// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check::torchscript {

/// Adds every tensor and every other value inside `value`, in a fixed order.
/// @param name  of the value itself; what is inside is `<name>.0`, `<name>.key`
void add_returned_values(const c10::IValue& value,
                         const std::string& name,
                         std::vector<ReturnedValue>& into);

}  // namespace repro_check::torchscript
