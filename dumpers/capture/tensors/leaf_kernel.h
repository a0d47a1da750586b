// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tensor/dtype.h"

namespace repro_check::capture::kernel {

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): the file is code and text
#define DEVICE [[maybe_unused]] static inline
#include "dumpers/capture/tensors/leaf_kernel.inc"
#undef DEVICE

/// What the compiler for the device is given, by which DEVICE is to be defined; the function is
/// `digest_leaves`.
inline constexpr const char* kText =
#include "dumpers/capture/tensors/leaf_kernel.inc"
    ;

/// How a dtype spells what is no number.
Odd odd_of(core::Dtype dtype);

}  // namespace repro_check::capture::kernel
