// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <string_view>
#include <vector>

#include "dumpers/capture/tensors/byte_ranges.h"

namespace repro_check::capture {

/// Whether an operator (`scatter_`) writes those elements of its first argument that others pick.
bool picks_elements(std::string_view base);

/// Which bytes of the storage of the first argument such an operator is going to write; empty where
/// that cannot be told.
/// @param arguments  as its schema has them
std::optional<std::vector<ByteRange>> picked_bytes(std::string_view base,
                                                   const c10::IValue* arguments);

}  // namespace repro_check::capture
