// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace repro_check::capture::sum_kernel {

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): the file is code and text
#define DEVICE [[maybe_unused]] static inline
#include "dumpers/capture/tensors/sum_kernel.inc"
#undef DEVICE

/// As kernel::kText; the functions are `sum_pieces` and `sum_groups`.
inline constexpr const char* kText =
#include "dumpers/capture/tensors/sum_kernel.inc"
    ;

}  // namespace repro_check::capture::sum_kernel
