// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <cstddef>
#include <vector>

#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check::torchscript {

/// Adds every tensor and every other value inside `value`, in a fixed order.
/// @param call  0-based
void add_returned_values(const c10::IValue& value,
                         std::size_t call,
                         std::vector<ReturnedValue>& into);

}  // namespace repro_check::torchscript
