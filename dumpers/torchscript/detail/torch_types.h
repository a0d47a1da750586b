// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

#include "core/tensor/dtype.h"
#include "core/tensor/npy.h"

namespace repro_check::torchscript {

/// Empty when this LibTorch does not have the dtype.
std::optional<at::ScalarType> to_scalar_type(core::Dtype dtype) noexcept;

/// A tensor of its own on the CPU.
/// @throws core::Error{kUsage} when this LibTorch does not have the dtype; `what` names the source
at::Tensor to_tensor(const core::HostTensor& host, const std::string& what);

/// @throws core::Error{kUsage} when `text` is no device, or one that is not available here
at::Device parse_device(const std::string& text);

}  // namespace repro_check::torchscript
