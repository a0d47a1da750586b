// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

#include "core/tensor/dtype.h"

namespace repro_check::capture {

/// kUnknown for element types a dump has no name for (sub-byte integers, undefined).
core::Dtype dtype_of(c10::ScalarType type) noexcept;
std::optional<c10::ScalarType> scalar_type_of(core::Dtype dtype) noexcept;

/// `float32`, as core::dtype_name has it, or LibTorch's own word in lower case.
std::string scalar_type_name(c10::ScalarType type);

/// `strided`, `sparse_coo`, `sparse_csr`, `mkldnn`, ...
std::string layout_name(c10::Layout layout);

/// `contiguous_format`, `preserve_format`, `channels_last`, `channels_last_3d`.
std::string memory_format_name(c10::MemoryFormat format);

/// `cpu`, `cuda:0`.
void device_name(const c10::Device& device, std::string& into);

}  // namespace repro_check::capture
