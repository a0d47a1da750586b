// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/tensor/tensor_record.h"

namespace repro_check::core {

/// Bytes of a content whose key has been checked: its shape has no negative sizes, and the product
/// fits.
std::uint64_t content_size(const ContentKey& key);

}  // namespace repro_check::core
